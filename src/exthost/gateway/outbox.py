"""Sends notifications to a client while its request is served: progress and log messages, in order.

Callbacks of the bus and of progress must not wait for a client, so they put notifications here, and
one task sends them. A client that does not read loses the oldest of them, and delays no other.
Without notifications it costs nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

__all__ = ["Outbox"]

_log = logging.getLogger("exthost.gateway")

# The number of unsent notifications that are kept for a slow client: the latest ones.
MAX_WAITING = 256

Send: TypeAlias = Callable[[], Awaitable[None]]


class Outbox:
    """The notifications of one request."""

    __slots__ = ("_sending", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[Send] = deque(maxlen=MAX_WAITING)
        self._sending: asyncio.Task[None] | None = None

    def put(self, send: Send) -> None:
        """Send this after the notifications before it."""
        self._waiting.append(send)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._waiting:
            send = self._waiting.popleft()
            try:
                await send()
            except Exception as error:  # the client is gone, or did not take it
                _log.debug("a notification was not sent: %r", error)

    async def flush(self) -> None:
        """Wait until everything is sent, so that it goes before the result."""
        if self._sending is not None:
            await self._sending

    def close(self) -> None:
        """Send nothing more."""
        self._waiting.clear()
        if self._sending is not None:
            self._sending.cancel()
