"""Reads the first bytes that a client sends to a proxy: HTTP CONNECT, plain HTTP or SOCKS5.

A sandboxed extension reaches the network only through the proxy of its host
(`process.network_proxy`), which decides by the host that a request names:

    CONNECT api.example.com:443 HTTP/1.1        a tunnel for any bytes, such as https
    GET http://api.example.com/data HTTP/1.1    plain HTTP

The bytes of a request up to the blank line are its head. A function returns None if it needs more
bytes, and raises BadRequest if no bytes can make the request valid. The rules are stricter than
those of HTTP: two programs that read one head in two ways are how a request passes a proxy. So
there are no folded lines, no line that ends in LF alone, no second Content-Length, and no body
after CONNECT.
"""

import re
from typing import NamedTuple

# How long a head may be. Common servers accept 8 to 32 KiB.
MAX_HEAD_BYTES = 64 * 1024

SOCKS_VERSION = 5
# The replies of SOCKS5: accepted without authentication; no such method; and its result codes.
SOCKS_NO_AUTHENTICATION = b"\x05\x00"
SOCKS_NO_METHOD = b"\x05\xff"
SOCKS_DONE, SOCKS_FAILED, SOCKS_FORBIDDEN, SOCKS_UNREACHABLE = 0, 1, 2, 4
SOCKS_NO_COMMAND, SOCKS_NO_ADDRESS_TYPE = 7, 8

_HEAD_END = b"\r\n\r\n"
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) (HTTP/1\.[01])\Z")
_HEADER = re.compile(rb"(" + _TOKEN + rb"):([\t\x20-\x7e\x80-\xff]*)\Z")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: |\r|\Z)")
_ABSOLUTE_URI = re.compile(rb"(?i:http)://([^/?#@\\]+)([/?][^#]*)?\Z")

# Headers that concern one connection (hop by hop), and are not passed on. `Host` is among them
# because the proxy writes its own.
_HOP_HEADERS = frozenset(
    (
        *(b"connection", b"proxy-connection", b"keep-alive", b"te", b"trailer", b"upgrade"),
        *(b"proxy-authorization", b"proxy-authenticate", b"host"),
    )
)

_SOCKS_CONNECT = 1
_SOCKS_IPV4, _SOCKS_NAME, _SOCKS_IPV6 = 1, 3, 4


class BadRequest(ValueError):
    """The request is not valid. `reply` is the code of SOCKS5 for it."""

    def __init__(self, message: str, reply: int = SOCKS_FAILED) -> None:
        super().__init__(message)
        self.reply = reply


class HttpRequest(NamedTuple):
    """A request for a proxy.

    authority  the host and, for CONNECT always, the port, as the client wrote them
    is_tunnel  whether it is CONNECT
    method, path, headers  of a plain request; the headers that the server gets
    body_bytes the length of the body; None if its end is not known from the head
    version    that of the client, which decides in what form the server replies
    rest       the bytes after the head
    """

    authority: str
    is_tunnel: bool
    rest: bytes
    method: bytes = b""
    path: bytes = b""
    headers: tuple[bytes, ...] = ()
    body_bytes: int | None = 0
    version: bytes = b"HTTP/1.1"

    def with_header(self, name: str, value: str) -> "HttpRequest":
        """Return the request with this header in place of any that the client sent."""
        prefix = name.lower().encode("ascii") + b": "
        others = tuple(header for header in self.headers if not header.startswith(prefix))
        return self._replace(headers=(*others, prefix + value.encode("ascii")))

    def origin_head(self) -> bytes:
        """Return the head for the server itself."""
        return self._head(self.path)

    def proxy_head(self, authorization: str) -> bytes:
        """Return the head for another proxy."""
        extra = (f"Proxy-Authorization: {authorization}".encode(),) if authorization else ()
        return self._head(b"http://" + self.authority.encode("ascii") + self.path, extra)

    def _head(self, target: bytes, extra: tuple[bytes, ...] = ()) -> bytes:
        first = self.method + b" " + target + b" " + self.version
        host = b"Host: " + self.authority.encode("ascii")
        # One request for each connection: the next one may be for another host.
        return b"\r\n".join((first, host, *self.headers, *extra, b"Connection: close", b"", b""))


class SocksRequest(NamedTuple):
    """A request of SOCKS5 to connect. `rest` are the bytes after it."""

    host: str
    port: int
    rest: bytes


