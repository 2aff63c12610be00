"""Plans a template for an extension with `start_method = "template"`: the Python command that it
runs, and what its template is made from.

A template is a Python process that has imported the modules of the extension. Each start forks a
process from it, which is faster than importing them again (`process.template`).

A template can be used for a Python interpreter with a script or `-m module`, also if the first line
of a script names the interpreter, as in console scripts. `NoTemplate` has the reason why another
command cannot use one.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from exthost.launch.command_code import find_interpreter_command
from exthost.launch.command_options import UnknownOption, split_options
from exthost.launch.known_programs import known_programs, program_name
from exthost.launch.machine_check import uses_landlock
from exthost.launch.sandbox import strict
from exthost.model.launch_plan import LaunchPlan, Wrapper
from exthost.model.secret_names import looks_secret
from exthost.model.spec import Spec
from exthost.process.init_channel import SandboxCopy
from exthost.process.small_files import read_start
from exthost.process.template import TemplateInputs, find_file, pack

# The beginnings of the names of variables that an interpreter and the C library read when they
# start. Their values are not secrets.
_STARTUP_VARIABLES = ("PYTHON", "LC_", "LD_", "MALLOC_", "GLIBC_TUNABLES")
_STARTUP_NAMES = frozenset({"LANG", "LANGUAGE", "HOME", "TZ", "TZDIR", "PATH"})

# Options with which the interpreter does something else than run a script or a module.
_OTHER_USES = frozenset({"-c", "-i", "-x"})


class NoTemplate(Exception):
    """A start cannot use a template. The message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCommand:
    """A command that runs a Python script or module.

    interpreter  the path of the interpreter
    options      the options of the interpreter
    target       the path of the script, or the name of the module
    is_module    whether the target is a module
    arguments    the arguments of the program
    argv         the whole command line, as the interpreter sees it
    """

    interpreter: str
    options: tuple[str, ...]
    target: str
    is_module: bool
    arguments: tuple[str, ...]
    argv: tuple[str, ...]


def find_refusal(spec: Spec) -> str:
    """Return why no template is used for an extension, whatever its command; "" if one can be."""
    if spec.lock is not None or spec.sha256:
        # A template keeps the code that it has imported, whatever a lock or a pin compares.
        return "its code is locked or pinned"
    if uses_landlock(spec):
        return "its sandbox has no namespaces that a process could join"
    if spec.permissions is not None and spec.permissions.max_memory is not None:
        # Code in a template could keep the private files of processes that have ended in memory,
        # where no limit counts them.
        return "max_memory could not be enforced"
    return ""


def find_python_command(plan: LaunchPlan) -> PythonCommand:
    """Return the Python command of a plan. Raises NoTemplate."""
    if plan.before:
        raise NoTemplate("another program executes it")
    command = find_interpreter_command(plan.argv, plan.cwd, plan.env)
    if command is None or program_name(command.argv[0]) != "python":
        raise NoTemplate("its program is not a Python script or module")
    # `env python3` is no obstacle, as long as it sets no variables.
    wrappers = [name for name in command.wrappers if name != "env"]
    if wrappers or dict(command.env) != dict(plan.env):
        raise NoTemplate(f"it is started by {(wrappers or ['env'])[0]}")
    interpreter = _find_interpreter(command.argv[0], plan.env)
    syntax = known_programs().interpreters["python"].options
    try:
        options, rest = split_options(command.argv[1:], syntax, "python")
    except UnknownOption as error:
        raise NoTemplate(str(error)) from None
    for option, _ in options:
        if option in _OTHER_USES:
            raise NoTemplate(f"the option {option} of Python cannot be used with a template")
    is_module = bool(options) and options[-1][0] == "-m"
    if is_module:
        target = options.pop()[1]
    elif rest and rest[0] != "-":
        target = rest.pop(0)
        path = os.path.join(plan.cwd or "", target)  # noqa: PTH118
        if not os.path.isfile(path) or _is_compiled(path):  # noqa: PTH113
            raise NoTemplate(f"{target} is not a script")
    else:
        raise NoTemplate("its command names no script")
    return PythonCommand(
        interpreter=interpreter,
        options=tuple(word for option in options for word in option if word),
        target=target,
        is_module=is_module,
        arguments=tuple(rest),
        argv=command.argv,
    )


def _find_interpreter(program: str, env: Mapping[str, str]) -> str:
    """Return the path of the interpreter. Raises NoTemplate if it is not a compiled program."""
    candidates = [program]
    if "/" not in program:
        folders = (env.get("PATH") or os.defpath).split(os.pathsep)
        candidates = [f"{folder}/{program}" for folder in folders]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            if _read_magic(path, 4) != b"\x7fELF":
                raise NoTemplate(f"{path} is a script that chooses an interpreter")
            return path
    raise NoTemplate(f"{program} is not found")


def _is_compiled(path: str) -> bool:
    """Return whether a script is a compiled file or an archive."""
    return path.endswith((".pyc", ".pyz")) or _read_magic(path, 2) == b"PK"


