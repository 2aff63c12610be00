"""Finds the installed dialects: the built-in dialects, and those of other packages.

    find_dialect("mcp")           # a Dialect
    find_dialect("nexo/2")        # the second contract of nexo: a version of its protocol

Another package supplies a dialect by an entry point of the group `exthost.dialects`, which names a
`DialectPackage` or a `Dialect`. If a dialect cannot be loaded, functions that look it up by name
raise ConfigError, and functions that list all dialects omit it and log a warning.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from exthost import dialects
from exthost.dialects.base import Dialect
from exthost.dialects.codec import Codec, Role
from exthost.dialects.package import DialectPackage
from exthost.errors import ConfigError, Evidence, ExthostError
from exthost.model.names import nearest
from exthost.wire.framing import Framing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from exthost.dialects.conformance import Conformance
    from exthost.dialects.manifest_format import ManifestFormat
    from exthost.dialects.package import Reference
    from exthost.model.error_catalog import ErrorTable
    from exthost.model.spec import Spec

T = TypeVar("T")

_log = logging.getLogger("exthost.dialects")

# Every package beside this module is a dialect.
BUILT_IN = tuple(
    sorted(module.name for module in pkgutil.iter_modules(dialects.__path__) if module.ispkg)
)
ENTRY_POINTS = "exthost.dialects"


class _DialectNames(frozenset[str]):
    """The names of the built-in dialects; `in` also finds those of other packages.

    Entry points are looked up only for a name that is not built in, because that takes longer than
    reading a config.
    """

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in _entry_points()


DIALECT_NAMES = _DialectNames(BUILT_IN)


def find_dialect(name: str) -> Dialect:
    """Return the dialect of this name, or of this full name (`Dialect.full_name`). Raises
    ConfigError if there is no such dialect, or if its package cannot be loaded."""
    full_name = name
    name = full_name.partition("/")[0]
    package = find_package(name)
    if isinstance(package.dialect, Dialect):
        dialect = package.dialect
    else:
        dialect = load_reference(package, package.dialect)
    if not isinstance(dialect, Dialect):
        raise _broken_package_error(
            name, f"{package.dialect} is {_describe_type(dialect)}, not a Dialect"
        )
    if name not in BUILT_IN:
        _check_interfaces(name, dialect)
    contracts = {contract.full_name: contract for contract in (dialect, *dialect.contracts)}
    if full_name not in contracts:
        raise ConfigError(
            "X0107",
            f"there is no dialect {full_name!r}",
            help=f"the contracts of {name} are: {', '.join(contracts)}",
        )
    return contracts[full_name]


def find_dialect_of(spec: Spec) -> Dialect:
    """Return the dialect of an extension, in the contract that it speaks if its system has several.
    Raises ConfigError as `find_dialect` does."""
    return find_dialect(spec.dialect).contract_for(spec)


def find_package(name: str) -> DialectPackage:
    """Return the package of the dialect of this name. Raises ConfigError as `find_dialect` does."""
    if name in BUILT_IN:
        return _load_built_in(name)
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
    return _load_entry_point(name, entries[name])


def iter_packages() -> Iterator[DialectPackage]:
    """Yield the package of every dialect that can be loaded, the built-in ones first."""
    for name in BUILT_IN:
        yield _load_built_in(name)
    for name, entry in sorted(_entry_points().items()):
        if name in BUILT_IN:
            continue
        try:
            yield _load_entry_point(name, entry)
        except ConfigError as error:
            _log.warning("%s", error.message)


def load_manifest_formats() -> tuple[ManifestFormat, ...]:
    """Return the manifest format of every dialect that has one."""
    return tuple(
        format
        for package in iter_packages()
        if package.manifest
        and (format := load_reference_or_warn(package, package.manifest)) is not None
    )


def find_manifest_format(name: str) -> ManifestFormat | None:
    """Return the manifest format of one dialect, or None if it has no manifests."""
    package = find_package(name)
    format: ManifestFormat | None = (
        load_reference(package, package.manifest) if package.manifest else None
    )
    return format


def find_conformance(name: str) -> Conformance:
    """Return how extensions of this dialect are checked."""
    return find_conformance_of(find_dialect(name))


def find_conformance_of(dialect: Dialect) -> Conformance:
    """Return how extensions of this dialect, in this contract, are checked. Without a Conformance,
    one is inferred from the form of the dialect's messages."""
    package = find_package(dialect.name)
    reference = dialect.conformance or package.conformance
    if not reference:
        from exthost.dialects.conformance import UNKNOWN_METHOD, infer_conformance

        try:
            request = dialect.codec(Role.HOST).request(UNKNOWN_METHOD, {}, 1)
        except (Exception, SystemExit):  # code of another package, which may know no such method
            request = b""
        return infer_conformance(request)
    conformance = load_reference(package, reference)
    from exthost.dialects.conformance import Conformance

    if not isinstance(conformance, Conformance):
        reason = f"{reference} is {_describe_type(conformance)}, not a Conformance"
        raise _broken_package_error(dialect.name, reason)
    return conformance


