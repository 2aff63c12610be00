"""Refuses a second extension with the same name, in dialects that route calls by the name which an
extension reports in its handshake."""

from collections.abc import Callable, Iterable
from typing import Protocol

from exthost.errors import HandshakeFailed
from exthost.extension.lifecycle import State
from exthost.offer import Offer
from exthost.spec import Spec

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
    def serves(self) -> bool: ...


class ReportedNames:
    """The names that the extensions of one host report."""

    def __init__(self, all_extensions: Callable[[], Iterable[NamedExtension]]) -> None:
        self._all_extensions = all_extensions
        # The last accepted name of each extension, by its id. A starting extension has its name
        # only here: two that start together would otherwise both be accepted.
        self._accepted: dict[str, str] = {}

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
        return extension.offer.name if extension.serves else None