def _read_magic(path: str, size: int) -> bytes:
    try:
        return read_start(path, size)
    except OSError:
        return b""


def plan_template(
    plan: LaunchPlan,
    command: PythonCommand,
    *,
    owner: object,
    modules: tuple[str, ...],
    refused: Iterable[str],
    reads: Collection[str],
    secrets: Collection[str],
) -> tuple[LaunchPlan, TemplateInputs]:
    """Return the plan and the inputs of the template for an extension. Raises NoTemplate if its
    processes have no namespace to join.

    owner    the owner of the template, if it has a sandbox
    modules  the modules that the program imported before, in their order
    refused  those that are not imported by a template
    reads    the variables that the modules read when they are imported; "*" if one reads all
    secrets  the variables that no template gets (`find_secret_names`)
    """
    wrapper = plan.wrapper
    if wrapper is None:
        raise NoTemplate("it has no PID namespace that a process could join")
    if wrapper.is_strict:
        wrapper = strict.plan_template(wrapper, os.uname().machine)
    names = _find_variables(plan.env, modules, reads) - set(secrets)
    # If the program itself is a module (`-m server`), the template does not import its package.
    own_package = command.target.partition(".")[0] if command.is_module else ""
    modules = tuple(name for name in modules if name.partition(".")[0] != own_package)
    inputs = TemplateInputs(
        argv=(command.interpreter, *command.options),
        env=tuple((name, plan.env[name]) for name in sorted(names)),
        options=wrapper.options,
        filter=wrapper.filter,
        mounts=tuple(map(find_file, strict.mounted_paths(wrapper))),
        cwd=plan.cwd or "",
        owner=owner if wrapper.is_strict else None,
        modules=modules,
        refused=tuple(sorted(refused)),
    )
    return replace(plan, wrapper=wrapper), inputs


def plan_copy(wrapper: Wrapper, outer: int) -> SandboxCopy:
    """Return what our init needs to make a copy of the template's sandbox, whose mounts were made
    in the user namespace `outer`."""
    return SandboxCopy(outer, strict.list_private_mounts(wrapper), strict.change_user(wrapper))


def _find_variables(
    env: Mapping[str, str], modules: tuple[str, ...], reads: Collection[str]
) -> set[str]:
    """Return the names of the variables that a template needs. If a module reads all variables,
    these are the ones whose names begin with that of a package."""
    prefixes = _package_prefixes(modules)
    return {
        name
        for name in env
        if name.startswith(_STARTUP_VARIABLES)
        or name in _STARTUP_NAMES
        or name in reads
        or ("*" in reads and prefixes and name.upper().startswith(prefixes))
    }


@lru_cache(maxsize=16)
def _package_prefixes(modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the beginnings of the names of variables that belong to the packages of these modules:
    NUMPY_ for numpy.linalg."""
    return tuple({name.partition(".")[0].upper() + "_" for name in modules})


def find_secret_names(env: Mapping[str, str], references: Collection[str]) -> frozenset[str]:
    """Return the variables of an extension that no template gets: those whose names look like that
    of a secret, and those whose values the config only refers to (`references`)."""
    return frozenset(name for name in env if name in references or looks_secret(name))


def find_secret_readers(
    secrets: Collection[str], modules: tuple[str, ...], reads: Mapping[str, str]
) -> dict[str, str]:
    """Return the modules that read a variable which a template does not get although the extension
    has it, each with the reason. They are imported by the process of the extension itself."""
    prefixes = _package_prefixes(modules)
    readers = {}
    for name in secrets:
        if name in reads:
            readers[reads[name]] = f"it reads {name} when it is imported"
        elif "*" in reads and prefixes and name.upper().startswith(prefixes):
            readers[reads["*"]] = f"it reads {name} when it is imported"
    return readers


def describe_program(plan: LaunchPlan, command: PythonCommand) -> dict[str, bytes]:
    """Return what a process that was forked from the template must know of the program: the fields
    of the message that `process.template_program` reads."""
    assert plan.wrapper is not None
    limits = (number for limit in plan.wrapper.limits for number in limit)
    # env(1) executes the interpreter by its bare name, so the process has that name.
    by_env = command.argv[0] != plan.argv[0] and "/" not in command.argv[0]
    fields = {
        "target": os.fsencode(command.target),
        "argv": pack([os.fsencode(word) for word in command.arguments]),
        "orig_argv": pack([os.fsencode(word) for word in command.argv]),
        "env": pack([os.fsencode(word) for pair in plan.env.items() for word in pair]),
        "limits": " ".join(map(str, limits)).encode(),
        "program": os.fsencode(command.argv[0] if by_env else plan.argv[0]),
        "filter": plan.wrapper.filter,
    }
    if command.is_module:
        fields["module"] = b"1"
    if plan.wrapper.is_strict:
        fields |= {"sandboxed": b"1", "no_capabilities": b"1", "no_bounding_set": b"1"}
        fields["cwd"] = os.fsencode(strict.working_folder(plan.wrapper))
    if not plan.wrapper.options:
        fields["init_makes_namespace"] = b"1"
    return fields
