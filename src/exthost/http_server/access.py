"""Access to an HTTP service: its own Host and Origin, and the token.

`Access` decides, and knows no application. A foreign Host means that a page of another site reaches
us under a name of its own (DNS rebinding). A foreign Origin means that a page of another site sends
requests to us. Both are refused before anything else is checked.
"""

from collections.abc import Mapping

from exthost.http_server.listener import allowed_host_headers
from exthost.http_server.token import Tokens

MISDIRECTED = 421
FORBIDDEN = 403
UNAUTHORIZED = 401


class Access:
    """The rules of one service: the host names that requests may use, and its tokens."""

    def __init__(self, host: str, tokens: Tokens) -> None:
        """`host` is the address that the service listens on."""
        self._names = frozenset(name.lower() for name in allowed_host_headers(host))
        self._tokens = tokens

    def find_objection(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return the status and the reason if a request is refused; None if it is not."""
        host = headers.get("host", "")
        if without_port(host) not in self._names:
            return MISDIRECTED, "this host is not known under that name"
        origin = headers.get("origin")
        if origin is not None and not self._is_ours(origin, host):
            return FORBIDDEN, "a page of another site may not ask this host"
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") not in (
            "navigate",
            None,
        ):
            return FORBIDDEN, "a page of another site may not ask this host"
        return None

    def _is_ours(self, origin: str, host: str) -> bool:
        """Return whether the origin is the page of this very service: same name and same port."""
        return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())

    def has_token(self, headers: Mapping[str, str]) -> bool:
        """Return whether the request has the token as `Authorization: Bearer`."""
        kind, _, text = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self.is_token(text)

    def is_token(self, text: str) -> bool:
        """Return whether this is a valid token."""
        return self._tokens.is_valid(text.strip())


def without_port(host: str) -> str:
    """Return the name of a Host header, in lower case."""
    name, separator, port = host.rpartition(":")
    is_port = bool(separator) and (port.isdecimal() or not port) and not name.endswith(":")
    return (name if is_port and name else host).lower()
