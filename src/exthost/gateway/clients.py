"""The connected clients of the handshake era, and what they are notified of.

Clients of the stateless era are not here: nothing connects their requests, and they hear of changes
by `subscriptions/listen`. A client is known from its first request on and notified from its
`notifications/initialized` on, as the protocol wants it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import mcp_types as types
from mcp.server.session import ServerSession

from exthost.gateway.call_session import Caller
from exthost.gateway.exchanges import Context, can_answer
from exthost.gateway.outbox import Outbox

__all__ = ["LEVELS", "SESSION_HEADER", "Client", "Clients", "is_at_least"]

_log = logging.getLogger("exthost.gateway")

# The header of HTTP with the id of a session.
SESSION_HEADER = "mcp-session-id"

# From the least severe to the most.
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def is_at_least(level: Any, lowest: str | None) -> bool:
    """Whether a log message of this level passes a filter; None lets everything pass."""
    if lowest not in LEVELS or level not in LEVELS:
        return True
    return LEVELS.index(level) >= LEVELS.index(lowest)


class Client:
    """One connection. `level` is the lowest level of the log messages that it wants."""

    __slots__ = ("_outbox", "_params", "caller", "level", "on_end", "session")

    def __init__(self, params: types.InitializeRequestParams | None) -> None:
        self._params = params  # held, since its identity is the key
        self._outbox = Outbox()
        self.session: ServerSession | None = None
        self.level: str | None = None
        self.caller: Caller | None = None
        self.on_end: Callable[[], None] | None = None

    def notify(self, notification: types.ServerNotification) -> None:
        """Send a notification that belongs to no request of the client."""
        session = self.session
        if session is not None:
            self._outbox.put(lambda: session.send_notification(notification))

    def close(self) -> None:
        self.session = None
        self._outbox.close()


class Clients:
    """Every client of the handshake era that is connected."""

    def __init__(self) -> None:
        self._by_key: dict[int, Client] = {}
        self._by_session: dict[str, Client] = {}

    def __iter__(self) -> Iterator[Client]:
        return iter(tuple(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, ctx: Context) -> Client:
        """Return the client of this request."""
        params = ctx.session.client_params
        return self._by_key.setdefault(id(params), Client(params))

    async def attend(self, ctx: Context) -> None:
        """Notify this client until its connection ends, which cancels this."""
        client, session = self.of(ctx), ctx.session
        client.session = session
        client.caller = Caller(
            session.protocol_version, session.client_params, session.client_capabilities
        )
        session_id = ctx.request.headers.get(SESSION_HEADER) if ctx.request is not None else None
        if session_id is not None:
            self._by_session[session_id] = client
        try:
            await asyncio.Event().wait()
        finally:
            self._by_key.pop(id(session.client_params), None)
            if session_id is not None:
                self._by_session.pop(session_id, None)
            client.close()
            if client.on_end is not None:
                client.on_end()

    def in_session(self, session: str) -> Client | None:
        """Return the client of a session of HTTP, by its id."""
        return self._by_session.get(session)

    def notify(self, notification: types.ServerNotification) -> None:
        """Send a notification to each of them."""
        for client in self:
            client.notify(notification)

    def sole(self, method: str, params: Any) -> ServerSession | None:
        """Return the session of the only client, if it serves such requests."""
        sessions = [client.session for client in self if client.session is not None]
        if len(sessions) != 1 or not can_answer(sessions[0], method, params):
            return None
        return sessions[0]

    @property
    def lowest_level(self) -> str | None:
        """The lowest level that a client has set; None if none has."""
        levels = [client.level for client in self if client.level in LEVELS]
        return min(levels, key=LEVELS.index) if levels else None
