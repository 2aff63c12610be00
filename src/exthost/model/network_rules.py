"""The list `permissions.network`: which hosts an extension can connect to through its proxy.

An entry is a name (`api.example.com`), all names below a name (`*.example.org`), an address or a
network of addresses (`10.1.2.3`, `10.0.0.0/8`, `[2001:db8::1]`). A port can follow after a colon;
`:*` means every port, and without a port the entry means 80 and 443. `localhost` is this machine.

The proxy resolves a name that fits an entry, and uses only addresses that are public.
Otherwise the owner of a name could direct an extension to the services of the local network. An
address that is not public can be reached only if the list has that address, too. This module only
parses and compares; `process.network_proxy` resolves names and connects.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Host: TypeAlias = str | Address
"""A name in lower case without a final dot, or an address."""

# The ports of an entry that names none: those of HTTP and HTTPS.
WEB_PORTS = frozenset((80, 443))

# The name of this machine, and the addresses that the proxy resolves it to.
LOCALHOST = "localhost"
LOCALHOST_ADDRESSES: tuple[Address, ...] = (
    ipaddress.IPv4Address("127.0.0.1"),
    ipaddress.IPv6Address("::1"),
)

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
# The C library reads a name with such a last label as an address, in many forms (127.1, 0x7f.1).
_NUMERIC_LABEL = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_MAX_NAME_LENGTH = 253
# IDNA 2008 keeps these characters (ß, a final sigma and two joiners), and IDNA 2003 replaces them.
# So a text with one is the name of two hosts.
_AMBIGUOUS = re.compile("[\u00df\u03c2\u200c\u200d]")

# Networks that are not public, and that some versions of `ipaddress` call global.
_NOT_PUBLIC: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.0/24",
        "192.88.99.0/24",
        # The metadata service of a cloud provider, at an address that looks like any other.
        "168.63.129.16/32",
        "fec0::/10",
        "5f00::/16",
    )
)
# The addresses by which machines without IPv4 reach IPv4 addresses (NAT64). The last 32 bits are
# the IPv4 address. Other IPv6 addresses that contain an IPv4 address are not public.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class BadHost(ValueError):
    """A text is not a host, an entry or the address of a proxy. The message says why."""


class NetworkEntry(NamedTuple):
    """One entry of the list.

    text      the entry in its usual form, for messages
    name      the name, without `*.`; "" if the entry is an address or a network
    is_below  whether the entry stands for all names below `name`
    network   the addresses; None if the entry is a name
    ports     the ports; None for every port
    """

    text: str
    name: str = ""
    is_below: bool = False
    network: Network | None = None
    ports: frozenset[int] | None = WEB_PORTS

    def has_port(self, port: int) -> bool:
        """Return whether the entry has this port."""
        return self.ports is None or port in self.ports

    def has_name(self, name: str) -> bool:
        """Return whether the entry has this name."""
        return name.endswith(f".{self.name}") if self.is_below else name == self.name

    def has_address(self, address: Address) -> bool:
        """Return whether the entry is this address, or a network with it."""
        return self.network is not None and address in self.network


def parse_host(text: str) -> Host:
    """Return a host in its normal form: an address, or a name in ASCII and lower case without a
    final dot. An IPv6 address that stands for an IPv4 address (`::ffff:1.2.3.4`) becomes that
    address. Raises BadHost."""
    inner = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
    if ":" in inner:
        try:
            address = ipaddress.IPv6Address(inner)
        except ValueError:
            raise BadHost("it is not an IPv6 address") from None
        if address.scope_id is not None:
            raise BadHost("an address with a zone (%) is not supported")
        return address.ipv4_mapped or address
    if inner is not text:
        raise BadHost("only an IPv6 address is in brackets")
    name = _to_ascii(text)
    name = name.removesuffix(".")
    labels = name.split(".")
    if _NUMERIC_LABEL.match(labels[-1]):
        try:
            return ipaddress.IPv4Address(name)
        except ValueError:
            raise BadHost("it is neither a name nor an IPv4 address of four numbers") from None
    if len(name) > _MAX_NAME_LENGTH or not all(map(_LABEL.match, labels)):
        raise BadHost("it is not the name of a host")
    return name


def _to_ascii(name: str) -> str:
    """Return a name in ASCII (punycode) and lower case."""
    if name.isascii():
        return name.lower()
    if ambiguous := _AMBIGUOUS.search(name):
        raise BadHost(
            f"programs encode {ambiguous[0]!r} in a name in two ways: write the name as it is "
            "encoded (xn--…)"
        )
    try:
        return name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise BadHost("it is not the name of a host") from None


def parse_port(text: str) -> int:
    """Return a port. Raises BadHost."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536):
        raise BadHost("a port is a number from 1 to 65535")
    return int(text)


def split_port(text: str) -> tuple[str, str]:
    """Return a host and the port after it, "" if there is none."""
    if text.startswith("["):
        host, bracket, port = text.partition("]")
        if not bracket or (port and not port.startswith(":")) or port == ":":
            raise BadHost("a port follows the bracket after a colon")
        return f"{host}]", port[1:]
    if text.count(":") > 1:
        return text, ""  # an IPv6 address
    host, colon, port = text.partition(":")
    if colon and not port:
        raise BadHost("there is no port after the colon")
    return host, port


def format_target(host: Host, port: int) -> str:
    """Return host and port, as an entry names them."""
    shown = f"[{host}]" if isinstance(host, ipaddress.IPv6Address) else str(host)
    return f"{shown}:{port}"


