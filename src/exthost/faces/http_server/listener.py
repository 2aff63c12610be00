"""Creates listening sockets for the web page and the gateway, and computes their URLs and the Host
headers that they accept."""

import contextlib
import errno
import ipaddress
import socket

from exthost.errors import UsageError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. `host` is an address or a name; port 0 chooses a free port. Raises
    UsageError."""
    try:
        if not 0 <= port < 2**16:  # the system would use the port modulo 2**16
            raise OverflowError("there is no such port")
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # An IPv6 address is (address, port, flow info, scope id); create_server takes two of them.
        return socket.create_server(address[:2], family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        help = "choose another port, or 0 for any that is free"
        is_host_wrong = getattr(error, "errno", None) == errno.EADDRNOTAVAIL
        if is_host_wrong or isinstance(error, (socket.gaierror, UnicodeError)):
            help = "choose an address of this machine; 127.0.0.1 is the default"
        message = f"cannot listen on {host} port {port}: {error}"
        raise UsageError("X1365", message, help=help) from None


def listener_url(listener: socket.socket, host: str, path: str) -> str:
    """Return the URL by which a client on this machine reaches the listener. `host` is the value
    that was passed to `listen`."""
    url_host = f"[{host}]" if ":" in host else host  # an IPv6 address is in brackets in a URL
    return f"http://{url_host}:{listener.getsockname()[1]}{path}"


def allowed_host_headers(host: str) -> list[str]:
    """Return the names, without a port, that the Host header of a request may have, for a socket
    that listens on `host`.

    These are the loopback names and `host`. Unless `host` is a loopback name itself, the name of
    this machine is allowed as well. If `host` is a wildcard address (0.0.0.0 or ::), so is every
    address that the name of this machine resolves to.
    """
    allowed_names = dict.fromkeys((*LOOPBACK, host))  # an ordered set
    if host not in LOOPBACK:
        allowed_names[socket.gethostname()] = None
    if _is_wildcard(host):
        with contextlib.suppress(OSError):
            for *_, address in socket.getaddrinfo(socket.gethostname(), None):
                # A link-local IPv6 address may end in a zone, as in fe80::1%eth0.
                allowed_names[str(address[0]).partition("%")[0]] = None
    return [f"[{name}]" if ":" in name else name for name in allowed_names]


def _is_wildcard(host: str) -> bool:
    """Return whether a socket that is bound to this address accepts connections to every address
    of this machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:  # a host name
        return False
