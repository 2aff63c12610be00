"""Tests of `ResourceSubscriptions`, by which clients learn that a resource has changed.

The gateway subscribes at the MCP server of a resource once, for all its clients, and again if the
server was restarted. The servers, and the catalog in which the gateway looks them up, are fakes.
"""

from typing import Any, cast

import pytest

from exthost.errors import CallFailed
from exthost.faces.gateway.catalog import Catalog
from exthost.faces.gateway.resource_subscriptions import ResourceSubscriptions

URI = "file:///a"


class FakeServer:
    """A server that refuses its first requests, and records all of them."""

    id = "server"

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.requests: list[str] = []

    async def call(self, method: str, params: dict[str, Any]) -> None:
        self.requests.append(method)
        if self.refusals:
            self.refusals -= 1
            raise CallFailed("X0701", "not now")


class FakeCatalog:
    """A catalog of one server, which it does not find while `is_ready` is false."""

    def __init__(self, server: FakeServer, is_ready: bool = True) -> None:
        self._server = server
        self.is_ready = is_ready

    async def find_servers(self, uri: str) -> list[FakeServer]:
        return [self._server] if self.is_ready else []

    def find_server(self, id: str) -> FakeServer | None:
        return self._server if self.is_ready and id == self._server.id else None


def subscriptions_at(server: FakeServer) -> ResourceSubscriptions:
    """Return the subscriptions of a gateway with this server."""
    return ResourceSubscriptions(cast("Catalog", FakeCatalog(server)))


async def test_only_the_first_subscriber_is_sent_to_the_server() -> None:
    server = FakeServer(refusals=0)
    subscriptions = subscriptions_at(server)
    await subscriptions.add(URI, "one")
    await subscriptions.add(URI, "two")
    assert server.requests == ["resources/subscribe"]
    assert subscriptions.subscribers_of(URI) == {"one", "two"}


async def test_a_refused_subscription_is_requested_again_by_the_next_subscriber() -> None:
    server = FakeServer(refusals=1)
    subscriptions = subscriptions_at(server)
    with pytest.raises(CallFailed):
        await subscriptions.add(URI, "one")
    assert subscriptions.subscribers_of(URI) == frozenset()
    await subscriptions.add(URI, "two")
    assert server.requests == ["resources/subscribe"] * 2
    assert subscriptions.subscribers_of(URI) == {"two"}


async def test_a_server_that_becomes_ready_again_gets_the_subscription_again() -> None:
    server = FakeServer(refusals=0)
    subscriptions = subscriptions_at(server)
    await subscriptions.add(URI, "one")
    await subscriptions.resubscribe("another")
    assert server.requests == ["resources/subscribe"]
    await subscriptions.resubscribe("server")
    assert server.requests == ["resources/subscribe"] * 2


async def test_a_subscription_before_a_server_is_ready_is_sent_later() -> None:
    server = FakeServer(refusals=1)
    catalog = FakeCatalog(server, is_ready=False)
    subscriptions = ResourceSubscriptions(cast("Catalog", catalog))
    await subscriptions.add(URI, "one")
    assert server.requests == []
    catalog.is_ready = True
    await subscriptions.resubscribe("another")
    assert server.requests == []
    await subscriptions.resubscribe("server")  # the server refuses the first request
    await subscriptions.resubscribe("server")
    await subscriptions.add(URI, "two")
    assert server.requests == ["resources/subscribe"] * 2
    assert subscriptions.subscribers_of(URI) == {"one", "two"}


async def test_a_late_subscription_that_was_refused_is_requested_again() -> None:
    server = FakeServer(refusals=1)
    catalog = FakeCatalog(server, is_ready=False)
    subscriptions = ResourceSubscriptions(cast("Catalog", catalog))
    await subscriptions.add(URI, "one")
    catalog.is_ready = True
    await subscriptions.resubscribe("server")  # the server refuses the first request
    await subscriptions.add(URI, "two")
    assert server.requests == ["resources/subscribe"] * 2
    assert subscriptions.subscribers_of(URI) == {"one", "two"}
