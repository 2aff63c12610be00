"""The programs whose arguments name the code that runs: wrappers, interpreters, runners.

`known_programs.toml` lists them, and `command_code` reads commands by that list. A wrapper
(`timeout 60 COMMAND`) executes another command. An interpreter (`python3 run.py`) reads code. A
runner (`npx`, `docker run`) finds or fetches the code itself. An option that is not in the table of
its program makes the code unknown, because it may take the next argument as its value.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

from exthost.model.package_tables import read_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSyntax:
    """The options of a program.

    flags     options without a value; "--name" also stands for "--name=value"
    values    options with a value, in the same argument or in the next one
    last      options after which every argument belongs to the code
    prefixes  beginnings of options without a value, such as "-D" of java
    joined    whether the letters of short options can share an argument, as in "-Bm"
    """

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    last: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    joined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWrapper:
    """A program that executes the command in its arguments.

    operands  how many arguments are before the command, such as the duration of timeout
    operand   what such an argument looks like, as a regular expression
    numbers   whether an option can be a number, as in `nice -5`
    chdir     options whose value is the working folder of the command
    text      options that make the program execute something else than the arguments
    """

    options: OptionSyntax
    operands: int = 0
    operand: str = ".+"
    numbers: bool = False
    chdir: frozenset[str] = frozenset()
    text: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A program that runs code from a file, a folder, a module or a text.

    text       options that make it run a text among its arguments, or its stdin
    module     options whose value is a module
    preload    options that run further code before the script
    watch      options that run a file again when it changes
    chdir      options whose value is the working folder
    script     options whose value is the script
    variables  environment variables with further options
    sourced    environment variables that name a file, which runs before the script
    settings   files in the working folder that can make it run further code
    commands   subcommands that can be before the script; then a script has a dot or a slash
    suffixes   what it appends to the name of a script that does not exist
    folders    whether the script can be a folder
    """

    options: OptionSyntax
    text: frozenset[str] = frozenset()
    module: frozenset[str] = frozenset()
    preload: frozenset[str] = frozenset()
    watch: frozenset[str] = frozenset()
    chdir: frozenset[str] = frozenset()
    script: frozenset[str] = frozenset()
    variables: tuple[str, ...] = ()
    sourced: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    commands: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    folders: bool = False


def program_name(program: str) -> str:
    """Return the name of a program without its version: python for /usr/bin/python3.12."""
    name = re.sub(r"[-0-9.]+t?$", "", PurePath(program).name)
    return _OTHER_NAMES.get(name, name)


_OTHER_NAMES = {
    "nodejs": "node",
    "python-dbg": "python",
    "pythonw": "python",
    "gtimeout": "timeout",  # GNU's programs on macOS
    "gnice": "nice",
    "gstdbuf": "stdbuf",
    "genv": "env",
    "luajit": "lua",
    "rbash": "bash",
    "ash": "sh",
    "mksh": "ksh",
}

# Interpreters that import nothing by themselves.
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})


class KnownPrograms(NamedTuple):
    """The tables, by the names of the programs.

    runners                program, or program and subcommand → what to do instead of pinning it
    runner_options         the options of the runners whose code can be found
    modules_that_run_code  modules for `python -m` that run code which their own arguments name
    """

    wrappers: Mapping[str, CommandWrapper]
    interpreters: Mapping[str, Interpreter]
    runners: Mapping[str, str]
    runner_options: Mapping[str, OptionSyntax]
    modules_that_run_code: frozenset[str]


@cache
def known_programs() -> KnownPrograms:
    """Return the tables of `known_programs.toml`, which the first call reads."""
    tables = read_tables("exthost.launch", "known_programs.toml")
    return KnownPrograms(
        wrappers=_read_programs(CommandWrapper, tables["wrappers"]),
        interpreters=_read_programs(Interpreter, tables["interpreters"]),
        runners={name: row["advice"] for row in tables["runners"] for name in row["programs"]},
        runner_options={
            name: _read_row(OptionSyntax, row) for name, row in tables["runner_options"].items()
        },
        modules_that_run_code=frozenset(tables["modules_that_run_code"].split()),
    )


_Row = TypeVar("_Row", OptionSyntax, CommandWrapper, Interpreter)

_FIELD_TYPES: Mapping[type, Mapping[str, object]] = {
    kind: {field.name: field.type for field in fields(kind)}
    for kind in (OptionSyntax, CommandWrapper, Interpreter)
}


def _read_programs(kind: type[_Row], rows: Iterable[dict[str, Any]]) -> dict[str, _Row]:
    programs = dict[str, _Row]()
    for row in rows:
        names = row.pop("programs").split()
        programs |= dict.fromkeys(names, _read_row(kind, {"options": {}, **row}))
    return programs


def _read_row(kind: type[_Row], row: Mapping[str, Any]) -> _Row:
    types = _FIELD_TYPES[kind]
    return kind(**{key: _read_value(types.get(key), value) for key, value in row.items()})


def _read_value(kind: object, value: Any) -> Any:
    if kind == frozenset[str]:
        return frozenset(value.split())
    if kind == tuple[str, ...]:
        return tuple(value.split())
    return _read_row(OptionSyntax, value) if kind is OptionSyntax else value
