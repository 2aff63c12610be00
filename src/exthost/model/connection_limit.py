"""Limits the connections of one listening socket, so that strangers do not keep others out. Pure.

A connection is a stranger until it has shown its token. Strangers have only a part of the places;
the others are reserved for connections with a token. If there is no place for a new stranger, an
older one must go: a silent one, which has sent nothing, before one that has begun to speak, and the
oldest of them first. A client that connects and sends its token at once is the newest for that
short time, so it stays, however many silent connections others open.

A peer is the origin of a connection, as far as it is known: usually an address. A peer that has
opened many connections loses its own, not those of other peers.
"""

import ipaddress
from collections.abc import Hashable
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)


class _Peer(Generic[C]):
    """The strangers of one peer, oldest first. The values of the dicts are not used."""

    __slots__ = ("silent", "speaking")

    def __init__(self) -> None:
        self.silent: dict[C, None] = {}
        self.speaking: dict[C, None] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.speaking)

    def oldest(self, newcomer: C) -> C | None:
        """Return the stranger that must go first, but not the newcomer."""
        for strangers in (self.silent, self.speaking):
            for connection in strangers:
                if connection != newcomer:
                    return connection
        return None


class ConnectionLimit(Generic[C]):
    """The connections of one listening socket. `most` connections are open at a time; at most
    `most_strangers` of them, and `most_per_peer` of one peer, have not shown a token."""

    __slots__ = ("_authenticated", "_most_per_peer", "_most_strangers", "_peers", "most")

    def __init__(self, most: int, most_strangers: int, most_per_peer: int) -> None:
        self.most = most
        self._most_strangers = most_strangers
        self._most_per_peer = most_per_peer
        self._peers: dict[Hashable, _Peer[C]] = {}
        self._authenticated: set[C] = set()

    def __len__(self) -> int:
        return len(self._authenticated) + self.strangers

    @property
    def strangers(self) -> int:
        """The number of connections that have not shown a token."""
        return sum(map(len, self._peers.values()))

    def admit(self, connection: C, peer: Hashable) -> C | None:
        """Add a new connection. Return the connection that must be closed in exchange, which is no
        longer counted; it is the new one if no other can go. Return None if there is room."""
        own = self._peers.setdefault(peer, _Peer())
        own.silent[connection] = None
        victim: C | None = None
        if len(own) > self._most_per_peer:
            victim = own.oldest(connection)
        elif self.strangers > self._most_strangers or len(self) > self.most:
            largest = max(self._peers.values(), key=len)
            victim = largest.oldest(connection)
        else:
            return None
        gone = connection if victim is None else victim
        self.remove(gone)
        return gone

    def heard(self, connection: C) -> None:
        """Note that a stranger has sent something."""
        for peer in self._peers.values():
            if connection in peer.silent:
                del peer.silent[connection]
                peer.speaking[connection] = None
                return

    def authenticate(self, connection: C) -> None:
        """Note that a connection has shown a token. It then has a place until `remove`."""
        if self._forget_stranger(connection):
            self._authenticated.add(connection)

    def remove(self, connection: C) -> None:
        """Forget a connection that is closed."""
        self._authenticated.discard(connection)
        self._forget_stranger(connection)

    def _forget_stranger(self, connection: C) -> bool:
        for key, peer in self._peers.items():
            for strangers in (peer.silent, peer.speaking):
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
