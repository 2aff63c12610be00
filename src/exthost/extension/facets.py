"""The facets of one extension: attributes that only its dialect has, such as `ext.inference`.

`ext.facet(ItsClass)` returns a facet by its class, so that a facet of a third-party dialect is
typed as well.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

from exthost.dialects.base import Dialect
from exthost.dialects.facet_placeholder import FacetOwner, no_facet_error
from exthost.dialects.steps import Exchanges

F = TypeVar("F")


def find_facet(extension: FacetOwner, kind: type[F]) -> F:
    """Return the facet of this class. Raises UsageError if the dialect has none."""
    for name in extension.dialect.facets:
        facet = vars(extension)[name]
        if isinstance(facet, kind):
            return facet
    raise no_facet_error(extension, kind.__name__)


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
