"""Finds the `HostilePeer` of each dialect: the adapter by which the hostile extension speaks it.

The hostile extension (`hostile.py`) is a program that misbehaves on request, in any dialect. The
adapter is part of the dialect's package, which names it in the field `hostile_peer`.
"""

from collections.abc import Iterator, Mapping

from exthost.dialects import find
from exthost.dialects.hostile_peer import HostilePeer
from exthost.errors import ConfigError

__all__ = ["PEERS", "HostilePeer", "find_peer"]


def find_peer(dialect: str) -> HostilePeer:
    """Return the adapter of this dialect. Raises KeyError if the dialect has none, or there is no
    such dialect."""
    try:
        package = find.find_package(dialect)
    except ConfigError:
        raise KeyError(dialect) from None
    if not package.hostile_peer:
        raise KeyError(dialect)
    peer: HostilePeer = find.load_reference(package, package.hostile_peer)
    return peer


class _Peers(Mapping[str, HostilePeer]):
    """Dialect → adapter. Every access looks again, because packages may be added or removed."""

    def __getitem__(self, dialect: str) -> HostilePeer:
        return find_peer(dialect)

    def __iter__(self) -> Iterator[str]:
        return (package.name for package in find.iter_packages() if package.hostile_peer)

    def __len__(self) -> int:
        return sum(1 for _ in self)


PEERS: Mapping[str, HostilePeer] = _Peers()
