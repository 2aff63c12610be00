"""Finds the files of a program: the executable, the script that an interpreter runs, and the folder
that the interpreter imports from.

`command_code` reads the command. The functions here are for callers that need paths only: those
that protect code from an extension that may write it (`code_paths`, `shared_folders`). For
`python3 app/run.py`, they return the paths of `python3`, of `app/run.py` and of `app`.
"""

import os
import re
from collections.abc import Iterator, Sequence

from exthost.launch.command_code import CodeKind, find_code, find_interpreter_command
from exthost.launch.known_programs import SHELLS, program_name


def program_files(argv: Sequence[str], cwd: str | None) -> tuple[str, ...]:
    """Return the executed file and, if it is an interpreter or a wrapper, the file or folder that
    the command names as the code. If it is not known which one that is, return all files that the
    command names."""
    code = find_code(argv, cwd, {})
    program = os.path.join(cwd or "", argv[0])  # noqa: PTH118
    if code.kind is CodeKind.UNKNOWN:
        return (argv[0], *_named_files(argv[1:], cwd))
    is_named = code.kind in (CodeKind.FILE, CodeKind.FOLDER)
    return (argv[0], code.path) if is_named and code.path != program else (argv[0],)


def code_folders(argv: Sequence[str], cwd: str | None) -> tuple[str, ...]:
    """Return the folders from which an interpreter imports further code by itself: the folder of
    the script, or the working folder if a module (`python -m`) or a text is run. Empty for a
    program that is not a script, for a shell, and for a Python that imports from neither folder."""
    command = find_interpreter_command(argv, cwd, {})
    if command is None or program_name(command.argv[0]) in SHELLS:
        return ()
    code = find_code(argv, cwd, {})
    if code.kind is CodeKind.FOLDER:
        return (os.path.realpath(code.path),)
    is_python = program_name(command.argv[0]) in ("python", "pypy")
    if is_python and _is_isolated(command.argv[1:]):
        return ()
    if code.kind is CodeKind.FILE:
        return (os.path.dirname(os.path.realpath(code.path)),)  # noqa: PTH120
    working_folder = command.cwd or "."
    if code.kind is not CodeKind.UNKNOWN:
        return (working_folder,)
    files = map(os.path.realpath, _named_files(command.argv[1:], command.cwd))
    return tuple(dict.fromkeys((working_folder, *map(os.path.dirname, files))))


def _named_files(words: Sequence[str], cwd: str | None) -> Iterator[str]:
    """Yield the paths among the arguments of a command at which there are files. A name of an
    object can follow, as in `run.py:app`."""
    for word in words:
        for name in (word, word.rpartition(":")[0]):
            path = os.path.join(cwd or "", name)  # noqa: PTH118
            if name and os.path.isfile(path):  # noqa: PTH113
                yield path
                break


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
    """Return the real path of the interpreter that runs the code; "" if the program is not a script
    and not an interpreter. `path` is the PATH of the extension, on which a bare name is looked
    up."""
    return find_code(argv, cwd, {"PATH": path}).interpreter
