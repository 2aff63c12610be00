"""Decides whether an HTTP request is accepted, by its Host and Origin headers and its token.

exthost serves a web page and an MCP gateway on HTTP. Both use these rules.

A Host header with an unknown name may mean that another web site has its own name resolve to this
machine (DNS rebinding). An Origin header of another site means that a page of that site sends the
request. Both kinds of requests are refused before the token is checked.
"""

from collections.abc import Mapping

from exthost.faces.http_server.listener import allowed_host_headers
from exthost.faces.http_server.token import Tokens

MISDIRECTED = 421
FORBIDDEN = 403
UNAUTHORIZED = 401

UNKNOWN_NAME = "this host is not known under that name"


class Access:
    """The access rules of one HTTP service."""

    def __init__(self, host: str, tokens: Tokens) -> None:
        """`host` is the address that the service listens on, `tokens` are the valid tokens."""
        self._host_names = frozenset(name.lower() for name in allowed_host_headers(host))
        self._tokens = tokens

    def find_objection(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return the HTTP status and the reason if the headers `host`, `origin` or `sec-fetch-site`
        do not allow the request; otherwise None. Names of headers are in lower case."""
        if not self.is_own_name(headers):
            return MISDIRECTED, UNKNOWN_NAME
        origin = headers.get("origin")
        if origin is not None and not self._is_own_origin(origin, headers.get("host", "")):
            return FORBIDDEN, "a page of another site cannot use this host"
        # A link on another site may lead here (navigate); its scripts must not send requests.
        # A browser that sends the site sends the mode, too. Without a mode it is another program.
        is_cross_site = headers.get("sec-fetch-site") == "cross-site"
        if is_cross_site and headers.get("sec-fetch-mode") not in ("navigate", None):
            return FORBIDDEN, "a page of another site cannot use this host"
        return None

    def is_own_name(self, headers: Mapping[str, str]) -> bool:
        """Return whether the Host header has a name of this service, with any port."""
        return _strip_port(headers.get("host", "")) in self._host_names

    def _is_own_origin(self, origin: str, host: str) -> bool:
        """Return whether the Origin header names this service: the name and port of `host`."""
        return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())

    def has_token(self, headers: Mapping[str, str]) -> bool:
        """Return whether the request has the token as `Authorization: Bearer`."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.is_token(token)

    def is_token(self, text: str) -> bool:
        """Return whether this is a valid token."""
        return self._tokens.is_valid(text.strip())


def _strip_port(host: str) -> str:
    """Return the value of a Host header without the port, in lower case."""
    name, separator, port = host.rpartition(":")
    # A name that ends with a colon is an IPv6 address without brackets, such as `::1`.
    is_port = bool(separator) and (port.isdecimal() or not port) and not name.endswith(":")
    return (name if is_port and name else host).lower()
