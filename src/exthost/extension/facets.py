"""Facets: what extensions of one dialect can do beyond the rest, as attributes of an extension.

`ext.inference` is there if the dialect has it. If it has not, but another one does, asking for it
is an error that names the dialect; any other unknown attribute is a plain AttributeError.

No `__getattr__`: a class that has one pays for it at every attribute, on the way of every call.
"""

from typing import TYPE_CHECKING, Any

from exthost.dialects.dialect import Dialect
from exthost.errors import UsageError

# Every facet of every dialect that is built in.
FACET_NAMES = (
    "hooks",
    "inference",
    "subagents",
    "tasks",
    "providers",
    "commands",
    "settings",
    "info",
    "sidecar",
    "resources",
    "prompts",
    "completion",
    "logging",
)


class _NoFacet(UsageError, AttributeError):
    """Also an AttributeError, so that hasattr() and copy() work."""


class _Missing:
    """Stands where a facet would be; the facet itself, where there is one, hides it."""

    def __init__(self, name: str) -> None:
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


class Facets:
    """The base of whatever has facets."""

    if TYPE_CHECKING:  # which ones there are depends on the dialect

        def __getattr__(self, name: str) -> Any: ...

    def add_facets(self, dialect: Dialect) -> None:
        """Make the facets of its dialect attributes of it."""
        for name, make in dialect.facets.items():
            self.__dict__[name] = make(self)


for _name in FACET_NAMES:
    setattr(Facets, _name, _Missing(_name))
