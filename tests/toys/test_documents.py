"""A dialect with state: operations that wait for a notification, and a new process that is told
what the one before it knew."""

import asyncio

import pytest

from exthost.errors import CallTimeout, ExtensionGone
from exthost.events import Bus, Noticed
from exthost.extension.extension import Extension
from tests.extensions.harness import closing, failing, until
from tests.toys import documents
from tests.toys.documents import DIALECT, Documents


def toy(bus: Bus | None = None) -> Extension:
    return Extension(documents.spec("d"), DIALECT, bus=bus)


async def test_a_generator_waits_for_the_notification_that_is_meant() -> None:
    bus = Bus()
    received: list[object] = []
    bus.subscribe(Noticed, lambda event: received.append(event.params))
    async with closing(toy(bus)) as ext:
        asked = [{"name": f"n{n}", "text": "wrong " * n} for n in range(20)]
        found = await asyncio.gather(*(ext.call("check", request) for request in asked))
        assert found == list(range(20)), "each was resumed with its own"
        assert len(received) == 40, "they are told to subscribers, too"
        assert await ext.call("check_and_count", {"name": "more", "text": "wrong"}) == (1, 21)


async def test_the_wait_for_a_notification_that_does_not_come_ends_at_the_given_time() -> None:
    async with closing(toy()) as ext:
        await ext.start()
        silent = {"name": "a", "text": "silence"}
        assert await ext.call("check", {**silent, "seconds": 0.1}) is None
        assert await ext.call("check_and_count", {**silent, "seconds": 0.1}) == (None, 1)
        error = await failing(ext.call("check", silent, timeout=0.2))
        assert isinstance(error, CallTimeout)
        assert await ext.call("check", {"name": "a", "text": "wrong"}) == 1


async def test_an_awaited_reply_is_lost_with_the_process_or_abandoned_by_the_caller() -> None:
    async with closing(toy()) as ext:
        await ext.start()
        waiting = asyncio.ensure_future(ext.call("check", {"name": "a", "text": "silence"}))
        await until(lambda: ext.stats.in_flight == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert ext.stats.in_flight == 0
        waiting = asyncio.ensure_future(ext.call("check", {"name": "b", "text": "silence"}))
        await until(lambda: ext.stats.in_flight == 1)
        await failing(ext.call("die"))
        with pytest.raises(ExtensionGone):
            await waiting


async def test_a_new_process_receives_the_settings_of_the_one_before_it() -> None:
    async with closing(toy()) as ext:
        facet = ext.facet(Documents)
        assert await facet.open("a", "wrong wrong") == 2
        assert await facet.open("b", "right") == 0
        pid = ext.stats.pid
        await failing(ext.call("die"))
        assert await ext.call("documents") == ["a", "b"], "before any call is served"
        assert ext.stats.pid != pid
        await ext.restart()
        assert await ext.call("documents") == ["a", "b"]


async def test_a_process_that_cannot_be_notified_is_not_used() -> None:
    async with closing(toy()) as ext:
        await ext.start()
        await ext.facet(Documents).open("refused", "")
        await failing(ext.call("die"))
        await until(lambda: ext.state == "failed")
        assert ext.cause is not None and "no refuse" in ext.cause.message
