"""The dialects by name. Each is one module here, or a third party's by entry point.

A dialect is imported when it is first asked for: cigen's protobuf costs nobody else anything.
"""

import importlib

from exthost.dialects.dialect import Dialect
from exthost.errors import ConfigError

BUILT_IN = ("morphir", "nexo", "cigen", "roder", "synaps", "mcp")
ENTRY_POINTS = "exthost.dialects"


def get(name: str) -> Dialect:
    """The dialect of that name. Raises ConfigError with the names there are."""
    if name in BUILT_IN:
        found = importlib.import_module(f"exthost.dialects.{name}").DIALECT
    else:
        from importlib import metadata  # costs more than all of a built-in dialect

        entries = {entry.name: entry for entry in metadata.entry_points(group=ENTRY_POINTS)}
        if name not in entries:
            known = ", ".join([*BUILT_IN, *sorted(entries)])
            raise ConfigError(
                "X0107", f"there is no dialect {name!r}", help=f"the dialects here are: {known}"
            )
        found = entries[name].load()
    assert isinstance(found, Dialect)
    return found