def iter_error_tables() -> Iterator[ErrorTable]:
    """Yield the table of error codes of each dialect that has its own codes."""
    from exthost.model.error_catalog import read_table  # imported lazily: few programs need it

    for package in iter_packages():
        errors = package.errors
        if not isinstance(errors, str):
            yield errors
        elif errors:  # the name of a package that contains the table
            try:
                yield _load_guarded(package.name, partial(read_table, errors))
            except ConfigError as error:
                _log.warning("%s", error.message)


def load_reference(package: DialectPackage, reference: Reference) -> Any:
    """Import the value that a reference of this package names. Raises ConfigError if that fails."""
    module, _, attribute = reference.partition(":")
    return _load_guarded(package.name, lambda: getattr(importlib.import_module(module), attribute))


def call_reference(package: DialectPackage, reference: Reference, *arguments: Any) -> Any:
    """Call the function that a reference of this package names. Raises the errors of exthost that
    the function raises, and ConfigError for any other exception."""
    function = load_reference(package, reference)
    try:
        return function(*arguments)
    except ExthostError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed_code_error(package.name, error) from error


def load_reference_or_warn(package: DialectPackage, reference: Reference) -> Any:
    """Do the same as `load_reference`, but return None and log a warning if that fails."""
    try:
        return load_reference(package, reference)
    except ConfigError as error:
        _log.warning("%s", error.message)
        return None


@cache
def _load_built_in(name: str) -> DialectPackage:
    package: DialectPackage = importlib.import_module(f"exthost.dialects.{name}").PACKAGE
    return package


def _load_entry_point(name: str, entry: EntryPoint) -> DialectPackage:
    """Return the package that an entry point names. Raises ConfigError if the object there is of
    another type or has another name."""
    package = _load_guarded(name, entry.load)
    if isinstance(package, Dialect):
        package = DialectPackage(name=package.name, dialect=package)
    if not isinstance(package, DialectPackage):
        reason = f"{_describe_type(package)}, neither a DialectPackage nor a Dialect"
        raise _broken_package_error(name, f"its entry point {entry.value} is {reason}")
    if package.name != name:
        reason = f"its entry point {entry.value} is the dialect {package.name!r}"
        raise _broken_package_error(name, reason)
    return package


def _check_interfaces(name: str, dialect: Dialect) -> None:
    """Raise ConfigError if the framing or the codec lacks an attribute that the host uses. Without
    this check, the lack would show in the middle of a conversation."""
    framing = _load_guarded(name, lambda: dialect.framing(2**20))
    codec = _load_guarded(name, lambda: dialect.codec(Role.HOST))
    for kind, interface, part in (("framing", Framing, framing), ("codec", Codec, codec)):
        attributes = sorted({*vars(interface), *interface.__annotations__})
        missing = [
            attribute
            for attribute in attributes
            if not attribute.startswith("_") and not hasattr(part, attribute)
        ]
        if missing:
            reason = f"its {kind} {type(part).__name__} has no {', '.join(missing)}"
            raise _broken_package_error(name, reason)


def _load_guarded(name: str, load: Callable[[], T]) -> T:
    """Call `load`, which imports a part of a dialect, and translate any exception to ConfigError.

    The import runs code of another package, so it may raise any exception, and may call `sys.exit`.
    """
    try:
        return load()
    except (Exception, SystemExit) as error:
        raise _failed_code_error(name, error) from error


def _failed_code_error(name: str, error: BaseException) -> ConfigError:
    """Return the error for an exception of a dialect's code."""
    import traceback

    # The innermost frame is the line that raised. Its number may be None: 0 means unknown.
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {error}"
    return _broken_package_error(name, text, frame.filename, frame.lineno or 0)


def _broken_package_error(name: str, reason: str, path: str = "", line: int = 0) -> ConfigError:
    """Return the error for a dialect that cannot be used. It names the package at fault."""
    package = find_distribution(name)
    if package != "exthost":
        help = (
            f"the package {package} is at fault, not your config or the extension: update it, "
            f"uninstall it, or report this to its authors"
        )
    else:
        help = "exthost is at fault, or something it needs is not installed: install it again"
    return ConfigError(
        "X0112",
        f"the dialect {name!r} of {package} cannot be used: {reason}",
        help=help,
        evidence=Evidence(path=path, line=line),
    )


def find_distribution(name: str) -> str:
    """Return the name and version of the installed package with this dialect; "exthost" for a
    built-in dialect."""
    entry = None if name in BUILT_IN else _entry_points().get(name)
    if entry is None or entry.dist is None:
        return "exthost"
    return f"{entry.dist.name} {entry.dist.version}"


def _describe_type(value: object) -> str:
    return f"of type {type(value).__name__}"


def _entry_points() -> dict[str, EntryPoint]:
    from importlib import metadata  # imported lazily: it takes longer than a whole built-in dialect

    return {entry.name: entry for entry in metadata.entry_points(group=ENTRY_POINTS)}
