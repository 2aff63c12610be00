"""The clients that subscribed to changes of resources.

The first subscriber of a URI subscribes at the server, and the last one unsubscribes. A restarted
server gets the subscription again. Subscribers are clients of the handshake era and open
`subscriptions/listen` requests of the stateless era; each is a hashable key.
"""

import logging
from collections.abc import Hashable

from exthost.errors import ExthostError
from exthost.gateway.catalog import Catalog, speaks_stateless

__all__ = ["ResourceSubscriptions"]

_log = logging.getLogger("exthost.gateway")


class ResourceSubscriptions:
    """The subscriptions of all clients."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._subscribers: dict[str, set[Hashable]] = {}
        self._servers: dict[str, str] = {}

    async def add(self, uri: str, subscriber: Hashable) -> None:
        """Subscribe. Raises CallFailed if the server refuses it."""
        is_first = uri not in self._servers
        self._subscribers.setdefault(uri, set()).add(subscriber)
        if is_first:
            servers = await self._catalog.servers_of(uri)
            if servers:
                self._servers[uri] = servers[0].id
                await servers[0].call("resources/subscribe", {"uri": uri})

    async def remove(self, uri: str, subscriber: Hashable) -> None:
        """Unsubscribe."""
        subscribers = self._subscribers.get(uri, set())
        subscribers.discard(subscriber)
        if subscribers:
            return
        self._subscribers.pop(uri, None)
        server = self._catalog.server(self._servers.pop(uri, ""))
        # A stateless server has no request for this; it has one long request for all of them.
        if server is not None and not speaks_stateless(server):
            await server.call("resources/unsubscribe", {"uri": uri})

    async def remove_all(self, subscriber: Hashable) -> None:
        """Unsubscribe a subscriber that is gone."""
        for uri in [
            uri for uri, subscribers in self._subscribers.items() if subscriber in subscribers
        ]:
            try:
                await self.remove(uri, subscriber)
            except ExthostError as error:
                _log.debug("%s", error)

    def of(self, uri: str) -> frozenset[Hashable]:
        """Return the subscribers of a resource."""
        return frozenset(self._subscribers.get(uri, ()))

    async def renew(self, extension: str) -> None:
        """Subscribe again at a server that was started again."""
        for uri, id in list(self._servers.items()):
            server = self._catalog.server(id) if id == extension else None
            if server is not None:
                try:
                    await server.call("resources/subscribe", {"uri": uri})
                except ExthostError as error:
                    _log.warning("%s: not subscribed to %s again: %s", extension, uri, error)
