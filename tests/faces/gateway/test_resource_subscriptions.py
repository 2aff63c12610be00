"""The account of subscriptions, with a catalog that is made up."""

from typing import Any, cast

import pytest

from exthost.errors import CallFailed
from exthost.faces.gateway.catalog import Catalog
from exthost.faces.gateway.resource_subscriptions import ResourceSubscriptions

URI = "file:///a"


class MadeUpServer:
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


class MadeUpCatalog:
    """A catalog of one server. While it is not ready, the catalog does not find it."""

    def __init__(self, server: MadeUpServer, is_ready: bool = True) -> None:
        self._server = server
        self.is_ready = is_ready

    async def find_servers(self, uri: str) -> list[MadeUpServer]:
        return [self._server] if self.is_ready else []

    def find_server(self, id: str) -> MadeUpServer | None:
        return self._server if self.is_ready and id == self._server.id else None


def subscriptions_at(server: MadeUpServer) -> ResourceSubscriptions:
    return ResourceSubscriptions(cast("Catalog", MadeUpCatalog(server)))


async def test_the_first_subscriber_subscribes_at_the_server_and_the_next_do_not() -> None:
    server = MadeUpServer(refusals=0)
    subscriptions = subscriptions_at(server)
    await subscriptions.add(URI, "one")
    await subscriptions.add(URI, "two")
    assert server.requests == ["resources/subscribe"]
    assert subscriptions.subscribers_of(URI) == {"one", "two"}


async def test_a_refused_subscription_does_not_exist_and_the_next_one_asks_again() -> None:
    server = MadeUpServer(refusals=1)
    subscriptions = subscriptions_at(server)
    with pytest.raises(CallFailed):
        await subscriptions.add(URI, "one")
    assert subscriptions.subscribers_of(URI) == frozenset()
    await subscriptions.add(URI, "two")
    assert server.requests == ["resources/subscribe"] * 2
    assert subscriptions.subscribers_of(URI) == {"two"}


async def test_a_server_that_becomes_ready_again_gets_the_subscription_again() -> None:
    server = MadeUpServer(refusals=0)
    subscriptions = subscriptions_at(server)
    await subscriptions.add(URI, "one")
    await subscriptions.resubscribe("another")
    assert server.requests == ["resources/subscribe"]
    await subscriptions.resubscribe("server")
    assert server.requests == ["resources/subscribe"] * 2


async def test_a_subscription_before_any_server_is_ready_is_sent_when_one_is() -> None:
    server = MadeUpServer(refusals=1)
    catalog = MadeUpCatalog(server, is_ready=False)
    subscriptions = ResourceSubscriptions(cast("Catalog", catalog))
    await subscriptions.add(URI, "one")
    assert server.requests == []
    catalog.is_ready = True
    await subscriptions.resubscribe("another")
    assert server.requests == []
    await subscriptions.resubscribe("server")  # which refuses
    await subscriptions.resubscribe("server")
    await subscriptions.add(URI, "two")
    assert server.requests == ["resources/subscribe"] * 2
    assert subscriptions.subscribers_of(URI) == {"one", "two"}


async def test_a_late_subscription_that_was_refused_is_asked_for_by_the_next_subscriber() -> None:
    server = MadeUpServer(refusals=1)
    catalog = MadeUpCatalog(server, is_ready=False)
    subscriptions = ResourceSubscriptions(cast("Catalog", catalog))
    await subscriptions.add(URI, "one")
    catalog.is_ready = True
    await subscriptions.resubscribe("server")  # which refuses
    await subscriptions.add(URI, "two")
    assert server.requests == ["resources/subscribe"] * 2
    assert subscriptions.subscribers_of(URI) == {"one", "two"}
