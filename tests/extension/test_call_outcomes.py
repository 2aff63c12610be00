"""Each reply is counted as a result or as an error: in the counts, the events and the breaker.

In some dialects a reply can be a result that is marked as an error (`isError` in MCP), or the last
event of a stream can report a failure. The `ResultReader` of the dialect recognises it, and the
call queue counts it as an error. The breaker refuses calls after a number of failures.
"""

import asyncio
from collections.abc import Callable, Mapping
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
from exthost.session.call import Call
from exthost.session.callback_call import CallbackCall
from exthost.session.replies import DELIVER
from exthost.tool_result import ResultReader

ERROR_RESULT = {"content": [{"type": "text", "text": "no such city"}], "isError": True}
SUCCESS_RESULT: Mapping[str, Any] = {"content": [], "isError": False}


def queue_of(reader: ResultReader, bus: Bus | None = None) -> CallQueue:
    queue = CallQueue("x", max_in_flight=9, bus=bus or Bus(), loop=asyncio.get_running_loop())
    queue.outcomes.read_results_with(reader)
    return queue


def make_call(queue: CallQueue, on_end: Callable[[Any, Any], None]) -> CallbackCall:
    """Return a call of the method `f` that passes its value or its error to `on_end`."""
    return CallbackCall("f", {}, DELIVER, timeout=9.0, queue=queue, on_end=on_end, context={})


def complete(queue: CallQueue, *values: Any) -> list[Any]:
    """End one call with each value, all in one read, and return the values delivered to callers."""
    delivered: list[Any] = []
    calls = [make_call(queue, lambda value, _: delivered.append(value)) for _ in values]
    queue.complete(list(zip(calls, values, strict=True)))
    return delivered


async def test_a_result_that_is_marked_as_an_error_counts_as_an_error() -> None:
    bus = Bus()
    outcomes: list[str] = []
    queue = queue_of(MCP_RESULT, bus)
    results = [ERROR_RESULT, SUCCESS_RESULT]  # nobody subscribes to the events yet
    assert complete(queue, *results) == results
    bus.subscribe(CallEnded, lambda event: outcomes.append(event.outcome))
    results = [SUCCESS_RESULT, ERROR_RESULT, ERROR_RESULT]
    assert complete(queue, *results) == results
    assert outcomes == ["result", "error", "error"]
    assert (queue.outcomes.results, queue.outcomes.unsuccessful["error"]) == (2, 3)
    assert queue.outcomes.error_replies == 3  # an error reply also shows that the process works


async def test_calls_are_delivered_although_an_event_listener_raises() -> None:
    bus = Bus()
    events: list[object] = []

    def raise_cancelled(_: object) -> None:
        raise asyncio.CancelledError

    for kind in (CallStarted, CallEnded):
        bus.subscribe(kind, raise_cancelled)
        bus.subscribe(kind, events.append)
    queue = queue_of(VALUE_RESULT, bus)
    queue.submit(make_call(queue, lambda value, error: None))
    assert complete(queue, 1, 2) == [1, 2]
    assert [type(event) for event in events] == [CallStarted, CallEnded, CallEnded]
    queue.deadlines.stop()


async def test_is_error_is_ignored_in_dialects_without_error_results() -> None:
    queue = queue_of(VALUE_RESULT)
    complete(queue, ERROR_RESULT)
    assert (queue.outcomes.results, queue.outcomes.unsuccessful["error"]) == (1, 0)


