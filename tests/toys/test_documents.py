"""The host with the toy dialect `documents`, a protocol for tests that is similar to that of a
language server: operations that wait for a notification, and state that a new process needs.

"check" opens a document and waits for the notification with its number of problems, which is how
often the text has the word "wrong". A facet is an object with operations of one dialect; here it
knows the open documents, and opens them again in a new process.
"""

import asyncio

import pytest

from exthost.errors import CallTimeout, ExtensionGone
from exthost.events import Bus, Noticed
from exthost.extension.extension import Extension
from tests.extensions.harness import closed_at_end, error_of, wait_until
from tests.toys import documents
from tests.toys.documents import DIALECT, Documents


def make_extension(bus: Bus | None = None) -> Extension:
    return Extension(documents.spec("d"), DIALECT, bus=bus)


async def test_an_operation_waits_for_the_matching_notification() -> None:
    bus = Bus()
    received: list[object] = []
    bus.subscribe(Noticed, lambda event: received.append(event.params))
    async with closed_at_end(make_extension(bus)) as ext:
        requests = [{"name": f"n{n}", "text": "wrong " * n} for n in range(20)]
        problems = await asyncio.gather(*(ext.call("check", request) for request in requests))
        assert problems == list(range(20)), "each operation got its notification"
        assert len(received) == 40, "subscribers get all notifications"
        assert await ext.call("check_and_count", {"name": "more", "text": "wrong"}) == (1, 21)


async def test_waiting_for_a_notification_has_a_time_limit() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        without_problems = {"name": "a", "text": "silence"}
        assert await ext.call("check", {**without_problems, "seconds": 0.1}) is None
        assert await ext.call("check_and_count", {**without_problems, "seconds": 0.1}) == (None, 1)
        error = await error_of(ext.call("check", without_problems, timeout=0.2))
        assert isinstance(error, CallTimeout)
        assert await ext.call("check", {"name": "a", "text": "wrong"}) == 1


async def test_waiting_for_a_notification_ends_with_the_process_or_the_caller() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        waiting_call = asyncio.ensure_future(ext.call("check", {"name": "a", "text": "silence"}))
        await wait_until(lambda: ext.stats.in_flight == 1)
        waiting_call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting_call
        assert ext.stats.in_flight == 0
        waiting_call = asyncio.ensure_future(ext.call("check", {"name": "b", "text": "silence"}))
        await wait_until(lambda: ext.stats.in_flight == 1)
        await error_of(ext.call("die"))
        with pytest.raises(ExtensionGone):
            await waiting_call


async def test_a_new_process_gets_the_open_documents() -> None:
    async with closed_at_end(make_extension()) as ext:
        facet = ext.facet(Documents)
        assert await facet.open("a", "wrong wrong") == 2
        assert await facet.open("b", "right") == 0
        pid = ext.stats.pid
        await error_of(ext.call("die"))
        assert await ext.call("documents") == ["a", "b"], "before any call is served"
        assert ext.stats.pid != pid
        await ext.restart()
        assert await ext.call("documents") == ["a", "b"]


async def test_a_process_whose_state_cannot_be_restored_is_not_used() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        await ext.facet(Documents).open("refused", "")
        await error_of(ext.call("die"))
        await wait_until(lambda: ext.state == "failed")
        assert ext.cause is not None and "no refuse" in ext.cause.message
