"""The clients that subscribed to changes of resources.

The gateway subscribes at a server when a URI gets its first subscriber, and unsubscribes when the
last one leaves. A restarted server gets the subscription again. A subscriber is a client of the
protocol with a handshake, or an open `subscriptions/listen` request of the stateless protocol; each
is a hashable key.
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
        self._server_ids: dict[str, str] = {}  # by URI: where the gateway has subscribed

    async def add(self, uri: str, subscriber: Hashable) -> None:
        """Subscribe. Raises CallFailed if the server refuses it; nothing is subscribed then."""
        self._subscribers.setdefault(uri, set()).add(subscriber)
        if uri in self._server_ids:
            return
        servers = await self._catalog.servers_of(uri)
        if not servers:
            return
        self._server_ids[uri] = servers[0].id
        try:
            # The dialect makes a `subscriptions/listen` of it, if the server is stateless.
            await servers[0].call("resources/subscribe", {"uri": uri})
        except BaseException:
            self._server_ids.pop(uri, None)
            self._forget(uri, subscriber)
            raise

    async def remove(self, uri: str, subscriber: Hashable) -> None:
        """Unsubscribe."""
        self._forget(uri, subscriber)
        if uri in self._subscribers:
            return
        server = self._catalog.server(self._server_ids.pop(uri, ""))
        # A stateless server has no request for this: `subscriptions/listen` stays open.
        if server is not None and not speaks_stateless(server):
            await server.call("resources/unsubscribe", {"uri": uri})

    def _forget(self, uri: str, subscriber: Hashable) -> None:
        subscribers = self._subscribers.get(uri, set())
        subscribers.discard(subscriber)
        if not subscribers:
            self._subscribers.pop(uri, None)

    async def remove_all(self, subscriber: Hashable) -> None:
        """Unsubscribe a subscriber that is gone."""
        for uri in [
            uri for uri, subscribers in self._subscribers.items() if subscriber in subscribers
        ]:
            try:
                await self.remove(uri, subscriber)
            except ExthostError as error:
                _log.debug("%s", error)

    def subscribers_of(self, uri: str) -> frozenset[Hashable]:
        """Return the subscribers of a resource."""
        return frozenset(self._subscribers.get(uri, ()))

    async def resubscribe(self, server_id: str) -> None:
        """Subscribe again at a server that was started again."""
        for uri, id in list(self._server_ids.items()):
            server = self._catalog.server(id) if id == server_id else None
            if server is not None:
                try:
                    await server.call("resources/subscribe", {"uri": uri})
                except ExthostError as error:
                    _log.warning("%s: not subscribed to %s again: %s", server_id, uri, error)
