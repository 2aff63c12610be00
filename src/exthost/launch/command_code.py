"""Finds the code that a command runs: a file, a folder, a module or a package of a registry. For
`timeout 60 python3 run.py` this is `run.py`. Pins, locks and templates need to know it.

`find_code` looks through wrappers (`timeout 60 …`) and reads the options of interpreters
(`python3 -m …`) and runners (`npx …`), by the tables in `known_programs`. Nothing is executed. The
file system is read to look up programs on PATH, to resolve symlinks, and to find files, modules and
installed packages. If the tables do not say which code runs, the result has the reason, and no
digest of that code can be compared.

A program that is in no table is itself the code, unless an argument names code that it may run.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import PurePath
from typing import NamedTuple

from exthost.launch import known_tools, wasm_runner
from exthost.launch.command_options import UnknownOption, split_options
from exthost.launch.known_programs import Interpreter, known_programs, program_name
from exthost.launch.package_runners import PACKAGE_RUNNERS, UnknownPackage
from exthost.launch.python_modules import UnknownModule, find_module
from exthost.process.small_files import first_words

# How many wrappers are looked through, each inside the one before.
_MAX_WRAPPERS = 8

# The names of folders with installed programs.
PROGRAM_FOLDERS = frozenset({"bin", "sbin", "shims", ".bin", "Scripts"})

_PIN_PACKAGE = "set cwd to the folder of its code, and pin that: sha256 = { package = … }"


class CodeKind(StrEnum):
    """In which form a command names its code."""

    FILE = "file"  # a program, or the script of an interpreter
    FOLDER = "folder"  # `python3 app/`
    MODULE = "module"  # `python3 -m app`
    PACKAGE = "package"  # `npx app@1.2.3`
    TEXT = "text"  # the code itself is an argument: `sh -c …`
    UNKNOWN = "unknown"


class Certainty(StrEnum):
    """How the code of a command was found."""

    NAMED = "named"  # the command names the file or folder
    SEARCHED = "searched"  # it is where the interpreter or runner looks for it
    EXPECTED = "expected"  # a runner such as npx would run it today, but may choose other code
    UNKNOWN = "unknown"


class ProgramCode(NamedTuple):
    """The code that a command runs.

    kind         in which form the command names the code
    certainty    how the code was found
    name         what the command calls the code: a path, a module, or a package
    path         the file or folder with the code; "" if it is not known
    version      the version of a package; "" for any other code
    interpreter  the real path of the program that reads the code; "" if the system executes the
                 code itself, or if the interpreter is not known
    wrappers     the names of the programs around it, such as "timeout", from the outside
    reason       why the code is not known, or not certain; "" if it is
    advice       what to do in that case
    """

    kind: CodeKind
    certainty: Certainty
    name: str
    path: str = ""
    version: str = ""
    interpreter: str = ""
    wrappers: tuple[str, ...] = ()
    reason: str = ""
    advice: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether the command runs this code and no other, so that its digest can be pinned."""
        return self.certainty in (Certainty.NAMED, Certainty.SEARCHED)


class InnerCommand(NamedTuple):
    """A command inside its wrappers.

    argv      the command
    cwd       its working folder; None for that of the host
    env       its environment variables
    wrappers  the names of the wrappers, from the outside
    """

    argv: tuple[str, ...]
    cwd: str | None
    env: Mapping[str, str]
    wrappers: tuple[str, ...] = ()

    def path_of(self, name: str) -> str:
        """Return a path relative to the working folder."""
        return os.path.join(self.cwd or "", name)  # noqa: PTH118


class _UnknownCode(Exception):
    """It is not known which code a command runs."""

    def __init__(self, reason: str, advice: str = "", kind: CodeKind = CodeKind.UNKNOWN) -> None:
        super().__init__(reason)
        self.advice = advice or _PIN_PACKAGE
        self.kind = kind


def find_code(argv: Sequence[str], cwd: str | None, env: Mapping[str, str]) -> ProgramCode:
    """Return the code that a command runs. `cwd` is its working folder, None for that of the host;
    `env` are its environment variables."""
    command = InnerCommand(argv=tuple(argv), cwd=cwd, env=env)
    try:
        command = _unwrap(command)
        code = _code_of(command)
    except (UnknownOption, _UnknownCode) as error:
        code = ProgramCode(
            kind=error.kind if isinstance(error, _UnknownCode) else CodeKind.UNKNOWN,
            certainty=Certainty.UNKNOWN,
            name=command.argv[0],
            interpreter=_interpreter_path(command),
            reason=str(error),
            advice=error.advice if isinstance(error, _UnknownCode) else _PIN_PACKAGE,
        )
    if code.path == wasm_runner.__file__:
        # exthost's own program for WebAssembly. The module that it runs is the argument after it.
        module = command.argv[command.argv.index(code.path) + 1]
        code = code._replace(name=module, path=module)
    return code._replace(wrappers=command.wrappers)


