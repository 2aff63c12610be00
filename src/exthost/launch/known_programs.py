"""The programs whose arguments name the code that runs: wrappers, interpreters, runners.

`known_programs.toml` lists them, and `command_code` reads commands by that list. A wrapper
(`timeout 60 COMMAND`) executes another command. An interpreter (`python3 run.py`) reads code. A
runner (`npx`, `docker run`) finds or fetches the code itself. If an option is not in the table of
its program, it is not known which code runs, because the option may take the next argument as its
value.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

from exthost.model.package_tables import read_text


class OptionSyntax(NamedTuple):
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


class CommandWrapper(NamedTuple):
    """A program that executes the command in its arguments.

    operands  how many arguments are before the command, such as the duration of timeout
    operand   what such an argument looks like, as a regular expression
    numbers   whether an option can be a number, as in `nice -5`
    chdir     options whose value is the working folder of the command
    text      options that make the program execute something else than the arguments
    """

    options: OptionSyntax = OptionSyntax()
    operands: int = 0
    operand: str = ".+"
    numbers: bool = False
    chdir: frozenset[str] = frozenset()
    text: frozenset[str] = frozenset()


class Interpreter(NamedTuple):
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

    options: OptionSyntax = OptionSyntax()
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
    # Without the look-behind, the time for an argument of many digits would be quadratic.
    name = re.sub(r"(?<![-0-9.])[-0-9.]+t?$", "", PurePath(program).name)
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


_Row = TypeVar("_Row", OptionSyntax, CommandWrapper, Interpreter)


class _Programs(Mapping[str, _Row]):
    """Programs of one kind, by their names. `texts` are their tables in TOML. Each is parsed at its
    first use, because parsing all of them takes longer than the other checks before a start."""

    def __init__(self, kind: type[_Row], texts: Mapping[str, str]) -> None:
        self._kind: type[_Row] = kind
        self._texts = texts
        self._rows: dict[str, _Row] = {}

    def __getitem__(self, name: str) -> _Row:
        if name not in self._rows:
            self._rows[name] = _read_row(self._kind, tomllib.loads(self._texts[name]))
        return self._rows[name]

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


# The header of a table with the names of its programs, such as [wrappers.env].
_HEADER = r"^\[(\w+)\.(.+)\]$"


class KnownPrograms:
    """The tables in `text`, by the names of the programs.

    runner_options  the options of the runners whose code can be found
    """

    def __init__(self, text: str) -> None:
        self._head, *parts = re.split(_HEADER, text, flags=re.MULTILINE)
        tables = dict[str, dict[str, str]]()
        for table, names, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            # The table of the runner `uv run` is of one program; the others have names in one word.
            programs = [names.strip('"')] if table == "runner_options" else names.strip('"').split()
            tables.setdefault(table, {}).update(dict.fromkeys(programs, body))
        self.wrappers = _Programs(CommandWrapper, tables["wrappers"])
        self.interpreters = _Programs(Interpreter, tables["interpreters"])
        self.runner_options = _Programs(OptionSyntax, tables["runner_options"])

    @cached_property
    def runners(self) -> Mapping[str, str]:
        """What to do instead of pinning the code by a digest, by program, or by program and
        subcommand."""
        rows = tomllib.loads(self._head)["runners"]
        return {name: row["advice"] for row in rows for name in row["programs"]}

    @cached_property
    def modules_that_run_code(self) -> frozenset[str]:
        """Modules for `python -m` that run code which their own arguments name."""
        return frozenset(tomllib.loads(self._head)["modules_that_run_code"].split())


@cache
def known_programs() -> KnownPrograms:
    """Return the tables of `known_programs.toml`, which the first call reads."""
    return KnownPrograms(read_text("exthost.launch", "known_programs.toml"))


_FIELD_TYPES: Mapping[type, Mapping[str, object]] = {
    kind: kind.__annotations__ for kind in (OptionSyntax, CommandWrapper, Interpreter)
}


def _read_row(kind: type[_Row], row: Mapping[str, Any]) -> _Row:
    types = _FIELD_TYPES[kind]
    return kind(**{key: _read_value(types.get(key), value) for key, value in row.items()})


def _read_value(kind: object, value: Any) -> Any:
    if kind == frozenset[str]:
        return frozenset(value.split())
    if kind == tuple[str, ...]:
        return tuple(value.split())
    return _read_row(OptionSyntax, value) if kind is OptionSyntax else value
