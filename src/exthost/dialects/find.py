"""Dialects by name: the built-in ones, and those of installed packages.

A package offers a dialect as an entry point of the group `exthost.dialects`. A dialect is imported
when it is first used.
"""

import importlib
from typing import TYPE_CHECKING

from exthost.dialects.base import Dialect
from exthost.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BUILT_IN = ("morphir", "nexo", "cigen", "roder", "synaps", "mcp")
ENTRY_POINTS = "exthost.dialects"


class Names(frozenset[str]):
    """The names of the dialects. Those of installed packages are looked up only for a name that is
    not built in: finding them takes longer than reading a config."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in _entry_points()


NAMES = Names(BUILT_IN)


def find_dialect(name: str) -> Dialect:
    """Return the dialect of this name. Raises ConfigError with the names there are."""
    if name in BUILT_IN:
        found = importlib.import_module(f"exthost.dialects.{name}").DIALECT
    else:
        entries = _entry_points()
        if name not in entries:
            known = ", ".join([*BUILT_IN, *sorted(entries)])
            raise ConfigError(
                "X0107", f"there is no dialect {name!r}", help=f"the dialects here are: {known}"
            )
        found = entries[name].load()
    assert isinstance(found, Dialect)
    return found


def _entry_points() -> "dict[str, EntryPoint]":
    from importlib import metadata  # costs more than all of a built-in dialect

    return {entry.name: entry for entry in metadata.entry_points(group=ENTRY_POINTS)}
