"""Answers `/healthz`, `/readyz` and `/metrics`, on the ports of the web page and the gateway.

`/healthz` and `/readyz` need no token. They reveal only a status. `/healthz` is about the host:
`ok` with 200, or `starting` or `ending` with 503. `/readyz` also covers its extensions: it is
`degraded`, with 503, while one has failed, is refused, waits for a restart, or has an open circuit
breaker. `/metrics` needs the token, because it contains the names of extensions.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias

from exthost.faces.http_server.access import UNAUTHORIZED, Access
from exthost.faces.http_server.metrics import Metrics
from exthost.wire import jsontext

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"

_PATHS = frozenset({HEALTH_PATH, READY_PATH, METRICS_PATH})

# The states in which an extension cannot answer calls for now.
_NOT_READY = frozenset({"failed", "refused", "open", "backoff"})


class HostPhase(Protocol):
    """The phase of a host. `opened` is True when each extension that starts with the host is ready
    or has failed. `ending` is True while the host is shutting down."""

    @property
    def opened(self) -> bool: ...

    @property
    def ending(self) -> bool: ...


class Probes:
    """Answers the requests of programs that monitor the host."""

    def __init__(
        self, phase: HostPhase, metrics: Metrics, states: Callable[[], Iterable[str]] = tuple
    ) -> None:
        """`states` returns the states of all extensions."""
        self._phase = phase
        self._metrics = metrics
        self._states = states

    def wrap(self, app: App, access: Access) -> App:
        """Return an ASGI application that answers these paths, and passes all other requests to
        `app`."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["path"] not in _PATHS:
                await app(scope, receive, send)
            else:
                await send_response(send, *self._answer(scope, access))

        return answer

    def _answer(self, scope: Scope, access: Access) -> tuple[int, str, bytes]:
        """Return the status, the content type and the body of a response."""
        headers = decode_headers(scope)
        objection = access.find_objection(headers)
        if objection is not None:
            status, reason = objection
            return status, "text/plain", reason.encode()
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "text/plain", b"use GET or HEAD"
        if scope["path"] == HEALTH_PATH:
            return self._health()
        if scope["path"] == READY_PATH:
            return self._readiness()
        if not access.has_token(headers):
            return UNAUTHORIZED, "text/plain", b"send the token as Authorization: Bearer TOKEN"
        try:
            text = self._metrics.text()
        except ImportError:
            return 501, "text/plain", b"pip install prometheus-client"
        return 200, text.content_type, text.body

    def _health(self) -> tuple[int, str, bytes]:
        phase = self._phase
        return _respond("ending" if phase.ending else "ok" if phase.opened else "starting")

    def _readiness(self) -> tuple[int, str, bytes]:
        if self._phase.ending or not self._phase.opened:
            return self._health()
        return _respond("degraded" if _NOT_READY & set(self._states()) else "ok")


def _respond(status: str) -> tuple[int, str, bytes]:
    body = jsontext.encode({"status": status})
    return 200 if status == "ok" else 503, "application/json", body


def decode_headers(scope: Scope) -> Mapping[str, str]:
    """Return the headers of an ASGI request, by their names in lower case. The values of a header
    that occurs several times are joined with commas."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def send_response(send: Send, status: int, content_type: str, body: bytes) -> None:
    """Send a whole response."""
    headers = [
        (b"content-type", content_type.encode("latin-1")),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if status == UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
