"""Finds the files of a program: the executable, and the script that an interpreter runs.

A command may name many files; only these decide what the extension does. Pure, except for checking
whether an argument is a file.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from exthost.process.small_files import first_words

__all__ = ["interpreter_of", "program_files"]

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

# Options after which no script follows: the code is an argument, or a module.
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
    """Return the executed file and, if it is an interpreter, its script. The last file contains the
    extension's code."""
    words = [*argv]
    if Path(words[0]).name == "env":
        words = [words[0], *_after_env(words[1:])]
        program, rest = words[0], words[1:]
        kind = _kind(rest[0]) if rest else ""
        rest = rest[1:]
    else:
        program, rest = words[0], words[1:]
        kind = _kind(program)
    script = next(_scripts(kind, rest, cwd), "") if kind in _VALUE_OPTIONS else ""
    return (program, script) if script else (program,)


def interpreter_of(argv: Sequence[str], cwd: str | None, path: str) -> str:
    """Return the real file of the interpreter that runs a script; "" if the program is no script.
    `path` is where the extension looks programs up."""
    program = argv[0]
    if Path(program).name == "env":
        found = next(iter(_after_env(argv[1:])), "")
    elif len(program_files(argv, cwd)) > 1 or _kind(program) in _VALUE_OPTIONS:
        found = program
    else:
        words = first_words(program)
        if not words or Path(words[0]).name != "env":
            found = words[0] if words else ""
        else:
            found = next(iter(_after_env(words[1:])), "")
    if found and "/" not in found:
        found = shutil.which(found, path=path) or ""
    return os.path.realpath(os.path.join(cwd or "", found)) if found else ""  # noqa: PTH118


def _kind(program: str) -> str:
    """Return the name of an interpreter without its version: python3.12 is python."""
    return re.sub(r"[-0-9.]+$", "", Path(program).name)


def _after_env(words: Sequence[str]) -> list[str]:
    """Return what env(1) runs."""
    left = [*words]
    while left and (left[0].startswith("-") or "=" in left[0]):
        takes_value = left[0] in ("-u", "--unset", "-C", "--chdir")
        del left[: 2 if takes_value else 1]
    return left


def _scripts(kind: str, words: Sequence[str], cwd: str | None) -> Iterator[str]:
    left = iter(words)
    for word in left:
        if word in _NO_SCRIPT.get(kind, ()):
            return
        if word in _VALUE_OPTIONS[kind]:
            next(left, "")
        elif not word.startswith("-") or word == "-":
            path = os.path.join(cwd or "", word)  # noqa: PTH118
            if os.path.isfile(path):  # noqa: PTH113
                yield path
            elif kind not in ("bun", "deno"):  # `deno run script`: a verb goes before
                return
