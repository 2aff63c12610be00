"""The interface through which a facet uses an extension.

A facet is a group of operations that only extensions of one dialect have, such as `ext.providers`.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from exthost.model.offer import Offer


class Stream(Protocol):
    """The events of one call, in order. `result`, the result of the call, is set after the last
    event."""

    result: Any

    def __aiter__(self) -> AsyncIterator[Any]: ...

    async def __anext__(self) -> Any: ...


class Caller(Protocol):
    """The part of an extension that a facet may use. `Extension` has all of it; tests implement it
    without a process."""

    @property
    def id(self) -> str:
        """The extension's id in this host."""

    @property
    def manifest(self) -> Any:
        """The manifest as the dialect parsed it; None for an extension without a manifest."""

    @property
    def offer(self) -> Offer:
        """The offer: the tools, hooks and capabilities that the extension announced in its last
        handshake."""

    async def call(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Send a request and return the result of its reply."""

    def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Send a request that is answered with a stream of events."""

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification, which has no reply."""
