"""The dialects that are installed: the built-in ones, and those of other packages.

Another package offers a dialect as an entry point of the group `exthost.dialects`, which names a
`DialectPackage` or a `Dialect`. One that cannot be loaded raises ConfigError where it is asked for
by name, and is left out, with a warning in the log, where all are listed.
"""

import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from exthost import dialects
from exthost.dialects.base import Dialect
from exthost.dialects.conformance import Conformance
from exthost.dialects.manifest_format import ManifestFormat
from exthost.dialects.package import DialectPackage, Reference
from exthost.errors import ConfigError, Evidence
from exthost.names import nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from exthost.error_catalog import ErrorTable

T = TypeVar("T")

_log = logging.getLogger("exthost.dialects")

# Every package beside this module is a dialect.
BUILT_IN = tuple(
    sorted(module.name for module in pkgutil.iter_modules(dialects.__path__) if module.ispkg)
)
ENTRY_POINTS = "exthost.dialects"


class Names(frozenset[str]):
    """The names of the dialects. Those of other packages are looked up only for a name that is not
    built in: finding them takes longer than reading a config."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in _entry_points()


DIALECT_NAMES = Names(BUILT_IN)


def find_dialect(name: str) -> Dialect:
    """Return the dialect of this name. Raises ConfigError if there is none, or if the package that
    brings it is broken."""
    package = find_package(name)
    if isinstance(package.dialect, Dialect):
        return package.dialect
    dialect = load_reference(package, package.dialect)
    if not isinstance(dialect, Dialect):
        raise _broken(name, f"{package.dialect} is {_kind(dialect)}, not a Dialect")
    return dialect


def find_package(name: str) -> DialectPackage:
    """Return the package of the dialect of this name. Raises as `find_dialect` does."""
    if name in BUILT_IN:
        return _built_in(name)
    entries = _entry_points()
    if name not in entries:
        names = [*BUILT_IN, *sorted(entries)]
        near = nearest(name, names)
        help = f"did you mean {near!r}? " if near else ""
        raise ConfigError(
            "X0107",
            f"there is no dialect {name!r}",
            help=f"{help}the dialects here are: {', '.join(names)}",
        )
    return _from_entry_point(name, entries[name])


def iter_packages() -> Iterator[DialectPackage]:
    """Yield the package of every dialect that can be loaded, the built-in ones first."""
    for name in BUILT_IN:
        yield _built_in(name)
    for name, entry in sorted(_entry_points().items()):
        if name in BUILT_IN:
            continue
        try:
            yield _from_entry_point(name, entry)
        except ConfigError as broken:
            _log.warning("%s", broken.message)


def load_manifest_formats() -> tuple[ManifestFormat, ...]:
    """Return the manifest format of every dialect that has one."""
    return tuple(
        format
        for package in iter_packages()
        if package.manifest
        and (format := load_reference_or_warn(package, package.manifest)) is not None
    )


def find_manifest_format(name: str) -> ManifestFormat | None:
    """Return the manifest format of one dialect, if it has one."""
    package = find_package(name)
    format: ManifestFormat | None = (
        load_reference(package, package.manifest) if package.manifest else None
    )
    return format


def find_conformance(name: str) -> Conformance:
    """Return how extensions of this dialect are checked."""
    package = find_package(name)
    if not package.conformance:
        return Conformance()
    conformance: Conformance = load_reference(package, package.conformance)
    return conformance


def iter_error_tables() -> "Iterator[ErrorTable]":
    """Yield the error codes of every dialect that has codes of its own."""
    from exthost.error_catalog import read_table  # only who asks for explanations needs it

    for package in iter_packages():
        name = package.errors
        if not isinstance(name, str):
            yield name
        elif name:
            try:
                yield _guarded(package.name, partial(read_table, name))
            except ConfigError as broken:
                _log.warning("%s", broken.message)


def load_reference(package: DialectPackage, reference: Reference) -> Any:
    """Return what a reference of this package refers to. Raises ConfigError if that fails."""
    module, _, attribute = reference.partition(":")
    return _guarded(package.name, lambda: getattr(importlib.import_module(module), attribute))


def load_reference_or_warn(package: DialectPackage, reference: Reference) -> Any:
    """Return the same, or None with a warning in the log."""
    try:
        return load_reference(package, reference)
    except ConfigError as broken:
        _log.warning("%s", broken.message)
        return None


@cache
def _built_in(name: str) -> DialectPackage:
    package: DialectPackage = importlib.import_module(f"exthost.dialects.{name}").PACKAGE
    return package


def _from_entry_point(name: str, entry: "EntryPoint") -> DialectPackage:
    found = _guarded(name, entry.load)
    if isinstance(found, Dialect):
        found = DialectPackage(name=found.name, dialect=found)
    if not isinstance(found, DialectPackage):
        wanted = "neither a DialectPackage nor a Dialect"
        raise _broken(name, f"its entry point {entry.value} is {_kind(found)}, {wanted}")
    if found.name != name:
        raise _broken(name, f"its entry point {entry.value} is the dialect {found.name!r}")
    return found


def _guarded(name: str, load: Callable[[], T]) -> T:
    """Load something of a dialect. Its import runs code that is not ours: anything may come."""
    try:
        return load()
    except Exception as error:
        import traceback

        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}"
        raise _broken(name, text, where.filename, where.lineno or 0) from error


def _broken(name: str, why: str, path: str = "", line: int = 0) -> ConfigError:
    entry = None if name in BUILT_IN else _entry_points().get(name)
    if entry is not None and entry.dist is not None:
        package = f"{entry.dist.name} {entry.dist.version}"
        help = (
            f"the package {package} is at fault, not your config or the extension: update it, "
            f"uninstall it, or report this to its authors"
        )
    else:
        package = "exthost"
        help = "exthost is at fault, or something it needs is not installed: install it again"
    return ConfigError(
        "X0112",
        f"the dialect {name!r} of {package} cannot be used: {why}",
        help=help,
        evidence=Evidence(path=path, line=line),
    )


def _kind(value: object) -> str:
    return f"of type {type(value).__name__}"


def _entry_points() -> "dict[str, EntryPoint]":
    from importlib import metadata  # costs more than all of a built-in dialect

    return {entry.name: entry for entry in metadata.entry_points(group=ENTRY_POINTS)}
