"""Facets: what extensions of one dialect can do beyond the rest, as attributes of an extension.

`ext.inference` is there if the dialect has it. If only another dialect has it, the attribute raises
an error that names the dialect; any other unknown attribute is a plain AttributeError. The facets
of a dialect that others bring are reached with their type by `ext.facet(ItsClass)`.

There is no `__getattr__`: a class that has one pays for it at every attribute, on the way of every
call.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, overload, runtime_checkable

from exthost.dialects.base import Dialect
from exthost.dialects.steps import Exchanges
from exthost.errors import UsageError


class _NoFacet(UsageError, AttributeError):
    """Also an AttributeError, so that hasattr() and copy() work."""


class _Holder(Protocol):
    """What is needed of an extension."""

    @property
    def id(self) -> str: ...
    @property
    def dialect(self) -> Dialect: ...


F = TypeVar("F")


class Facet(Generic[F]):
    """Stands in the class where a facet may be; the facet of an instance hides it."""

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
    """A facet that its process must know something of: open documents, a mode that was set."""

    def on_new_process(self) -> Exchanges:
        """Return the steps that tell a new process what it must know. They are run after each
        handshake, before any call; if one raises, the process is not used."""


def attach_facets(extension: Any, dialect: Dialect) -> tuple[Callable[[], Exchanges], ...]:
    """Make the facets of a dialect attributes of one extension. Return the `on_new_process` of
    each facet that has one."""
    hooks = []
    for name, make in dialect.facets.items():
        facet = vars(extension)[name] = make(extension)
        if isinstance(facet, RemembersState):
            hooks.append(facet.on_new_process)
    return tuple(hooks)
