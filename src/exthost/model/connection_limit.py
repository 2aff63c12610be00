"""Limits the connections of one listening socket, so that strangers do not keep others out. No I/O.

The HTTP servers, the control socket and the listener for other nodes use it. A connection is a
stranger until it has sent its token (in the control socket, its first request). Strangers can use
only a part of the limit; the rest is reserved for connections with a token. If there are too many
strangers, an older one is closed: a silent one, which has sent nothing, before an active one, and
the oldest of them first. A client that sends its token immediately after it connects is the newest
stranger during that short time. So it stays connected, regardless of the number of silent
connections that others open.

A peer is the origin of a connection, as far as it is known: usually an address. A peer that has
opened many connections loses its own, not those of other peers.
"""

import ipaddress
from collections.abc import Hashable
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)


class _Peer(Generic[C]):
    """The strangers of one peer, oldest first: silent ones have sent nothing, active ones have sent
    something. The values of the dicts are not used."""

    __slots__ = ("active", "silent")

    def __init__(self) -> None:
        self.silent: dict[C, None] = {}
        self.active: dict[C, None] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.active)

    def oldest(self, newcomer: C) -> C | None:
        """Return the stranger to close first, but not the newcomer."""
        for strangers in (self.silent, self.active):
            for connection in strangers:
                if connection != newcomer:
                    return connection
        return None


class ConnectionLimit(Generic[C]):
    """The connections of one listening socket. At most `max_connections` are open at a time; at
    most `max_strangers` of them, and `max_per_peer` of one peer, have not sent a token."""

    __slots__ = ("_authenticated", "_max_per_peer", "_max_strangers", "_peers", "max_connections")

    def __init__(self, max_connections: int, max_strangers: int, max_per_peer: int) -> None:
        self.max_connections = max_connections
        self._max_strangers = max_strangers
        self._max_per_peer = max_per_peer
        self._peers: dict[Hashable, _Peer[C]] = {}
        self._authenticated: set[C] = set()

    def __len__(self) -> int:
        return len(self._authenticated) + self.strangers

    @property
    def strangers(self) -> int:
        """The number of connections that have not sent a token."""
        return sum(map(len, self._peers.values()))

    def admit(self, connection: C, peer: Hashable) -> C | None:
        """Add a new connection. Return the connection that must be closed in exchange, which is no
        longer counted; it is the new one if no other can be closed. Return None if there is
        room."""
        own_peer = self._peers.setdefault(peer, _Peer())
        own_peer.silent[connection] = None
        if len(own_peer) > self._max_per_peer:
            oldest = own_peer.oldest(connection)
        elif self.strangers > self._max_strangers or len(self) > self.max_connections:
            largest_peer = max(self._peers.values(), key=len)
            oldest = largest_peer.oldest(connection)
        else:
            return None
        to_close = connection if oldest is None else oldest
        self.remove(to_close)
        return to_close

    def mark_active(self, connection: C) -> None:
        """Record that a stranger has sent something."""
        for peer in self._peers.values():
            if connection in peer.silent:
                del peer.silent[connection]
                peer.active[connection] = None
                return

    def authenticate(self, connection: C) -> None:
        """Record that a connection has sent a token. It is then not closed until `remove`."""
        if self._forget_stranger(connection):
            self._authenticated.add(connection)

    def remove(self, connection: C) -> None:
        """Forget a connection that is closed."""
        self._authenticated.discard(connection)
        self._forget_stranger(connection)

    def _forget_stranger(self, connection: C) -> bool:
        """Remove a connection from the strangers. Return whether it was one."""
        for key, peer in self._peers.items():
            for strangers in (peer.silent, peer.active):
                if connection in strangers:
                    del strangers[connection]
                    if not peer:
                        del self._peers[key]
                    return True
        return False


def peer_of(address: object) -> str:
    """Return the peer of a socket address: its IPv4 address, or the network of its IPv6 address,
    since a machine has a whole network of these. Return "" if it has neither."""
    text = str(address[0]) if isinstance(address, tuple) and address else ""
    try:
        parsed = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False).network_address)
