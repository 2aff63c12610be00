"""The facets of the built-in dialects as typed attributes: `ext.inference`, `ext.resources` …

`Extension` inherits these placeholders, so that a type checker knows each facet, and no module of
the core names a dialect. An extension whose dialect has the facet hides the placeholder with the
facet itself. In other extensions the placeholder raises an error that names the dialect; any other
unknown attribute is a plain AttributeError.

There is no `__getattr__`, because it would slow down every attribute access of every call.
"""

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, overload

from exthost.dialects.base import Dialect
from exthost.errors import UsageError

if TYPE_CHECKING:
    from exthost.dialects.cigen.dialect import Typed
    from exthost.dialects.mcp.facets import Completion, Logging, Prompts, Resources
    from exthost.dialects.roder.facets import Inference, Subagents, Tasks
    from exthost.dialects.synaps.facets import About, Commands, Providers, Settings, Sidecar


class FacetOwner(Protocol):
    """The part of an extension that a placeholder needs."""

    @property
    def id(self) -> str: ...
    @property
    def dialect(self) -> Dialect: ...


class _NoFacet(UsageError, AttributeError):
    """Also an AttributeError, so that hasattr() and copy() work."""


def no_facet(extension: FacetOwner, name: str) -> UsageError:
    """Return the error for a facet that the dialect of this extension does not have."""
    dialect = extension.dialect
    return _NoFacet(
        "X1309",
        f"an extension of the {dialect.name} dialect has no {name!r}",
        extension=extension.id,
        help=f"its facets are: {', '.join(dialect.facets) or 'none'}",
    )


F = TypeVar("F")


class Facet(Generic[F]):
    """A placeholder in the class for a facet. The facet of an instance hides it."""

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
        raise no_facet(extension, self._name)


class FacetAttributes:
    """The facets of all built-in dialects, as placeholders."""

    typed: "Facet[Typed]" = Facet()
    inference: "Facet[Inference]" = Facet()
    subagents: "Facet[Subagents]" = Facet()
    tasks: "Facet[Tasks]" = Facet()
    providers: "Facet[Providers]" = Facet()
    commands: "Facet[Commands]" = Facet()
    settings: "Facet[Settings]" = Facet()
    info: "Facet[About]" = Facet()
    sidecar: "Facet[Sidecar]" = Facet()
    resources: "Facet[Resources]" = Facet()
    prompts: "Facet[Prompts]" = Facet()
    completion: "Facet[Completion]" = Facet()
    logging: "Facet[Logging]" = Facet()
