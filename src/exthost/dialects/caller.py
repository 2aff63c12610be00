"""The interface by which a facet of a dialect uses an extension."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from exthost.offer import Offer


class Stream(Protocol):
    """The events of one call, in order. `result` is set after the last event."""

    result: Any

    def __aiter__(self) -> AsyncIterator[Any]: ...

    async def __anext__(self) -> Any: ...


class Caller(Protocol):
    """What a facet may use of an extension: three operations, its id, manifest and offer.

    An extension implements this; so does a scripted peer in a test.
    """

    @property
    def id(self) -> str:
        """The extension's id in this host."""

    @property
    def manifest(self) -> Any:
        """The manifest as the dialect has read it; None for an extension without a manifest."""

    @property
    def offer(self) -> Offer:
        """What the extension offered in its last handshake."""

    async def call(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Send a request and return the result of its reply."""

    def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Send a request whose reply is a stream of events."""

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification, which has no reply."""
