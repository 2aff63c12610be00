"""Listening sockets, their URL, and the host names that requests may use."""

import contextlib
import ipaddress
import socket

from exthost.errors import UsageError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 chooses a free port. Raises UsageError."""
    try:
        if not 0 <= port < 2**16:  # the system would use the port modulo 2**16
            raise OverflowError("there is no such port")
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        raise UsageError(
            "X1365",
            f"cannot listen on {host} port {port}: {error}",
            help="choose another port, or 0 for any that is free",
        ) from None


def listener_url(listener: socket.socket, host: str, path: str) -> str:
    """Return the URL by which a client on this machine reaches the listener."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}{path}"


def allowed_host_headers(host: str) -> list[str]:
    """Return the values that the Host header may have for a socket bound to this host."""
    allowed = dict.fromkeys((*LOOPBACK, host))
    if host not in LOOPBACK:
        allowed[socket.gethostname()] = None
    if _is_every_address(host):
        with contextlib.suppress(OSError):
            for *_, address in socket.getaddrinfo(socket.gethostname(), None):
                allowed[str(address[0]).partition("%")[0]] = None
    return [f"[{name}]" if ":" in name else name for name in allowed]


def _is_every_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
