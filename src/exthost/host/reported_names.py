"""Refuses an extension that reports a name which another extension has: its own name, in dialects
that route calls by it, or the name of a tool, in dialects that register tools unchanged."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from exthost.dialects.base import Dialect
from exthost.errors import HandshakeFailed
from exthost.extension.lifecycle import State, lists_tools
from exthost.model.offer import Offer, Tool
from exthost.model.spec import Spec

__all__ = ["ReportedNames"]


class NamedExtension(Protocol):
    """The part of an extension that is needed here."""

    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> Spec: ...
    @property
    def state(self) -> State: ...
    @property
    def offer(self) -> Offer: ...
    @property
    def dialect(self) -> Dialect: ...
    @property
    def tools(self) -> Mapping[str, Tool]: ...


class ReportedNames:
    """The names that the extensions of one host report."""

    def __init__(self, all_extensions: Callable[[], Iterable[NamedExtension]]) -> None:
        self._all_extensions = all_extensions
        # The last accepted name of each extension, by its id. A starting extension has its name
        # only here: two that start together would otherwise both be accepted.
        self._accepted: dict[str, str] = {}
        self._accepted_tools: dict[str, frozenset[str]] = {}

    def check_for(self, spec: Spec, dialect: Dialect) -> Callable[[Offer], None] | None:
        """Return the function that accepts the offer of this extension, as its dialect requires;
        None if the dialect requires nothing."""
        if dialect.traits.unique == "name":
            return partial(self.accept, spec)
        if dialect.traits.unique == "tools":
            return partial(self.accept_tools, spec, dialect)
        return None

    def accept_tools(self, spec: Spec, dialect: Dialect, offer: Offer) -> None:
        """Accept the tools of an extension that shakes hands. Raises HandshakeFailed if another
        extension has registered one of the names. A name stays with its extension while that does
        not serve."""
        names = frozenset(dialect.registered_name(spec.id, tool.name) for tool in offer.tools)
        for other in self._all_extensions():
            if other.id == spec.id:
                continue
            is_starting = other.state is State.STARTING
            taken = set(self._accepted_tools.get(other.id, ()) if is_starting else ())
            taken.update(other.dialect.registered_name(other.id, tool) for tool in other.tools)
            if common := sorted(names & taken):
                raise HandshakeFailed(
                    "X0524",
                    f"its tool {common[0]} has the name of a tool of {other.id}",
                    permanent=True,
                    extension=spec.id,
                    help="disable one of the two: tools of this contract keep their names",
                )
        self._accepted_tools[spec.id] = names

    def accept(self, spec: Spec, offer: Offer) -> None:
        """Accept the name of an extension that shakes hands. Raises HandshakeFailed if another
        extension of its dialect has the same name."""
        for other in self._all_extensions():
            if other.id == spec.id or other.spec.dialect != spec.dialect:
                continue
            if self._name_of(other) == offer.name:
                raise HandshakeFailed(
                    "X0524",
                    f"it calls itself {offer.name}, and so does {other.id}",
                    extension=spec.id,
                    help="disable one of the two: calls are routed by that name",
                )
        self._accepted[spec.id] = offer.name

    def _name_of(self, extension: NamedExtension) -> str | None:
        if extension.state is State.STARTING:
            return self._accepted.get(extension.id)
        return extension.offer.name if lists_tools(extension.state) else None
