"""Keeps a locked extension from running compiled Python files that its lock does not cover.

A lock leaves `__pycache__` out, because its files differ on each machine. Python runs them in place
of the source, if a file says that it was made from the source. So a locked extension must not read
those in its own folder:

- Without a sandbox, Python keeps its compiled files in a folder of the host (`pycache_prefix`): one
  for each digest of the package, empty at first. The first start after a change compiles
  everything; later ones are as fast as without a lock.
- In a sandbox, an empty folder hides each `__pycache__`, and Python compiles these modules at each
  start. The modules of a package with many such folders are compiled once by exthost
  (`sealed_bytecode`), and Python reads only the result. Where that is not possible, Python looks
  where nothing can be, and compiles everything at each start.

The variables hold for all Python processes of the extension that inherit them. If the command makes
Python ignore variables (`-I`, `-E`), it gets an option instead; if that is not possible, and the
folder has compiled files, the extension is refused.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace

from exthost.errors import Refused
from exthost.launch.command_code import find_interpreter_command
from exthost.launch.command_options import UnknownOption, split_options
from exthost.launch.known_programs import known_programs, program_name
from exthost.model.launch_plan import LaunchPlan
from exthost.model.lock_record import Bytecode
from exthost.model.spec import Spec
from exthost.process.environment import Variables
from exthost.process.private_folders import make_folder
from exthost.process.state_dirs import bytecode_root
from exthost.process.user_ids import find_inaccessible_folder

_PREFIX = "PYTHONPYCACHEPREFIX"
_NO_WRITING = "PYTHONDONTWRITEBYTECODE"

# A path at which no file can be.
_NOWHERE = "/dev/null/bytecode"


def hide_bytecode(
    spec: Spec,
    plan: LaunchPlan,
    environ: Mapping[str, str],
    bytecode: Bytecode,
    uid: int | None = None,
) -> LaunchPlan:
    """Return the plan of a locked extension, with which Python does not run compiled files of its
    folder. `uid` is the user that the extension runs as; None for that of the host. Raises
    Refused if that is not possible."""
    lock = spec.lock
    is_covered = lock is not None and bool(lock.record.package or lock.record.program)
    if lock is None or lock.mode == "warn" or not is_covered or spec.source == "wasm":
        return plan
    # Whether the compiled files are hidden only if Python obeys the variables.
    needs_variables = bool(bytecode.caches)
    wrapper = plan.wrapper
    if wrapper is not None and wrapper.is_strict:
        # Imported lazily, as is `sealed_bytecode`: only sandboxed extensions need them.
        from exthost.launch.sandbox.strict import hide_folders, with_folder

        needs_variables = not bytecode.is_small
        settings = {_NO_WRITING: "1"}
        if bytecode.is_small:
            plan = replace(plan, wrapper=hide_folders(wrapper, bytecode.caches))
        elif bytecode.caches:
            from exthost.launch.sealed_bytecode import find_sealed

            sealed = find_sealed(spec, plan, environ, bytecode, uid)
            settings[_PREFIX] = _NOWHERE if sealed is None else str(sealed)
            if sealed is not None:
                inaccessible = "" if uid is None else find_inaccessible_folder(str(sealed), uid)
                plan = replace(plan, wrapper=with_folder(wrapper, str(sealed), inaccessible))
    else:
        digest = (lock.record.package or lock.record.program).removeprefix("sha256:")
        settings = {_PREFIX: _make_folder(spec, environ, digest[:32])}
    # A folder that the config names for compiled files may be one that the extension can write.
    own = (_NO_WRITING, _PREFIX)
    variables = {name: value for name, value in plan.env.items() if name not in own}
    plan = replace(plan, env=Variables(variables | settings))
    if needs_variables and (flags := _ignoring_flags(plan)):
        prefix = settings.get(_PREFIX, _NOWHERE)
        if program_name(plan.argv[0]) != "python":
            raise Refused(
                "X1827",
                f"its folder has compiled Python files, which no lock covers, and {flags} keeps "
                "exthost from hiding them",
                extension=spec.id,
                help=f"delete the folders __pycache__, and leave {flags} out of the command",
            )
        options = ("-X", f"pycache_prefix={prefix}")
        plan = replace(plan, argv=(plan.argv[0], *options, *plan.argv[1:]))
    return plan


def _ignoring_flags(plan: LaunchPlan) -> str:
    """Return the option with which a command makes Python ignore variables, or the wrappers that
    change the variables; "" if there are none."""
    inner = find_interpreter_command(plan.argv, plan.cwd, plan.env)
    if inner is None or program_name(os.path.realpath(inner.argv[0])) != "python":
        return ""
    if inner.env.get(_PREFIX) != plan.env.get(_PREFIX):
        return " ".join(inner.wrappers) or "env"
    return _find_flag(inner.argv[1:])


def _find_flag(words: Sequence[str]) -> str:
    """Return the option of Python that makes it ignore variables, -E or -I; "" if there is none. If
    the options cannot be read, return the first word that may have it."""
    try:
        options, _ = split_options(words, known_programs().interpreters["python"].options, "python")
    except UnknownOption:
        return next((word for word in words if re.fullmatch("-[A-Za-z]*[EI].*", word)), "")
    return next((option for option, _ in options if option in ("-E", "-I")), "")


def _make_folder(spec: Spec, environ: Mapping[str, str], digest: str) -> str:
    """Return the folder for the compiled files of an extension, and delete those of other digests.
    If it cannot be made, return a path at which there is nothing."""
    parent = bytecode_root(environ, spec.id)
    folder = parent / digest
    try:
        if not folder.is_dir():
            make_folder(folder)
            for other in parent.iterdir():
                if other.name != digest:
                    shutil.rmtree(other, ignore_errors=True)
    except OSError:
        return _NOWHERE
    return str(folder)