def parse_entry(text: str) -> NetworkEntry:
    """Return an entry of the list. Raises BadHost."""
    if "://" in text:
        raise BadHost('it is a URL: name the host and the port, such as "api.example.com:443"')
    host_text, port_text = split_port(text)
    ports: frozenset[int] | None = WEB_PORTS
    if port_text:
        ports = None if port_text == "*" else frozenset((parse_port(port_text),))
    suffix = f":{port_text}" if port_text else ""
    if host_text == "*":
        raise BadHost("it is every host: use network = true for that")
    if "/" in host_text:
        network = _parse_network(host_text.removeprefix("[").removesuffix("]"))
        shown = f"[{network}]" if network.version == 6 else str(network)
        return NetworkEntry(shown + suffix, network=network, ports=ports)
    is_below = host_text.startswith("*.")
    host = parse_host(host_text.removeprefix("*."))
    if isinstance(host, str):
        star = "*." if is_below else ""
        return NetworkEntry(f"{star}{host}{suffix}", host, is_below, ports=ports)
    if is_below:
        raise BadHost("an address has no names below it")
    shown = f"[{host}]" if host.version == 6 else str(host)
    return NetworkEntry(shown + suffix, network=ipaddress.ip_network(host), ports=ports)


def _parse_network(text: str) -> Network:
    """Return a network of addresses. Raises BadHost."""
    if "%" in text:
        raise BadHost("an address with a zone (%) is not supported")
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise BadHost("it is not a network of addresses, such as 10.0.0.0/8") from None


def is_public(address: Address) -> bool:
    """Return whether an address belongs to the public internet: not this machine, not its local
    network, not a service of a cloud provider for its machines, and not a multicast group."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.ipv4_mapped or address.sixtofour or address.teredo:
            return False
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(
        address in network for network in _NOT_PUBLIC if network.version == address.version
    )


def _without_mapping(address: Address) -> Address:
    """Return the IPv4 address in an IPv6 address that contains one (`::ffff:1.2.3.4`)."""
    return getattr(address, "ipv4_mapped", None) or address


class NetworkRules:
    """The whole list."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[str]) -> None:
        """Raises BadHost if an entry is not valid."""
        self._entries = tuple(map(parse_entry, entries))

    def find_entry(self, host: Host, port: int) -> NetworkEntry | None:
        """Return the entry that allows a connection to this host, as the extension named it; None
        if there is none."""
        for entry in self._entries:
            if not entry.has_port(port):
                continue
            if isinstance(host, str):
                if entry.name and entry.has_name(host):
                    return entry
            elif entry.has_address(host) or (
                entry.name == LOCALHOST and not entry.is_below and host in LOCALHOST_ADDRESSES
            ):
                return entry
        return None

    def allows_address(self, host: Host, address: Address, port: int) -> bool:
        """Return whether a connection to an allowed host may use an address that the host has just
        resolved to."""
        if host == LOCALHOST:
            return address in LOCALHOST_ADDRESSES
        return self.has_address(host, address, port) or is_public(_without_mapping(address))

    def has_address(self, host: Host, address: Address, port: int) -> bool:
        """Return whether the list has the address itself, not only a name that resolves to it. For
        `localhost`, these are the addresses of loopback."""
        address = _without_mapping(address)
        if host == LOCALHOST:
            return address in LOCALHOST_ADDRESSES
        return host == address or any(
            entry.has_port(port) and entry.has_address(address) for entry in self._entries
        )


class UpstreamProxy(NamedTuple):
    """A proxy through which the host itself connects, such as that of a company. `authorization` is
    the value of the header `Proxy-Authorization`; "" for none."""

    host: str
    port: int
    authorization: str = ""


def parse_proxy_url(url: str) -> UpstreamProxy:
    """Return the proxy that a variable such as HTTPS_PROXY names. Raises BadHost, whose message
    does not contain the URL, since that may contain a password."""
    import base64
    from urllib.parse import unquote_to_bytes

    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "http", url
    if scheme.lower() != "http":
        raise BadHost(f"a proxy that is reached by {scheme} is not supported, only one by http")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, place = authority.rpartition("@")
    host_text, port_text = split_port(place)
    host = parse_host(host_text)
    name, _, password = user.partition(":")
    # The environment has bytes that are not UTF-8 as surrogates.
    parts = (unquote_to_bytes(part.encode("utf-8", "surrogateescape")) for part in (name, password))
    token = base64.b64encode(b":".join(parts)).decode()
    port = parse_port(port_text) if port_text else 80
    return UpstreamProxy(str(host), port, f"Basic {token}" if at else "")


def is_excluded(host: Host, port: int, no_proxy: str) -> bool:
    """Return whether the variable NO_PROXY (`no_proxy`), such as ".example.org,10.0.0.0/8",
    excludes a host from the upstream proxy. Items that are not valid are ignored."""
    for item in re.split(r"[,\s]+", no_proxy.strip()):
        if item == "*":
            return True
        try:
            if "/" in item:
                network = _parse_network(item)
                if not isinstance(host, str) and host in network:
                    return True
                continue
            host_text, port_text = split_port(item.removeprefix("*").lstrip("."))
            excluded = parse_host(host_text)
            if port_text and parse_port(port_text) != port:
                continue
        except BadHost:
            continue
        is_below = isinstance(host, str) and host.endswith(f".{excluded}")
        if host == excluded or is_below:
            return True
    return False
