"""Facets: what extensions of one dialect can do beyond the rest, as attributes of an extension.

`ext.inference` is there if the dialect has it. If only another dialect has it, the attribute raises
an error that names the dialect; any other unknown attribute is a plain AttributeError.

There is no `__getattr__`: a class that has one pays for it at every attribute, on the way of every
call.
"""

from typing import Any

from exthost.dialects.base import Dialect
from exthost.errors import UsageError


class _NoFacet(UsageError, AttributeError):
    """Also an AttributeError, so that hasattr() and copy() work."""


class Facet:
    """Stands in the class where a facet may be; the facet of an instance hides it."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, extension: Any, owner: type) -> Any:
        if extension is None:
            return self
        dialect: Dialect = extension.dialect
        raise _NoFacet(
            "X1309",
            f"an extension of the {dialect.name} dialect has no {self._name!r}",
            extension=extension.id,
            help=f"its facets are: {', '.join(dialect.facets) or 'none'}",
        )


def attach_facets(extension: Any, dialect: Dialect) -> None:
    """Make the facets of a dialect attributes of one extension."""
    for name, make in dialect.facets.items():
        vars(extension)[name] = make(extension)
