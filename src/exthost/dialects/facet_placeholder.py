"""Placeholders for facets in the class `Extension`: `ext.inference`, `ext.resources` …

A facet is an attribute that only extensions of one dialect have. `Extension` inherits a placeholder
for each facet of the built-in dialects (`facet_attributes`), so that type checkers know the facets,
although no module outside a dialect's package names the dialect.

If the dialect of an extension has the facet, an attribute of the instance replaces the placeholder.
Otherwise the placeholder raises an error that names the dialect. Any other unknown attribute raises
a plain AttributeError.

There is no `__getattr__`, because it would slow down every attribute access of every call.
"""

from typing import Generic, Protocol, TypeVar, overload

from exthost.dialects.base import Dialect
from exthost.errors import UsageError


class FacetOwner(Protocol):
    """The part of an extension that a placeholder uses."""

    @property
    def id(self) -> str: ...
    @property
    def dialect(self) -> Dialect: ...


class _NoFacetError(UsageError, AttributeError):
    """Also an AttributeError, so that hasattr() and copy() work."""


def no_facet_error(extension: FacetOwner, name: str) -> UsageError:
    """Return the error for a facet that the dialect of this extension does not have."""
    dialect = extension.dialect
    return _NoFacetError(
        "X1309",
        f"an extension of the {dialect.name} dialect has no {name!r}",
        extension=extension.id,
        help=f"its facets are: {', '.join(dialect.facets) or 'none'}",
    )


F = TypeVar("F")


class Facet(Generic[F]):
    """A placeholder for a facet: a class attribute that an instance attribute may replace."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, extension: None, owner: type) -> "Facet[F]": ...
    @overload
    def __get__(self, extension: FacetOwner, owner: type) -> F: ...
    def __get__(self, extension: FacetOwner | None, owner: type) -> "Facet[F] | F":
        if extension is None:
            return self
        raise no_facet_error(extension, self._name)
