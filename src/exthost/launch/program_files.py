"""Finds the files of a program: the executable, and the script that an interpreter runs.

A command line may name many files, but only the executable and the script contain the code of the
extension. The module reads the file system only to check whether an argument is a file, to look up
a program on PATH, to resolve symlinks, and to read the first line of a script.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from exthost.launch import wasm_runner
from exthost.process.small_files import first_words

__all__ = ["code_folders", "interpreter_of", "program_files"]

# Interpreter → its options that take a value. The value may be the name of a file, and must not be
# mistaken for the script.
_VALUE_OPTIONS: dict[str, frozenset[str]] = {
    "python": frozenset({"-W", "-X", "--check-hash-based-pycs"}),
    "pypy": frozenset({"-W", "-X"}),
    "node": frozenset({"-r", "--require", "--import", "--loader", "--env-file", "-C"}),
    "bun": frozenset({"-r", "--preload", "--cwd", "-c", "--config"}),
    "deno": frozenset({"--config", "-c", "--import-map", "--lock"}),
    "ruby": frozenset({"-r", "-I", "-C", "-E"}),
    "perl": frozenset({"-I", "-M"}),
    "php": frozenset({"-c", "-d"}),
    "lua": frozenset({"-l"}),
    "sh": frozenset({"-o", "+o"}),
    "bash": frozenset({"-o", "+o", "-O", "--rcfile", "--init-file"}),
    "dash": frozenset({"-o", "+o"}),
    "zsh": frozenset({"-o", "+o"}),
    "java": frozenset({"-cp", "-classpath", "--class-path", "--module-path", "-p"}),
}

# Interpreters that import nothing by themselves.
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})

# Options after which no script follows: the code is the next argument, or a module.
_NO_SCRIPT = {
    "python": frozenset({"-c", "-m"}),
    "pypy": frozenset({"-c", "-m"}),
    "node": frozenset({"-e", "--eval", "-p", "--print"}),
    "bun": frozenset({"-e", "--eval"}),
    "ruby": frozenset({"-e"}),
    "perl": frozenset({"-e", "-E"}),
    "php": frozenset({"-r"}),
    "lua": frozenset({"-e"}),
    "sh": frozenset({"-c"}),
    "bash": frozenset({"-c"}),
    "dash": frozenset({"-c"}),
    "zsh": frozenset({"-c"}),
}


def program_files(argv: Sequence[str], cwd: str | None) -> tuple[str, ...]:
    """Return the executed file and, if it is an interpreter, its script. The last file of the
    result contains the extension's code."""
    program, arguments = argv[0], [*argv[1:]]
    interpreter = _interpreter_name(program)
    if Path(program).name == "env":
        # env(1) runs another program: its name is the first of the remaining arguments.
        command = _command_of_env(arguments)
        interpreter = _interpreter_name(command[0]) if command else ""
        arguments = command[1:]
    script = (
        next(_scripts(interpreter, arguments, cwd), "") if interpreter in _VALUE_OPTIONS else ""
    )
    if script == wasm_runner.__file__:  # the module that it runs is the argument after it
        script = arguments[arguments.index(script) + 1]
    return (program, script) if script else (program,)


def code_folders(argv: Sequence[str], cwd: str | None) -> tuple[str, ...]:
    """Return the folder from which an interpreter imports further code without being told to: that
    of the script, or the working folder if a module (`python -m`) or a text is run. It is empty
    for a program that is no script, for a shell, and for a Python that imports from neither."""
    program, arguments = argv[0], [*argv[1:]]
    if Path(program).name == "env" and (command := _command_of_env(arguments)):
        program, arguments = command[0], command[1:]
    interpreter = _interpreter_name(program)
    script = ""
    if interpreter not in _VALUE_OPTIONS:
        script = os.path.join(cwd or "", program)  # noqa: PTH118
        shebang = first_words(script) if "/" in program else []
        if shebang and Path(shebang[0]).name == "env":
            shebang = _command_of_env(shebang[1:])
        interpreter, arguments = _interpreter_name(shebang[0]) if shebang else "", shebang[1:]
    if interpreter not in _VALUE_OPTIONS or interpreter in _SHELLS:
        return ()
    if interpreter in ("python", "pypy") and _is_isolated(arguments):
        return ()
    script = script or next(_scripts(interpreter, arguments, cwd), "")
    return (os.path.dirname(os.path.realpath(script)) if script else cwd or ".",)  # noqa: PTH120


def _is_isolated(arguments: Sequence[str]) -> bool:
    """Return whether the options of Python have -I or -P, as in `-Im` or `-B -P`."""
    for argument in arguments:
        if not argument.startswith("-") or argument.startswith("--"):
            return False
        # The letters before the one that takes the rest as its value.
        letters = re.split("[cmWX]", argument[1:], maxsplit=1)[0]
        if "I" in letters or "P" in letters:
            return True
    return False


def interpreter_of(argv: Sequence[str], cwd: str | None, path: str) -> str:
    """Return the real path of the interpreter that runs a script; "" if the program is not a
    script. `path` is the PATH of the extension, on which a bare name is looked up."""
    program = argv[0]
    if Path(program).name == "env":
        interpreter = next(iter(_command_of_env(argv[1:])), "")
    elif len(program_files(argv, cwd)) > 1 or _interpreter_name(program) in _VALUE_OPTIONS:
        interpreter = program
    else:
        shebang = first_words(program)
        if not shebang or Path(shebang[0]).name != "env":
            interpreter = shebang[0] if shebang else ""
        else:
            interpreter = next(iter(_command_of_env(shebang[1:])), "")
    if interpreter and "/" not in interpreter:
        interpreter = shutil.which(interpreter, path=path) or ""
    if not interpreter:
        return ""
    return os.path.realpath(os.path.join(cwd or "", interpreter))  # noqa: PTH118


def _interpreter_name(program: str) -> str:
    """Return the name of a program without its version: python for /usr/bin/python3.12."""
    return re.sub(r"[-0-9.]+$", "", Path(program).name)


def _command_of_env(arguments: Sequence[str]) -> list[str]:
    """Return the command that env(1) runs: its arguments without its options and variables."""
    command = [*arguments]
    while command and (command[0].startswith("-") or "=" in command[0]):
        takes_value = command[0] in ("-u", "--unset", "-C", "--chdir")
        del command[: 2 if takes_value else 1]
    return command


def _scripts(interpreter: str, arguments: Sequence[str], cwd: str | None) -> Iterator[str]:
    """Yield the files among the arguments of an interpreter that can be its script."""
    remaining = iter(arguments)
    for argument in remaining:
        if argument in _NO_SCRIPT.get(interpreter, ()):
            return
        if argument in _VALUE_OPTIONS[interpreter]:
            next(remaining, "")
        elif not argument.startswith("-") or argument == "-":  # "-" is stdin, not an option
            path = os.path.join(cwd or "", argument)  # noqa: PTH118
            if os.path.isfile(path):  # noqa: PTH113
                yield path
            elif interpreter not in ("bun", "deno"):  # these have a subcommand: `deno run script`
                return
