"""What counts as a result, and what as an error: counts, events, and what the breaker sees."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from exthost.dialects.mcp.result import MCP_RESULT
from exthost.dialects.roder.dialect import DIALECT as RODER
from exthost.dialects.roder.types import Completed, Finished, TurnFailed, WorkFailed
from exthost.dialects.value_result import VALUE_RESULT
from exthost.errors import ExthostError
from exthost.events import Bus, CallEnded, CallStarted
from exthost.extension.call_queue import CallQueue
from exthost.extension.queue_breaker import QueueBreaker
from exthost.model.spec import Breaker
from exthost.session.callback_call import CallbackCall
from exthost.session.replies import DELIVER
from exthost.tool_result import ResultReader

FAILED = {"content": [{"type": "text", "text": "no such city"}], "isError": True}
PASSED: Mapping[str, Any] = {"content": [], "isError": False}


def queue_of(reader: ResultReader, bus: Bus | None = None) -> CallQueue:
    queue = CallQueue("x", max_in_flight=9, bus=bus or Bus(), loop=asyncio.get_running_loop())
    queue.outcomes.read_results_with(reader)
    return queue


def complete(queue: CallQueue, *values: Any) -> list[Any]:
    """End a call with each value, all in one read; return what their callers got."""
    delivered: list[Any] = []
    calls = [
        CallbackCall("f", {}, DELIVER, 9.0, queue, lambda value, _: delivered.append(value), {})
        for _ in values
    ]
    queue.complete(list(zip(calls, values, strict=True)))
    return delivered


async def test_a_result_that_is_marked_as_an_error_counts_as_an_error() -> None:
    bus = Bus()
    ended: list[str] = []
    queue = queue_of(MCP_RESULT, bus)
    assert complete(queue, FAILED, PASSED) == [FAILED, PASSED]  # unobserved
    bus.subscribe(CallEnded, lambda event: ended.append(event.outcome))
    assert complete(queue, PASSED, FAILED, FAILED) == [PASSED, FAILED, FAILED]
    assert ended == ["result", "error", "error"]
    assert (queue.outcomes.results, queue.outcomes.unsuccessful["error"]) == (2, 3)
    assert queue.outcomes.error_replies == 3  # its own answers: the process has served


async def test_a_listener_that_raises_keeps_no_call_from_its_caller() -> None:
    bus = Bus()
    observed: list[object] = []

    def fail(_: object) -> None:
        raise asyncio.CancelledError

    for kind in (CallStarted, CallEnded):
        bus.subscribe(kind, fail)
        bus.subscribe(kind, observed.append)
    queue = queue_of(VALUE_RESULT, bus)
    queue.submit(CallbackCall("f", {}, DELIVER, 9.0, queue, lambda value, error: None, {}))
    assert complete(queue, 1, 2) == [1, 2]
    assert [type(event) for event in observed] == [CallStarted, CallEnded, CallEnded]
    queue.deadlines.stop()


async def test_where_no_result_is_an_error_a_member_of_that_name_means_nothing() -> None:
    queue = queue_of(VALUE_RESULT)
    complete(queue, FAILED)
    assert (queue.outcomes.results, queue.outcomes.unsuccessful["error"]) == (1, 0)


@pytest.mark.parametrize(
    ("last", "errors"),
    [
        (TurnFailed("no"), 1),
        (WorkFailed({"message": "no"}), 1),
        (Completed(), 0),
        (Finished({}), 0),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_stream_whose_last_event_reports_a_failure_is_an_error(
    last: Any, errors: int
) -> None:
    queue = queue_of(RODER.result_reader)
    complete(queue, last)
    assert (queue.outcomes.results, queue.outcomes.unsuccessful["error"]) == (1 - errors, errors)


@pytest.mark.parametrize(("last", "text"), [(TurnFailed("no"), "no"), (WorkFailed("no"), "no")])
async def test_the_text_of_such_an_event_is_the_reason(last: Any, text: str) -> None:
    assert RODER.result_reader.text(last) == text


@pytest.mark.parametrize("count_error_replies", [False, True])
async def test_the_breaker_counts_them_as_it_counts_error_replies(
    count_error_replies: bool,
) -> None:
    queue = queue_of(MCP_RESULT)
    opened: list[bool] = []
    settings = Breaker(
        failures=2, open=60, max_open=60, successes=1, count_error_replies=count_error_replies
    )
    breaker = QueueBreaker(settings, queue, lambda: opened.append(True))
    complete(queue, FAILED)
    complete(queue, PASSED)
    complete(queue, FAILED)
    assert not opened
    complete(queue, FAILED)
    assert bool(opened) == count_error_replies
    assert ("f failed: no such city" in breaker.open_error("f").message) == count_error_replies


@pytest.mark.parametrize("count_error_replies", [False, True])
async def test_a_probe_that_is_answered_with_such_a_result_closes_the_breaker_or_opens_it(
    count_error_replies: bool,
) -> None:
    queue = queue_of(MCP_RESULT)
    settings = Breaker(
        failures=1, open=60, max_open=60, successes=1, count_error_replies=count_error_replies
    )
    breaker = QueueBreaker(settings, queue, lambda: None)
    breaker.count_crash(ExthostError("X0801", "gone"))
    breaker.probe()
    complete(queue, FAILED)
    assert breaker.phase.value == ("open" if count_error_replies else "closed")