@pytest.mark.parametrize(
    ("last_event", "errors"),
    [
        (TurnFailed("no"), 1),
        (WorkFailed({"message": "no"}), 1),
        (Completed(), 0),
        (Finished({}), 0),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_stream_whose_last_event_reports_a_failure_is_an_error(
    last_event: Any, errors: int
) -> None:
    queue = queue_of(RODER.result_reader)
    complete(queue, last_event)
    assert (queue.outcomes.results, queue.outcomes.unsuccessful["error"]) == (1 - errors, errors)


@pytest.mark.parametrize(
    ("last_event", "text"), [(TurnFailed("no"), "no"), (WorkFailed("no"), "no")]
)
async def test_the_text_of_a_failure_event_is_its_message(last_event: Any, text: str) -> None:
    assert RODER.result_reader.text(last_event) == text


# By default an error reply shows that the process works, and is not a failure for the breaker.
@pytest.mark.parametrize("count_error_replies", [False, True])
async def test_the_breaker_counts_error_results_like_error_replies(
    count_error_replies: bool,
) -> None:
    queue = queue_of(MCP_RESULT)
    opened: list[bool] = []
    settings = Breaker(
        failures=2, open=60, max_open=60, successes=1, count_error_replies=count_error_replies
    )
    breaker = QueueBreaker(settings, queue, lambda: opened.append(True))
    complete(queue, ERROR_RESULT)
    complete(queue, SUCCESS_RESULT)  # ends the row of failures, so that the next one is the first
    complete(queue, ERROR_RESULT)
    assert not opened
    complete(queue, ERROR_RESULT)
    assert bool(opened) == count_error_replies
    assert ("f failed: no such city" in breaker.open_error("f").message) == count_error_replies


@pytest.mark.parametrize("count_error_replies", [False, True])
async def test_an_error_result_of_a_probe_closes_or_opens_the_breaker(
    count_error_replies: bool,
) -> None:
    queue = queue_of(MCP_RESULT)
    settings = Breaker(
        failures=1, open=60, max_open=60, successes=1, count_error_replies=count_error_replies
    )
    breaker = QueueBreaker(settings, queue, lambda: None)
    breaker.count_crash(ExthostError("X0801", "gone"))  # one failure opens this breaker
    breaker.probe()  # the next call is the probe, whose outcome decides
    complete(queue, ERROR_RESULT)
    assert breaker.phase.value == ("open" if count_error_replies else "closed")


@pytest.mark.parametrize("count_error_replies", [False, True])
@pytest.mark.parametrize("result", [SUCCESS_RESULT, ERROR_RESULT])
async def test_the_results_of_a_replaced_process_do_not_end_a_probe(
    result: Any, count_error_replies: bool
) -> None:
    queue = queue_of(MCP_RESULT)
    settings = Breaker(
        failures=1, open=60, max_open=60, successes=1, count_error_replies=count_error_replies
    )
    breaker = QueueBreaker(settings, queue, lambda: None)
    breaker.count_crash(ExthostError("X0801", "gone"))
    breaker.probe()
    session: Any = object()
    queue.replaced_sessions = frozenset([session])
    call = make_call(queue, lambda value, error: None)
    call.session = session
    queue.complete([(call, result)])
    assert breaker.phase.value == "half-open"
    assert queue.outcomes.results + queue.outcomes.error_replies == 1


class SessionThatEndsCalls:
    """Takes the place of a session: each call ends while it is sent."""

    cause = None
    pending = ()

    def __init__(self, queue: CallQueue, *, is_result: bool) -> None:
        self._queue = queue
        self._is_result = is_result

    def send_call(self, call: Call) -> None:
        if self._is_result:
            self._queue.complete([(call, 1)])
        else:
            self._queue.fail(call, ExthostError("X0801", "it failed"))


@pytest.mark.parametrize("is_threadsafe", [False, True])
@pytest.mark.parametrize("is_result", [False, True])
async def test_the_start_of_a_call_that_ends_at_once_is_published_before_its_end(
    is_result: bool, is_threadsafe: bool
) -> None:
    bus = Bus()
    events: list[type] = []
    for kind in (CallStarted, CallEnded):
        bus.subscribe(kind, lambda event: events.append(type(event)))
    queue = queue_of(VALUE_RESULT, bus)
    session: Any = SessionThatEndsCalls(queue, is_result=is_result)
    queue.attach(session)
    submit = queue.submit_threadsafe if is_threadsafe else queue.submit
    submit(make_call(queue, lambda value, error: None))
    await asyncio.sleep(0)
    assert events == [CallStarted, CallEnded]
    queue.deadlines.stop()
