"""Answers `/healthz`, `/readyz` and `/metrics`, on the ports of the web page and the gateway, for
programs that monitor the host (Kubernetes, Prometheus).

`/healthz` and `/readyz` need no token. They reveal only a status. `/healthz` is about the host:
`ok` with 200, or `starting` or `ending` with 503. `/readyz` also covers its extensions: it is
`degraded`, with 503, while one has failed, is refused, waits for a restart, or has an open circuit
breaker. `/metrics` needs the token, because it contains the names of extensions.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from exthost.faces.http_server.access import UNAUTHORIZED, Access
from exthost.faces.http_server.asgi import App, Receive, Scope, Send, decode_headers, send_response
from exthost.faces.http_server.metrics import Metrics
from exthost.wire import jsontext

HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"

_PATHS = frozenset({HEALTH_PATH, READY_PATH, METRICS_PATH})

# The states in which an extension cannot answer calls for now. In the state "open" its circuit
# breaker is open: calls are refused after many failures.
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
        if self._phase.ending:
            return _respond("ending")
        return _respond("ok" if self._phase.opened else "starting")

    def _readiness(self) -> tuple[int, str, bytes]:
        if self._phase.ending or not self._phase.opened:
            return self._health()
        return _respond("degraded" if _NOT_READY & set(self._states()) else "ok")


def _respond(status: str) -> tuple[int, str, bytes]:
    """Return the HTTP status, the content type and the body of a response with this status."""
    body = jsontext.encode({"status": status})
    return 200 if status == "ok" else 503, "application/json", body
