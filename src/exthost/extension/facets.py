"""Facets: attributes that only extensions of one dialect (protocol) have, such as `ext.inference`.

A dialect names its facets and the functions that make them:

    facets = {"inference": Inference}           in the dialect
    await ext.inference.list_models()           in a program that uses the extension

Type checkers know the attributes of built-in dialects only. `ext.facet(Inference)` returns a facet
by its class, so that facets of third-party dialects are typed as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from exthost.extension.misuse import wrong_type_error

if TYPE_CHECKING:
    from exthost.dialects.base import Dialect
    from exthost.dialects.missing_facet import FacetOwner
    from exthost.dialects.steps import Exchanges


F = TypeVar("F")


def find_facet(extension: FacetOwner, facet_class: type[F]) -> F:
    """Return the facet of this class. Raises UsageError if the dialect has no such facet."""
    if not isinstance(facet_class, type):
        raise wrong_type_error("kind", "the class of a facet", facet_class)
    for name in extension.dialect.facets:
        facet = vars(extension)[name]
        if isinstance(facet, facet_class):
            return facet
    from exthost.dialects.missing_facet import missing_facet_error

    raise missing_facet_error(extension, facet_class.__name__)


@runtime_checkable
class RemembersState(Protocol):
    """A facet with state that each new process needs, such as open documents or a mode."""

    def on_new_process(self) -> Exchanges:
        """Return the steps that bring a new process into that state. They run after each handshake,
        before any call; if a step raises, the process is not used."""


def attach_facets(extension: Any, dialect: Dialect) -> tuple[Callable[[], Exchanges], ...]:
    """Make the facets of a dialect attributes of one extension. Return the `on_new_process` of
    each facet that has this method."""
    on_new_process = []
    for name, make in dialect.facets.items():
        facet = vars(extension)[name] = make(extension)
        if isinstance(facet, RemembersState):
            on_new_process.append(facet.on_new_process)
    return tuple(on_new_process)
