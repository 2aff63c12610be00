"""The clients of the gateway that subscribed to changes of resources.

A resource, such as `file:///notes.txt`, belongs to one of the MCP servers behind the gateway. The
gateway subscribes at that server when a URI gets its first subscriber, and unsubscribes when the
last subscriber is removed. When a server becomes ready, the gateway subscribes there again. A
subscriber is any hashable key: a `Client` of the handshake era of MCP (with sessions), or an object
that represents an open `subscriptions/listen` request of the stateless era (without sessions).
"""

import logging
from collections.abc import Hashable

from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.faces.gateway.catalog import Catalog, is_stateless_server

_log = logging.getLogger("exthost.faces.gateway")


class ResourceSubscriptions:
    """The subscriptions of all clients."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._subscribers: dict[str, set[Hashable]] = {}
        # By URI: the id of the server at which the gateway has subscribed.
        self._server_ids: dict[str, str] = {}

    async def add(self, uri: str, subscriber: Hashable) -> None:
        """Add a subscriber of a resource. Raises CallFailed if the server refuses the subscription;
        the subscriber is not added then."""
        self._subscribers.setdefault(uri, set()).add(subscriber)
        if uri in self._server_ids:
            return
        servers = await self._catalog.find_servers(uri)
        if not servers:  # no server can send updates of this resource now
            return
        self._server_ids[uri] = servers[0].id
        try:
            # For a stateless server, the mcp dialect sends `subscriptions/listen` instead.
            await servers[0].call("resources/subscribe", {"uri": uri})
        except BaseException:
            self._server_ids.pop(uri, None)
            self._remove_subscriber(uri, subscriber)
            raise

    async def remove(self, uri: str, subscriber: Hashable) -> None:
        """Remove a subscriber of a resource."""
        self._remove_subscriber(uri, subscriber)
        if uri in self._subscribers:
            return
        server = self._catalog.find_server(self._server_ids.pop(uri, ""))
        # The stateless era has no request to unsubscribe: the `subscriptions/listen` request stays
        # open, and its updates are ignored.
        if server is not None and not is_stateless_server(server):
            await server.call("resources/unsubscribe", {"uri": uri})

    def _remove_subscriber(self, uri: str, subscriber: Hashable) -> None:
        subscribers = self._subscribers.get(uri, set())
        subscribers.discard(subscriber)
        if not subscribers:
            self._subscribers.pop(uri, None)

    async def remove_all(self, subscriber: Hashable) -> None:
        """Remove a subscriber from all resources, because it has disconnected."""
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
        """Subscribe at a server that has become ready: again, or for the first time if no server
        was ready when a client subscribed."""
        for uri in list(self._subscribers):
            server = await self._find_new_server(uri, server_id)
            if server is not None:
                try:
                    await server.call("resources/subscribe", {"uri": uri})
                except ExthostError as error:
                    self._server_ids.pop(uri, None)  # the next subscriber asks again
                    _log.warning("%s: not subscribed to %s: %s", server_id, uri, error)

    async def _find_new_server(self, uri: str, server_id: str) -> Extension | None:
        """Return the server with this id if the subscriptions to a resource belong to it."""
        if uri not in self._server_ids:
            servers = await self._catalog.find_servers(uri)
            # Another subscriber may have been added during the search.
            if servers and servers[0].id == server_id and uri in self._subscribers:
                self._server_ids.setdefault(uri, server_id)
        if self._server_ids.get(uri) != server_id:
            return None
        return self._catalog.find_server(server_id)
