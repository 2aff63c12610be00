"""The dialects that the SDK speaks: one module each, lazily imported.

Each module has the extension's side of its dialect, and describes it in one `SdkDialect` object,
named `DIALECT`. A file in this folder makes a dialect a built-in one. Another distribution can
install one: an entry point in the group `exthost.sdk.dialects` names its object.

- `morphir`, `nexo`, `synaps`, `roder`, `mcp`, `cigen`: the built-in dialects
"""

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from exthost_sdk.errors import SdkUsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from exthost_sdk.endpoints.endpoint import SdkDialect

ENTRY_POINTS = "exthost.sdk.dialects"


def built_in_names() -> list[str]:
    """Return the names of the built-in dialects."""
    import pkgutil  # here, because an extension with the option --dialect needs no list

    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def dialect_names() -> list[str]:
    """Return the names of all dialects, those of other distributions last."""
    return list(dict.fromkeys([*built_in_names(), *(point.name for point in _entry_points())]))


def load_dialect(name: str) -> "SdkDialect":
    """Import the module of a dialect and return its object. Raises SdkUsageError if there is no
    such dialect."""
    module = f"{__name__}.{name}"
    dialect: SdkDialect
    if name.isidentifier():
        try:
            dialect = importlib.import_module(module).DIALECT
            return dialect
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    for point in _entry_points():
        if point.name == name:
            dialect = point.load()
            return dialect
    raise SdkUsageError(f"there is no dialect {name!r}; there are: {', '.join(dialect_names())}")


def load_installed() -> "Iterator[tuple[str, SdkDialect]]":
    """Yield the name and the object of each dialect of another distribution."""
    for point in _entry_points():
        yield point.name, point.load()


def _entry_points() -> "tuple[EntryPoint, ...]":
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    return tuple(entry_points(group=ENTRY_POINTS))
