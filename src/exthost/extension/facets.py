"""Facets: attributes of an extension that only its dialect has, such as `ext.inference`.

A facet that only another dialect has raises an error that names the dialect; any other unknown
attribute is a plain AttributeError. `ext.facet(ItsClass)` returns a facet of a third-party dialect
with its type.

There is no `__getattr__`, because it would slow down every attribute access of every call.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, overload, runtime_checkable

from exthost.dialects.base import Dialect
from exthost.dialects.steps import Exchanges
from exthost.errors import UsageError


class _NoFacet(UsageError, AttributeError):
    """Also an AttributeError, so that hasattr() and copy() work."""


class _Holder(Protocol):
    """What a facet placeholder needs of an extension."""

    @property
    def id(self) -> str: ...
    @property
    def dialect(self) -> Dialect: ...


F = TypeVar("F")


class Facet(Generic[F]):
    """A placeholder in the class for a facet. The facet of an instance hides it."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, extension: None, owner: type) -> "Facet[F]": ...
    @overload
    def __get__(self, extension: _Holder, owner: type) -> F: ...
    def __get__(self, extension: _Holder | None, owner: type) -> "Facet[F] | F":
        if extension is None:
            return self
        raise _no_facet(extension, self._name)


def find_facet(extension: _Holder, kind: type[F]) -> F:
    """Return the facet of this class. Raises UsageError if the dialect has none."""
    for name in extension.dialect.facets:
        facet = vars(extension)[name]
        if isinstance(facet, kind):
            return facet
    raise _no_facet(extension, kind.__name__)


def _no_facet(extension: _Holder, name: str) -> _NoFacet:
    dialect = extension.dialect
    return _NoFacet(
        "X1309",
        f"an extension of the {dialect.name} dialect has no {name!r}",
        extension=extension.id,
        help=f"its facets are: {', '.join(dialect.facets) or 'none'}",
    )


@runtime_checkable
class RemembersState(Protocol):
    """A facet with state that its process must have: open documents, a mode that was set."""

    def on_new_process(self) -> Exchanges:
        """Return the steps that bring a new process into that state. They run after each handshake,
        before any call; if one raises, the process is not used."""


def attach_facets(extension: Any, dialect: Dialect) -> tuple[Callable[[], Exchanges], ...]:
    """Make the facets of a dialect attributes of one extension. Return the `on_new_process` of
    each facet that has one."""
    hooks = []
    for name, make in dialect.facets.items():
        facet = vars(extension)[name] = make(extension)
        if isinstance(facet, RemembersState):
            hooks.append(facet.on_new_process)
    return tuple(hooks)
