"""The clients of the gateway that are connected in the handshake era of MCP, and the notifications
to them.

In the handshake era a client opens a session with `initialize`. It is registered at its first
request. As the protocol requires, it gets notifications only after it has sent
`notifications/initialized`. In the stateless era there are no sessions, so its clients are not
registered; they get notifications by `subscriptions/listen`. "The package" is the `mcp` package,
which manages the sessions.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import mcp_types as types
from mcp.server.session import ServerSession

from exthost.faces.gateway.call_session import CallingClient
from exthost.faces.gateway.exchanges import Context, can_answer
from exthost.faces.gateway.outbox import Outbox

# The header of HTTP with the id of a session.
SESSION_HEADER = "mcp-session-id"

# The levels of log messages, from the least severe to the most severe.
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def is_at_least(level: Any, threshold: str | None) -> bool:
    """Return whether a log message of this level is at least as severe as the threshold. A
    threshold or a level that is not in LEVELS filters nothing."""
    if threshold not in LEVELS or level not in LEVELS:
        return True
    return LEVELS.index(level) >= LEVELS.index(threshold)


class Client:
    """One connected client.

    `session` is None until the client has sent `notifications/initialized`, and after it has
    disconnected. `level` is the least severe level of the log messages that the client gets, None
    for all. `caller` describes the client to calls that bypass the package's session.
    `on_disconnect` is called when the connection ends.
    """

    __slots__ = ("_outbox", "_params", "caller", "level", "on_disconnect", "session")

    def __init__(self, params: types.InitializeRequestParams | None) -> None:
        self._params = params  # kept alive, because `Clients` uses its id() as a key
        self._outbox = Outbox()
        self.session: ServerSession | None = None
        self.level: str | None = None
        self.caller: CallingClient | None = None
        self.on_disconnect: Callable[[], None] | None = None

    @property
    def info(self) -> Mapping[str, Any]:
        """Name and version of the client; {} if it has not declared them."""
        if self._params is None:
            return {}
        declared = self._params.client_info
        return {"name": declared.name, "version": declared.version}

    def notify(self, notification: types.ServerNotification) -> None:
        """Send a notification that is not part of a request of the client."""
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

    def get_or_add(self, ctx: Context) -> Client:
        """Return the client of this request, registering it at its first request."""
        # The package has one `client_params` object for each connection: it identifies the client.
        params = ctx.session.client_params
        return self._by_key.setdefault(id(params), Client(params))

    async def serve_notifications(self, ctx: Context) -> None:
        """Let this client get notifications until it disconnects, which cancels this coroutine."""
        client, session = self.get_or_add(ctx), ctx.session
        client.session = session
        client.caller = CallingClient(
            session.protocol_version, session.client_params, session.client_capabilities
        )
        session_id = ctx.request.headers.get(SESSION_HEADER) if ctx.request is not None else None
        if session_id is not None:
            self._by_session[session_id] = client
        try:
            await asyncio.Event().wait()  # until cancelled
        finally:
            self._by_key.pop(id(session.client_params), None)
            if session_id is not None:
                self._by_session.pop(session_id, None)
            client.close()
            if client.on_disconnect is not None:
                client.on_disconnect()

    def list_http_clients(self) -> list[Mapping[str, Any]]:
        """Return the name and version of each client with an HTTP session, as it declared them. A
        client that has gone without ending its session is in the list until the session expires."""
        return [client.info for client in self._by_session.values()]

    def find_by_session(self, session_id: str) -> Client | None:
        """Return the client of the HTTP session with this id."""
        return self._by_session.get(session_id)

    def notify(self, notification: types.ServerNotification) -> None:
        """Send a notification to each client."""
        for client in self:
            client.notify(notification)

    def find_sole_session(self, method: str, params: Any) -> ServerSession | None:
        """Return the session of the only connected client, or None if there is not exactly one or
        if that client cannot answer this request."""
        sessions = [client.session for client in self if client.session is not None]
        if len(sessions) != 1 or not can_answer(sessions[0], method, params):
            return None
        return sessions[0]

    @property
    def lowest_level(self) -> str | None:
        """The least severe log level that any client has set, or None if no client has set a
        level."""
        levels = [client.level for client in self if client.level in LEVELS]
        return min(levels, key=LEVELS.index) if levels else None