def parse_http(data: bytes) -> HttpRequest | None:
    """Return the request whose head is at the beginning of `data`."""
    end = data.find(_HEAD_END)
    if end > MAX_HEAD_BYTES or (end < 0 and len(data) > MAX_HEAD_BYTES):
        raise BadRequest(f"the head of the request is longer than {MAX_HEAD_BYTES} bytes")
    first = data.partition(b"\r\n")[0] if b"\r\n" in data else b""
    if end < 0:
        if first and not _REQUEST_LINE.match(first):
            raise BadRequest("the first line is not a request for a proxy")
        return None
    lines = data[:end].split(b"\r\n")
    rest = data[end + len(_HEAD_END) :]
    match = _REQUEST_LINE.match(lines[0])
    if match is None:
        raise BadRequest("the first line is not a request for a proxy")
    method, target, version = match.groups()
    headers = [_parse_header(line) for line in lines[1:]]
    body_bytes = _body_bytes(headers)
    if method == b"CONNECT":
        if body_bytes != 0:
            raise BadRequest("CONNECT has no body")
        if not re.fullmatch(rb"[^/?#@\\]+:[0-9]+", target):
            raise BadRequest("the target of CONNECT is a host and a port")
        return HttpRequest(target.decode("ascii"), True, rest)
    if method == b"TRACE":
        # A further proxy could return the head with its own password in it.
        raise BadRequest("TRACE is not passed on")
    absolute = _ABSOLUTE_URI.match(target)
    if absolute is None:
        if target[:8].lower() == b"https://":
            raise BadRequest("https goes through a proxy by CONNECT")
        if b"@" in target.partition(b"://")[2].partition(b"/")[0]:
            raise BadRequest("the URL of a request has no user and password: use Authorization")
        raise BadRequest("a request for a proxy names the whole URL, which begins with http://")
    path = absolute[2] or b"/"
    # `Connection` lists further headers that concern this connection.
    connection_values = [value for name, value in headers if name == b"connection"]
    listed = {name.strip().lower() for value in connection_values for name in value.split(b",")}
    # The two last headers decide where a body ends, so `Connection` must not remove them.
    dropped = (_HOP_HEADERS | listed) - {b"content-length", b"transfer-encoding"}
    return HttpRequest(
        absolute[1].decode("ascii"),
        False,
        rest,
        method,
        path if path.startswith(b"/") else b"/" + path,
        tuple(name + b": " + value for name, value in headers if name not in dropped),
        body_bytes,
        version,
    )


def _parse_header(line: bytes) -> tuple[bytes, bytes]:
    """Return the name of a header in lower case, and its value."""
    match = _HEADER.match(line)
    if match is None:
        raise BadRequest("a line of the head is not a header")
    return match[1].lower(), match[2].strip(b" \t")


def _body_bytes(headers: list[tuple[bytes, bytes]]) -> int | None:
    """Return the length of the body; None for a chunked body, whose end is not known before it has
    been read."""
    lengths = [value for name, value in headers if name == b"content-length"]
    encodings = [value for name, value in headers if name == b"transfer-encoding"]
    if len(lengths) > 1 or len(encodings) > 1 or (lengths and encodings):
        raise BadRequest("the length of the body is given twice")
    if encodings:
        if encodings[0].lower() != b"chunked":
            raise BadRequest("the body has an unknown transfer encoding")
        return None
    if lengths:
        if not re.fullmatch(rb"[0-9]{1,18}", lengths[0]):
            raise BadRequest("the length of the body is not a number")
        return int(lengths[0])
    return 0


def parse_status(data: bytes) -> tuple[int, bytes] | None:
    """Return the status of a reply to CONNECT, and the bytes after its head."""
    end = data.find(_HEAD_END)
    if end < 0:
        if len(data) > MAX_HEAD_BYTES:
            raise BadRequest("the head of the reply is too long")
        return None
    match = _STATUS_LINE.match(data)
    if match is None:
        raise BadRequest("the reply is not one of HTTP")
    return int(match[1]), data[end + len(_HEAD_END) :]


def parse_socks_greeting(data: bytes) -> tuple[bool, bytes] | None:
    """Return whether a client of SOCKS5 accepts a connection without authentication, and the bytes
    after its greeting."""
    # The greeting is the version, the number of methods, and the methods, one byte each. Method 0
    # is no authentication.
    if len(data) < 2 or len(data) < 2 + data[1]:
        return None
    end = 2 + data[1]
    return 0 in data[2:end], data[end:]


def parse_socks(data: bytes) -> SocksRequest | None:
    """Return the request of SOCKS5 at the beginning of `data`. Its bytes are the version, the
    command, a 0, the type of the address, the address, and two bytes of the port. An address that
    is a name begins with its length."""
    if len(data) >= 1 and data[0] != SOCKS_VERSION:
        raise BadRequest("it is not a request of SOCKS5")
    if len(data) >= 2 and data[1] != _SOCKS_CONNECT:
        raise BadRequest("only connections can be requested", SOCKS_NO_COMMAND)
    if len(data) < 5:
        return None
    kind = data[3]
    if kind not in (_SOCKS_IPV4, _SOCKS_NAME, _SOCKS_IPV6):
        raise BadRequest("the type of the address is unknown", SOCKS_NO_ADDRESS_TYPE)
    start = 5 if kind == _SOCKS_NAME else 4
    length = {_SOCKS_IPV4: 4, _SOCKS_NAME: data[4], _SOCKS_IPV6: 16}[kind]
    end = start + length
    if len(data) < end + 2:
        return None
    raw = data[start:end]
    if kind == _SOCKS_NAME:
        if not raw.isascii():
            raise BadRequest("the name is not in ASCII", SOCKS_NO_ADDRESS_TYPE)
        host = raw.decode("ascii")
    elif kind == _SOCKS_IPV4:
        host = ".".join(map(str, raw))
    else:
        groups = [int.from_bytes(raw[index : index + 2], "big") for index in range(0, 16, 2)]
        host = ":".join(f"{group:x}" for group in groups)
    return SocksRequest(host, int.from_bytes(data[end : end + 2], "big"), data[end + 2 :])


def socks_reply(code: int) -> bytes:
    """Return a reply of SOCKS5 with this result. The address in it is always 0.0.0.0:0."""
    return bytes((SOCKS_VERSION, code, 0, _SOCKS_IPV4)) + bytes(6)
