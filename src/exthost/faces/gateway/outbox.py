"""A queue of notifications to one client of the gateway, which one task sends in order.

Callbacks of the event bus and of progress must not wait for a client, so they only put
notifications into the queue. If a client does not read, the oldest unsent notifications are
dropped; other clients are not delayed. The task exists only while there is something to send.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

_log = logging.getLogger("exthost.faces.gateway")

# The maximum number of unsent notifications for a slow client. The oldest are dropped first.
MAX_UNSENT = 256

SendNotification: TypeAlias = Callable[[], Awaitable[None]]
"""Sends one notification when it is called."""


class Outbox:
    """The notifications of one request, or of one connected client."""

    __slots__ = ("_sender", "_unsent")

    def __init__(self) -> None:
        self._unsent: deque[SendNotification] = deque(maxlen=MAX_UNSENT)
        self._sender: asyncio.Task[None] | None = None

    def put(self, send_notification: SendNotification) -> None:
        """Queue a notification. It is sent after the notifications that were put earlier."""
        self._unsent.append(send_notification)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        while self._unsent:
            send_notification = self._unsent.popleft()
            try:
                await send_notification()
            except Exception as error:  # the client has disconnected, or refused the notification
                _log.debug("a notification was not sent: %r", error)

    async def flush(self) -> None:
        """Wait until everything is sent. Called before a result is sent, so that the client gets
        the notifications first."""
        if self._sender is not None:
            await self._sender

    def close(self) -> None:
        """Drop everything that is unsent, and stop the sender."""
        self._unsent.clear()
        if self._sender is not None:
            self._sender.cancel()