def find_interpreter_command(
    argv: Sequence[str], cwd: str | None, env: Mapping[str, str]
) -> InnerCommand | None:
    """Return the command inside all wrappers whose program is an interpreter: the command itself,
    or the one that the first line (`#!`) of its program stands for; None if no known interpreter
    runs the code."""
    command = InnerCommand(argv=tuple(argv), cwd=cwd, env=env)
    try:
        command = _unwrap(command)
        if _known_name(command) not in known_programs().interpreters:
            command = _first_line_command(_find_program(command), command) or command
    except (UnknownOption, _UnknownCode):
        pass
    return command if _known_name(command) in known_programs().interpreters else None


# -- wrappers --------------------------------------------------------------------------------------


def unwrap_once(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> InnerCommand | None:
    """Return the command that a wrapper executes, with its working folder and variables; None if
    the program is not a wrapper, or if it is not known what it executes."""
    command = InnerCommand(argv=tuple(argv), cwd=cwd, env=env)
    name = _known_name(command)
    if name not in known_programs().wrappers or not _is_installed(command):
        return None
    try:
        return _unwrap_once(command, name)
    except (UnknownOption, _UnknownCode):
        return None


def _unwrap(command: InnerCommand) -> InnerCommand:
    """Return the command that the wrappers of a command execute; the command itself if it has no
    wrapper. Raises UnknownOption or _UnknownCode."""
    for _ in range(_MAX_WRAPPERS):
        name = _known_name(command)
        if name not in known_programs().wrappers or not _is_installed(command):
            return command
        command = _unwrap_once(command, name)
    raise _UnknownCode(f"it has more than {_MAX_WRAPPERS} wrappers")


def _unwrap_once(command: InnerCommand, name: str) -> InnerCommand:
    """Return the command that the wrapper of this name executes. Raises UnknownOption or
    _UnknownCode."""
    wrapper = known_programs().wrappers[name]
    arguments = [*command.argv[1:]]
    if wrapper.numbers and arguments and re.fullmatch("-[-+]?[0-9]+", arguments[0]):
        del arguments[0]
    options, rest = split_options(arguments, wrapper.options, name)
    cwd, env = command.cwd, dict(command.env)
    for option, value in options:
        if option in wrapper.text:
            raise _UnknownCode(f"{name} {option} runs code other than a script", kind=CodeKind.TEXT)
        if option in wrapper.chdir:
            cwd = os.path.join(cwd or "", value)  # noqa: PTH118
    if name == "env":
        rest = _apply_env(options, rest, env)
        if rest and rest[0].startswith("-"):  # the string of -S has options of its own
            return command._replace(argv=(command.argv[0], *rest), cwd=cwd, env=env)
    for operand in rest[: wrapper.operands]:
        if not re.fullmatch(wrapper.operand, operand):
            raise _UnknownCode(f"the argument {operand} of {name} is not known to exthost")
    rest = rest[wrapper.operands :]
    if rest[:1] == ["--"]:
        del rest[0]
    if not rest:
        raise _UnknownCode(f"{name} is given no command")
    return InnerCommand(argv=tuple(rest), cwd=cwd, env=env, wrappers=(*command.wrappers, name))


def _apply_env(options: list[tuple[str, str]], rest: list[str], env: dict[str, str]) -> list[str]:
    """Change the variables as env(1) does, and return the arguments after its own."""
    for option, value in options:
        if option in ("-i", "-", "--ignore-environment"):
            env.clear()
        elif option in ("-u", "--unset"):
            env.pop(value, None)
        elif option in ("-S", "--split-string"):
            rest = [*_split_string(value), *rest]
    while rest and "=" in rest[0] and not rest[0].startswith("-"):
        variable, _, value = rest[0].partition("=")
        env[variable] = value
        rest = rest[1:]
    return rest


def _split_string(text: str) -> list[str]:
    """Return the words of the string of `env -S`."""
    if any(character in text for character in "\\$#"):
        raise UnknownOption("the string of env -S has a character with a special meaning")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UnknownOption(f"the string of env -S cannot be read: {error}") from None


# -- programs --------------------------------------------------------------------------------------


def _code_of(command: InnerCommand) -> ProgramCode:
    """Return the code of a command without wrappers. Raises UnknownOption or _UnknownCode."""
    name = _known_name(command)
    if name in known_programs().interpreters:
        return _code_of_interpreter(known_programs().interpreters[name], name, command)
    program = _find_program(command)
    if _is_installed(command):
        if name in PACKAGE_RUNNERS:
            return _code_of_package(name, program, command)
        if name == "uv":
            return _code_of_uv(program, command)
        runners = known_programs().runners
        if advice := runners.get(name) or runners.get(" ".join((name, *command.argv[1:2]))):
            raise _UnknownCode(f"{name} runs code that its arguments do not name as a file", advice)
    _refuse_unknown_wrapper(program, command)
    code = ProgramCode(
        kind=CodeKind.FILE, certainty=Certainty.NAMED, name=command.argv[0], path=program
    )
    return _with_first_line(code, command)


def _find_program(command: InnerCommand) -> str:
    """Return the path of the program of a command. Raises _UnknownCode if it is not on PATH."""
    program = command.argv[0]
    if "/" in program:
        return command.path_of(program)
    for folder in (command.env.get("PATH") or os.defpath).split(os.pathsep):
        path = os.path.join(command.path_of(folder), program)  # noqa: PTH118
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            return path
    raise _UnknownCode(f"{program} is not on PATH")


def _known_name(command: InnerCommand) -> str:
    """Return the name under which a program is in a table: that of its path or, if it is a link to
    an interpreter, that of the interpreter."""
    name = program_name(command.argv[0])
    known = known_programs()
    if any(name in table for table in (known.interpreters, known.wrappers, known.runners)):
        return name
    if name in PACKAGE_RUNNERS:
        return name
    try:
        real_name = program_name(os.path.realpath(_find_program(command)))
    except _UnknownCode:
        return name
    return real_name if real_name in known.interpreters else name


def _is_installed(command: InnerCommand) -> bool:
    """Return whether a program is not one of the extension's own: whether it is on PATH, in a
    folder of programs, or outside the working folder. Only then does its name say that it is a
    wrapper or a runner. An extension can have a program `time` of its own."""
    program = command.argv[0]
    if "/" not in program:
        return True
    working_folder = os.path.realpath(command.path_of("."))
    folder = os.path.realpath(os.path.dirname(command.path_of(program)))  # noqa: PTH120
    is_inside = folder == working_folder or folder.startswith(f"{working_folder.rstrip('/')}/")
    is_on_path = os.path.dirname(command.path_of(program)) in (  # noqa: PTH120
        command.env.get("PATH") or os.defpath
    ).split(os.pathsep)
    return not is_inside or is_on_path or PurePath(folder).name in PROGRAM_FOLDERS


def _interpreter_path(command: InnerCommand) -> str:
    """Return the real path of the program if it is an interpreter; otherwise ""."""
    if _known_name(command) not in known_programs().interpreters:
        return ""
    try:
        return os.path.realpath(_find_program(command))
    except _UnknownCode:
        return ""


def _refuse_unknown_wrapper(program: str, command: InnerCommand) -> None:
    """Raise _UnknownCode if the arguments of a program are a command themselves: an interpreter,
    and code that exists. The program is then probably a wrapper that is in no table. If it is an
    installed program and an argument names code, it is probably an interpreter in no table."""
    # Not its path, which differs between the machines that share a lock.
    name = PurePath(program).name
    for index, word in enumerate(command.argv[1:], 1):
        if program_name(word) in known_programs().interpreters:
            code = find_code(command.argv[index:], command.cwd, command.env)
            if code.path and os.path.exists(code.path):  # noqa: PTH110
                raise _UnknownCode(f"{name} may run {code.path}: whether it does is not known")
    if _is_installed(command) and (file := find_code_argument(command.argv, command.cwd)):
        raise _UnknownCode(f"{name} may run {file}: whether it does is not known")


def find_code_argument(argv: Sequence[str], cwd: str | None) -> str:
    """Return the path of the first argument that is a file with the name of code, or a script with
    a first line (`#!`); "" if there is none."""
    for word in argv[1:]:
        path = os.path.join(cwd or "", word.rpartition("=")[2])  # noqa: PTH118
        if not os.path.isfile(path):  # noqa: PTH113
            continue
        if PurePath(path).suffix.lower() in known_tools.SCRIPT_SUFFIXES or first_words(path):
            return path
    return ""


def _first_line_command(program: str, command: InnerCommand) -> InnerCommand | None:
    """Return the command that the kernel executes for a script with a first line (`#!`); None for a
    program without one. Raises UnknownOption or _UnknownCode."""
    words = first_words(program)
    if not words:
        return None
    # The kernel passes the rest of the line as one argument, and then the path of the script.
    options = (" ".join(words[1:]),) if words[1:] else ()
    return _unwrap(command._replace(argv=(words[0], *options, program, *command.argv[1:])))


def _with_first_line(code: ProgramCode, command: InnerCommand) -> ProgramCode:
    """Return the code of a program, with the interpreter of its first line. Raises _UnknownCode if
    the first line makes the interpreter run other code than this file."""
    try:
        inner = _first_line_command(code.path, command)
        if inner is None:
            return code
        code = code._replace(interpreter=os.path.realpath(_find_program(inner)))
        if (name := _known_name(inner)) not in known_programs().interpreters:
            return code
        target = _code_of_interpreter(known_programs().interpreters[name], name, inner)
    except UnknownOption:
        return code
    if target.path != code.path:
        raise _UnknownCode(f"the first line of {code.path} runs {target.name}")
    return code


# -- interpreters ----------------------------------------------------------------------------------


def _code_of_interpreter(interpreter: Interpreter, name: str, command: InnerCommand) -> ProgramCode:
    """Return the code that an interpreter runs. Raises UnknownOption or _UnknownCode."""
    options, rest = split_options(command.argv[1:], interpreter.options, name)
    if rest and rest[0] in interpreter.commands:  # such as `deno run`
        more_options, rest_after = split_options(rest[1:], interpreter.options, name)
        options, rest = [*options, (rest[0], ""), *more_options], rest_after
    for variable in interpreter.variables:  # such as NODE_OPTIONS
        words = command.env.get(variable, "").split()
        options = [*split_options(words, interpreter.options, variable)[0], *options]
    for option, value in options:
        if option in interpreter.chdir:
            command = command._replace(cwd=command.path_of(value))
    _refuse_other_code(interpreter, name, options, command)
    modules = [value for option, value in options if option in interpreter.module]
    if modules:
        code = _code_of_module(name, modules[0], options, command)
    else:
        if name == "java":
            rest = _java_entry(options, rest)
        scripts = [value for option, value in options if option in interpreter.script]
        # The script is the value of an option, or else the first argument; "" if there is neither.
        code = _code_of_script(interpreter, name, (*scripts, *rest, "")[0], command)
    return code._replace(interpreter=_interpreter_path(command))


def _refuse_other_code(
    interpreter: Interpreter, name: str, options: list[tuple[str, str]], command: InnerCommand
) -> None:
    """Raise _UnknownCode if the options or variables make an interpreter run code that is not in a
    file, or other code before the script."""
    for option, _ in options:
        if option in interpreter.text:
            raise _text_error(f"{name} {option} runs code other than a script, or from stdin")
    for option, value in options:
        text = f"{name} {option} {value}".rstrip()
        if option in interpreter.preload:
            raise _UnknownCode(f"{text} runs further code")
        if option in interpreter.watch:
            raise _UnknownCode(f"{text} runs files again when they change", "remove that option")
    for variable in interpreter.sourced:
        if command.env.get(variable):
            raise _UnknownCode(f"the variable {variable} makes {name} run further code")
    for file in interpreter.settings:
        if os.path.lexists(command.path_of(file)):
            raise _UnknownCode(f"{command.path_of(file)} can make {name} run further code")


def _text_error(reason: str) -> _UnknownCode:
    return _UnknownCode(reason, "write the code to a script, and run that", CodeKind.TEXT)


def _code_of_script(
    interpreter: Interpreter, name: str, script: str, command: InnerCommand
) -> ProgramCode:
    """Return the code of a script, as a file or a folder. Raises _UnknownCode."""
    if script in ("", "-"):
        raise _text_error(f"{name} has no script, and runs code from stdin")
    if interpreter.commands and "." not in script and "/" not in script:
        raise _UnknownCode(
            f"{script} is not a file: it is a command of {name}, a package, or in package.json"
        )
    path = command.path_of(script)
    if not os.path.isfile(path):  # noqa: PTH113
        files = (path + suffix for suffix in interpreter.suffixes)
        path = next((file for file in files if os.path.isfile(file)), path)  # noqa: PTH113
    kind = CodeKind.FILE
    if os.path.isdir(path):  # noqa: PTH112
        if not interpreter.folders:
            raise _UnknownCode(f"{path} is a folder")
        kind = CodeKind.FOLDER
    elif interpreter.commands and not os.path.isfile(path):  # noqa: PTH113
        raise _UnknownCode(f"{script}, which {name} runs, is not a file")
    return ProgramCode(kind=kind, certainty=Certainty.NAMED, name=script, path=path)


def _code_of_module(
    name: str, module: str, options: list[tuple[str, str]], command: InnerCommand
) -> ProgramCode:
    """Return the code of `python -m MODULE`. Raises _UnknownCode."""
    if name != "python":
        raise _UnknownCode(f"where {name} finds the module {module} is not known")
    if module.partition(".")[0] in known_programs().modules_that_run_code:
        raise _UnknownCode(
            f"the module {module} runs code that its arguments name",
            "run a script or a module of the extension itself",
        )
    flags = frozenset(option for option, _ in options)
    try:
        path = find_module(module, _find_program(command), flags, command.cwd, command.env)
    except UnknownModule as error:
        raise _UnknownCode(str(error)) from None
    return ProgramCode(kind=CodeKind.MODULE, certainty=Certainty.SEARCHED, name=module, path=path)


def _java_entry(options: list[tuple[str, str]], rest: list[str]) -> list[str]:
    """Return the arguments of java without options, beginning with the file that it runs: a jar or
    source file, or the only entry of the class path."""
    if rest and rest[0].startswith("@"):
        raise _UnknownCode("java reads its arguments from a file")
    is_jar = any(option == "-jar" for option, _ in options)
    if is_jar or (rest and rest[0].endswith(".java")):
        return rest
    class_paths = [
        value for option, value in options if option in ("-cp", "-classpath", "--class-path")
    ]
    if not rest or not class_paths or not class_paths[-1].endswith(".jar"):
        raise _UnknownCode("java runs a class, and its class path is not one jar file")
    if os.pathsep in class_paths[-1]:
        raise _UnknownCode("the class path of java has several entries")
    return class_paths[-1:]


# -- runners ---------------------------------------------------------------------------------------


def _code_of_package(name: str, program: str, command: InnerCommand) -> ProgramCode:
    """Return the code of a command of npx, npm or uvx. Raises UnknownOption or _UnknownCode."""
    try:
        find = PACKAGE_RUNNERS[name]
        package = find(command.argv[1:], program, command.cwd or ".", command.env)
    except UnknownPackage as error:
        raise _UnknownCode(str(error), error.advice) from None
    interpreter = package.interpreter
    if not interpreter:  # the runner is a script for the same interpreter
        first_line = _first_line_command(program, command)
        interpreter = _interpreter_path(first_line) if first_line is not None else ""
    return ProgramCode(
        kind=CodeKind.PACKAGE,
        certainty=Certainty.EXPECTED if package.uncertainty else Certainty.SEARCHED,
        name=package.name,
        path=package.folder,
        version=package.version,
        interpreter=interpreter,
        reason=package.uncertainty,
        advice=package.advice,
    )


def _code_of_uv(program: str, command: InnerCommand) -> ProgramCode:
    """Return the code of `uv run FILE`, `uv run python FILE` or `uv tool run PACKAGE`."""
    known = known_programs()
    options, rest = split_options(command.argv[1:], known.runner_options["uv"], "uv")
    if rest[:2] == ["tool", "run"] and not options:
        inner = command._replace(argv=("uvx", *rest[2:]))
        return _code_of_package("uvx", program, inner)
    if rest[:1] != ["run"]:
        raise _UnknownCode(f"uv {' '.join(rest[:1])} does not name the code that it runs")
    more_options, rest = split_options(rest[1:], known.runner_options["uv run"], "uv run")
    for option, value in (*options, *more_options):
        if option == "--directory":
            command = command._replace(cwd=command.path_of(value))
    if not rest:
        raise _text_error("uv run is given no script")
    python = known.interpreters["python"]
    if program_name(rest[0]) == "python":
        arguments, rest = split_options(rest[1:], python.options, "python")
        _refuse_other_code(python, "python", arguments, command)
        if any(option in python.module for option, _ in arguments):
            raise _UnknownCode("which environment uv finds the module in is not known")
    elif not rest[0].endswith(".py"):
        raise _UnknownCode(
            f"which program {rest[0]} uv runs is not known", "name the script: uv run FILE.py"
        )
    return _code_of_script(python, "python", (*rest, "")[0], command)
