"""The host with the toy dialect `askback`, a protocol for tests: Content-Length headers, one call
at a time, requests of the child to the host, and streams of notifications.

The child, `askback_child.py`, does what a method and its params say: `relay` makes a request to the
host, `hold` answers only with the next request, `heard` returns the notifications that it got.
There are two kinds of streams: `run` ends with the reply to its call, and `watch` with a last
event.
"""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exthost.dialects.base import Dialect
from exthost.errors import CallFailed, CallTimeout, ExtensionGone, ProtocolViolation, UsageError
from exthost.events import Bus, Exited, LogLine
from exthost.extension.extension import Extension
from exthost.model.spec import Limits, Spec
from exthost.session import effect_performer
from exthost.session.inbound import Handler
from exthost.session.session import Session
from exthost.session.stream_queue import (
    MAX_STREAM_BYTES,
    MAX_STREAM_EVENTS,
    STREAM_EVENTS,
)
from exthost.wire.framing import LARGE_READ_BYTES, READ_BYTES
from exthost.wire.lines import Lines
from tests.extensions.clock import Clock
from tests.extensions.harness import check_call_counts, closed_at_end, error_of, wait_until
from tests.toys.askback import DIALECT

CHILD = Path(__file__).parent / "askback_child.py"
# Why the host has dropped messages, as its statistics name it.
NO_STREAM = "events of no open stream"


async def config_get(params: Any) -> Any:
    return f"the {params['key']}"


def make_extension(
    bus: Bus | None = None,
    handlers: Mapping[str, Handler] | None = None,
    *,
    dialect: Dialect = DIALECT,
    flags: tuple[str, ...] = (),
    **limits: Any,
) -> Extension:
    argv = (sys.executable, "-S", "-E", str(CHILD), *flags)
    spec = Spec(id="toy", argv=argv, dialect="askback", limits=Limits(**limits))
    handlers = {"config.get": config_get} | dict(handlers or {})
    return Extension(spec, dialect, bus=bus, handlers=handlers)


async def read_stream(ext: Extension, method: str, params: Any) -> tuple[list[Any], Any]:
    async with ext.stream(method, params) as stream:
        return [event async for event in stream], stream.result


async def received_params(ext: Extension, method: str) -> list[Any]:
    """Return the params of each message with this method that the child received."""
    return [item["params"] for item in await ext.call("heard") if item["method"] == method]


# -- requests of the child -------------------------------------------------------------------------


@pytest.mark.both_loops
async def test_requests_of_the_child_during_the_handshake_are_answered() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        assert ext.offer.name == "the name"
        # The child knew the methods of the host, and an unknown method was refused.
        assert ext.offer.extra["learnt"] == {"serves": ["config.get"], "refused": -32601}
        assert await received_params(ext, "initialized") == [None]


@pytest.mark.both_loops
async def test_a_request_of_the_child_during_a_call_is_answered_next() -> None:
    async with closed_at_end(make_extension()) as ext:
        # No other call may be sent between a request of the child and its answer.
        calls = [
            ext.call("relay", {"method": "config.get", "params": {"key": n}}) for n in range(50)
        ]
        answers = await asyncio.gather(*calls)
        assert [answer["result"] for answer in answers] == [f"the {n}" for n in range(50)]
        check_call_counts(ext, 50, result=50)


async def test_an_unknown_request_of_the_child_is_refused_with_32601() -> None:
    async with closed_at_end(make_extension()) as ext:
        answer = await ext.call("relay", {"method": "no.such", "params": {}})
        assert answer["error"]["code"] == -32601 and "no.such" in answer["error"]["message"]
        assert await ext.call("echo", 1) == 1


async def test_a_handler_that_refuses_or_fails_is_reported_to_the_child() -> None:
    async def refuse(params: Any) -> Any:
        raise CallFailed("X0701", "no", error_code=-32602, error_message="bad key", data=[1])

    async def raise_value_error(params: Any) -> Any:
        raise ValueError("tripped")

    async def return_object(params: Any) -> Any:
        return object()

    handlers = {"refuse": refuse, "trip": raise_value_error, "unsayable": return_object}
    async with closed_at_end(make_extension(handlers=handlers)) as ext:
        answers = [await ext.call("relay", {"method": name, "params": None}) for name in handlers]
        errors = [answer["error"] for answer in answers]
        assert [error["code"] for error in errors] == [-32602, -32603, -32603]
        assert errors[0]["message"] == "bad key" and errors[0]["data"] == [1]
        assert "tripped" in errors[1]["message"]
        assert await ext.call("echo", 1) == 1


async def test_the_reader_does_not_wait_for_a_handler() -> None:
    bus = Bus()
    has_log_line = asyncio.Event()
    bus.subscribe(LogLine, lambda line: has_log_line.set() if line.text == "wait for it" else None)

    async def answer_after_log_line(params: Any) -> Any:
        await has_log_line.wait()
        return "at last"

    async with closed_at_end(make_extension(bus, {"slow": answer_after_log_line})) as ext:
        answer = await ext.call("chat")
        assert answer["result"] == "at last"


async def test_a_handler_that_calls_its_own_busy_extension_fails_at_its_time_limit() -> None:
    """The second call waits for the first one, which waits for the handler."""
    extensions: list[Extension] = []

    async def call_again(params: Any) -> Any:
        error = await error_of(extensions[0].call("echo", 1, timeout=0.2))
        return error.kind

    async with closed_at_end(make_extension(handlers={"again": call_again})) as ext:
        extensions.append(ext)
        answer = await ext.call("relay", {"method": "again", "params": None})
        assert answer["result"] == "CallTimeout"
        assert await ext.call("echo", 2) == 2
        assert await ext.call("asked") == ["relay", "echo"]


async def test_running_handlers_are_cancelled_when_the_child_dies() -> None:
    has_started, has_ended = asyncio.Event(), asyncio.Event()

    async def wait_for_ever(params: Any) -> Any:
        has_started.set()
        try:
            await asyncio.Event().wait()
        finally:
            has_ended.set()

    async with closed_at_end(make_extension(handlers={"endless": wait_for_ever})) as ext:
        call = asyncio.ensure_future(
            error_of(ext.call("relay", {"method": "endless", "params": None}))
        )
        await has_started.wait()
        ext.kill()
        assert isinstance(await call, ExtensionGone)
        await has_ended.wait()


# -- one call at a time ----------------------------------------------------------------------


async def test_only_one_call_is_in_flight_and_the_others_wait() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        calls = [asyncio.ensure_future(ext.call("echo", n)) for n in range(10)]
        await asyncio.sleep(0)
        assert (ext.stats.in_flight, ext.stats.waiting) == (1, 9)
        assert await asyncio.gather(*calls) == list(range(10))


@pytest.mark.both_loops
async def test_a_call_that_times_out_is_cancelled_and_the_next_one_is_served() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        pid = ext.stats.pid
        held_call = asyncio.ensure_future(error_of(ext.call("hold", timeout=0.2)))
        next_call = asyncio.ensure_future(ext.call("echo", "mine", timeout=60))
        assert isinstance(await held_call, CallTimeout)
        assert await next_call == "mine"
        assert ext.stats.pid == pid, "a late answer is recognised by its id"
        assert ext.stats.dropped == {"late or repeated replies": 1}
        assert await received_params(ext, "cancelled") == [{"id": 2}]
        check_call_counts(ext, 3, result=2, timeout=1)


async def test_a_failure_without_an_id_answers_no_request() -> None:
    async with closed_at_end(make_extension()) as ext:
        assert await ext.call("null_error") == "right"
        assert ext.stats.dropped == {"errors that name no request": 1}


# -- streams that the reply ends -------------------------------------------------------------


@pytest.mark.both_loops
async def test_the_reply_ends_the_events_of_a_call() -> None:
    async with closed_at_end(make_extension()) as ext:
        for count in (0, 1, 1000):
            events, result = await read_stream(ext, "run", {"events": count})
            assert events == list(range(count))
            assert result == {"sent": count}
        check_call_counts(ext, 3, result=3)


async def test_an_event_that_cannot_be_read_is_dropped_and_counted() -> None:
    async with closed_at_end(make_extension()) as ext:
        events, result = await read_stream(ext, "run", {"events": 3, "bad": True})
        assert (events, result) == ([0, 1, 2], {"sent": 3})
        assert ext.stats.dropped == {"events that could not be read": 1}


async def test_the_child_can_send_a_request_during_a_stream() -> None:
    async with closed_at_end(make_extension()) as ext:
        events, result = await read_stream(ext, "run", {"events": 5, "ask": "no.such"})
        assert events == list(range(5))
        assert result["error"]["code"] == -32601


async def test_a_stream_that_fails_raises_once_after_its_last_event() -> None:
    async with closed_at_end(make_extension()) as ext:
        events = []
        async with ext.stream("run", {"events": 3, "fail": "out of paper"}) as stream:
            with pytest.raises(CallFailed) as caught:
                async for event in stream:
                    events.append(event)  # noqa: PERF401 - the list is used after the exception
            assert [event async for event in stream] == []
        assert events == [0, 1, 2]
        assert caught.value.error_message == "out of paper" and caught.value.data == [1]
        check_call_counts(ext, 1, error=1)


@pytest.mark.both_loops
async def test_a_stream_whose_child_dies_raises_once_after_its_last_event() -> None:
    async with closed_at_end(make_extension()) as ext:
        events = []
        async with ext.stream("run", {"events": 300, "die": 6}) as stream:
            with pytest.raises(ExtensionGone) as caught:
                async for event in stream:
                    events.append(event)  # noqa: PERF401
        assert events == list(range(300))
        assert caught.value.evidence.exit == "exited with 6"


async def test_a_stream_with_invalid_params_is_not_opened() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        with pytest.raises(UsageError):
            async with ext.stream("run", object()):
                pass
        events, _ = await read_stream(ext, "run", {"events": 2})
        assert events == [0, 1]


async def test_the_error_for_a_method_that_is_not_a_stream_lists_the_streams() -> None:
    async with closed_at_end(make_extension()) as ext:
        with pytest.raises(UsageError) as caught:
            ext.stream("echo", {})
        assert "run, watch" in caught.value.help


async def test_leaving_a_stream_early_sends_a_cancellation() -> None:
    async with closed_at_end(make_extension()) as ext:
        async with ext.stream("run", {"events": 2000}) as stream:
            async for event in stream:
                assert event == 0
                break
        # The child still sends events of the first stream, which must not be in the second.
        events, result = await read_stream(ext, "run", {"events": 3})
        assert (events, result) == ([0, 1, 2], {"sent": 3})
        assert await received_params(ext, "run.cancel") == [{"why": "the consumer left"}]


async def test_a_stream_that_takes_too_long_is_cancelled_and_raises_after_its_events(
    clock: Clock,
) -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        clock.stop()
        events = []
        with pytest.raises(CallTimeout):
            async with ext.stream("run", {"events": 3, "hold": True}, timeout=0.3) as stream:
                async for event in stream:
                    events.append(event)
                    if event == 2:  # the last event
                        clock.move(0.3)
        assert events == [0, 1, 2]
        assert await ext.call("echo", "mine") == "mine"
        assert len(await received_params(ext, "run.cancel")) == 1
        assert ext.stats.dropped == {"late or repeated replies": 1}


async def test_a_stream_that_is_left_while_it_waits_is_never_sent() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        held_call = asyncio.ensure_future(ext.call("hold"))
        await asyncio.sleep(0)
        async with ext.stream("run", {"events": 3}):
            assert ext.stats.waiting == 1
        assert ext.stats.waiting == 0
        held_call.cancel()
        assert await ext.call("asked") == ["hold"]
        assert await received_params(ext, "run.cancel") == []


async def test_a_stream_that_is_read_to_its_end_is_not_cancelled() -> None:
    async with closed_at_end(make_extension()) as ext:
        await read_stream(ext, "run", {"events": 3})
        await read_stream(ext, "watch", {"stream": "a", "after": ["done"]})
        assert await received_params(ext, "run.cancel") == []
        assert await received_params(ext, "watch.cancel") == []


# -- streams that a terminal event ends ------------------------------------------------------


@pytest.mark.both_loops
async def test_a_terminal_event_ends_its_stream_and_is_its_result() -> None:
    async with closed_at_end(make_extension()) as ext:
        events, result = await read_stream(ext, "watch", {"stream": "a", "after": [1, 2, "done"]})
        assert (events, result) == ([1, 2, "done"], "done")
        assert ext.stats.dropped == {}


async def test_the_terminal_event_comes_exactly_once_and_later_events_are_dropped() -> None:
    async with closed_at_end(make_extension()) as ext:
        after = [1, "done", 2, "done", "failed"]
        events, result = await read_stream(ext, "watch", {"stream": "a", "after": after})
        assert (events, result) == ([1, "done"], "done")
        await ext.call("echo")
        assert ext.stats.dropped == {NO_STREAM: 3}


async def test_events_before_the_acknowledgement_are_kept() -> None:
    async with closed_at_end(make_extension()) as ext:
        params = {"stream": "a", "before": [1, 2], "after": [3, "done"]}
        events, _ = await read_stream(ext, "watch", params)
        assert events == [1, 2, 3, "done"]
        # This includes a stream whose last event comes before the acknowledgement.
        events, _ = await read_stream(ext, "watch", {"stream": "b", "before": [1, "done"]})
        assert events == [1, "done"]


async def test_streams_are_distinguished_by_their_names() -> None:
    async with closed_at_end(make_extension()) as ext:
        async with (
            ext.stream("watch", {"stream": "a"}) as a,
            ext.stream("watch", {"stream": "b"}) as b,
        ):
            for name, events in (("b", [10, 11]), ("nobody", [5]), ("a", [1, "done"])):
                await ext.call("emit", {"stream": name, "events": events})
            await ext.call("emit", {"stream": "b", "events": ["done"]})
            assert [event async for event in b] == [10, 11, "done"]
            assert [event async for event in a] == [1, "done"]
        assert ext.stats.dropped == {NO_STREAM: 1}


async def test_an_acknowledgement_of_another_stream_fails_the_opening() -> None:
    async with closed_at_end(make_extension()) as ext:
        with pytest.raises(ProtocolViolation) as caught:
            async with ext.stream("watch", {"stream": "a", "acknowledge": "b", "before": [1]}):
                pass
        assert caught.value.code == "X0605"
        assert await ext.call("echo", 1) == 1, "the session continues"
        check_call_counts(ext, 2, result=1, error=1)


async def test_leaving_a_named_stream_early_sends_one_cancellation() -> None:
    async with closed_at_end(make_extension()) as ext:
        async with ext.stream("watch", {"stream": "a", "after": [1, 2]}) as stream:
            async for event in stream:
                if event == 2:  # the last event that was sent
                    break
        assert await received_params(ext, "watch.cancel") == [
            {"stream": "a", "why": "the consumer left"}
        ]
        await ext.call("emit", {"stream": "a", "events": [3]})
        assert ext.stats.dropped == {NO_STREAM: 1}


async def test_leaving_a_stream_by_an_exception_sends_a_cancellation() -> None:
    async with closed_at_end(make_extension()) as ext:
        with pytest.raises(KeyError):
            async with ext.stream("watch", {"stream": "a"}):
                raise KeyError("a")

        is_open = asyncio.Event()

        async def watch_for_ever() -> None:
            async with ext.stream("watch", {"stream": "b"}) as stream:
                is_open.set()
                async for _ in stream:
                    pass

        watcher = asyncio.ensure_future(watch_for_ever())
        await is_open.wait()
        watcher.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watcher
        cancels = await received_params(ext, "watch.cancel")
        assert [cancel["stream"] for cancel in cancels] == ["a", "b"]


async def test_an_open_stream_does_not_count_towards_the_maximum_of_calls() -> None:
    async with (
        closed_at_end(make_extension()) as ext,
        ext.stream("watch", {"stream": "a"}) as stream,
    ):
        assert ext.internals.queue.max_in_flight == 1
        assert (ext.stats.in_flight, ext.stats.calls) == (1, 0)
        assert await ext.call("echo", 1, timeout=60) == 1
        assert (ext.stats.in_flight, ext.stats.result) == (1, 1)  # the stream is still open
        await ext.call("emit", {"stream": "a", "events": ["done"]})
        assert [event async for event in stream] == ["done"]
        assert (ext.stats.in_flight, ext.stats.calls, ext.stats.result) == (0, 3, 3)


async def test_each_open_stream_raises_once_when_the_child_dies() -> None:
    async with (
        closed_at_end(make_extension()) as ext,
        ext.stream("watch", {"stream": "a", "after": [1]}) as a,
        ext.stream("watch", {"stream": "b"}) as b,
    ):
        await ext.call("echo")
        ext.kill()
        for stream, expected in ((a, [1]), (b, [])):
            events = []
            with pytest.raises(ExtensionGone):
                async for event in stream:
                    events.append(event)  # noqa: PERF401
            assert events == expected
            assert [event async for event in stream] == []


async def test_closing_the_extension_ends_its_streams() -> None:
    ext = make_extension()
    async with ext.stream("watch", {"stream": "a", "after": [1]}) as stream:
        assert await anext(stream) == 1
        await ext.close()
        with pytest.raises(ExtensionGone):
            await anext(stream)


async def test_an_acknowledgement_over_the_size_limit_fails_the_opening() -> None:
    """The dialect with lines instead of headers, where a message that is too long is dropped."""
    in_lines = replace(DIALECT, framing=Lines)
    async with closed_at_end(
        make_extension(dialect=in_lines, flags=("lines",), max_message=10_000)
    ) as ext:
        after = list(range(2 * STREAM_EVENTS))
        with pytest.raises(ProtocolViolation) as caught:
            async with ext.stream("watch", {"stream": "a", "padding": 10_000, "after": after}):
                pass
        assert caught.value.code == "X0603"
        # If the stream were still open, it would receive these events and block the child.
        assert await ext.call("echo", 1) == 1
        assert ext.stats.dropped[NO_STREAM] == len(after)
        events, _ = await read_stream(ext, "watch", {"stream": "a", "after": [1, "done"]})
        assert events == [1, "done"]


# -- slow consumers --------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.both_loops
@pytest.mark.parametrize(
    ("event_bytes", "total", "max_events"),
    [(1000, 5000, STREAM_EVENTS), (200_000, 300, MAX_STREAM_BYTES // 200_000)],
    ids=["by number", "by size"],
)
async def test_a_child_whose_stream_is_not_read_blocks(
    event_bytes: int, total: int, max_events: int, tmp_path: Path
) -> None:
    position_file = tmp_path / "stuck_at"

    def blocked_at() -> int:
        return int(position_file.read_text() or 0) if position_file.exists() else 0

    params = {"events": total, "pad": event_bytes, "noted": str(position_file)}
    async with closed_at_end(make_extension()) as ext, ext.stream("run", params) as stream:
        await wait_until(lambda: blocked_at() >= max_events - 1)
        # More events are in one read, in the pipe (both are larger for large frames), and in the
        # current write.
        buffered_bytes = 2 * (LARGE_READ_BYTES if event_bytes > READ_BYTES else READ_BYTES)
        assert blocked_at() <= max_events + buffered_bytes // event_bytes + 2
        assert [event async for event in stream] == list(range(total))
        assert stream.result == {"sent": total}


async def test_a_consumer_can_call_the_same_extension() -> None:
    """The answer of the call comes after more events than the queue can have."""
    count = 3 * STREAM_EVENTS
    async with (
        closed_at_end(make_extension()) as ext,
        ext.stream("watch", {"stream": "a"}) as stream,
    ):
        await ext.call("emit", {"stream": "a", "events": count})
        await ext.call("emit", {"stream": "a", "events": ["done"]})
        events = []
        async for event in stream:
            events.append(event)
            if event in (0, STREAM_EVENTS, "done"):
                assert await ext.call("echo", event, timeout=60) == event
        assert events == [*range(count), "done"]


async def test_a_consumer_can_make_a_call_that_waits_for_the_end_of_its_stream() -> None:
    """Only one call is in flight, so the new call is sent after the end of the stream."""
    count = 3 * STREAM_EVENTS
    async with (
        closed_at_end(make_extension()) as ext,
        ext.stream("run", {"events": count}) as stream,
    ):
        events = []
        async for event in stream:
            events.append(event)
            if event == 0:
                assert await ext.call("echo", "inside", timeout=60) == "inside"
        assert events == list(range(count))


async def test_a_consumer_can_make_a_call_after_the_child_was_blocked(
    tmp_path: Path,
) -> None:
    position_file, count = tmp_path / "stuck_at", 1500
    params = {"events": count, "pad": 1000, "noted": str(position_file)}
    async with closed_at_end(make_extension()) as ext, ext.stream("run", params) as stream:
        await wait_until(position_file.exists)
        assert await ext.call("echo", "inside", timeout=60) == "inside"
        assert [event async for event in stream] == list(range(count))


@pytest.mark.both_loops
async def test_only_a_stream_that_is_never_read_is_overrun() -> None:
    async with (
        closed_at_end(make_extension()) as ext,
        ext.stream("watch", {"stream": "slow"}) as slow_stream,
        ext.stream("watch", {"stream": "quick"}) as quick_stream,
    ):
        # The answer of this call comes after all these events.
        assert await ext.call("emit", {"stream": "slow", "events": 6000}) == "emitted"
        await ext.call("emit", {"stream": "quick", "events": [1, "done"]})
        assert [event async for event in quick_stream] == [1, "done"]
        events = []
        with pytest.raises(UsageError) as caught:
            async for event in slow_stream:
                events.append(event)  # noqa: PERF401
        assert caught.value.code == "X1306"
        assert events == list(range(MAX_STREAM_EVENTS))
        assert await ext.call("echo", 1) == 1
        # Only the slow stream was cancelled.
        cancels = await received_params(ext, "watch.cancel")
        assert [cancel["stream"] for cancel in cancels] == ["slow"]


# -- the end ---------------------------------------------------------------------------------


async def test_the_child_exits_after_the_shutdown_request() -> None:
    bus = Bus()
    exits: list[Exited] = []
    bus.subscribe(Exited, exits.append)
    async with closed_at_end(make_extension(bus)) as ext:
        await ext.start()
    assert [event.status for event in exits] == ["exited with 0"]


async def test_reading_resumes_when_any_full_stream_is_read() -> None:
    """The consumer reads one stream to its end before the other one, which paused the reading."""
    count = STREAM_EVENTS + 50
    async with (
        closed_at_end(make_extension()) as ext,
        ext.stream("watch", {"stream": "a"}) as first,
        ext.stream("watch", {"stream": "b"}) as second,
    ):
        await ext.call("emit", {"stream": "a", "events": count})
        # As a plain call, `watch` sends these events after its reply: no call waits for them.
        events = list(range(MAX_STREAM_EVENTS + 100))
        await ext.call("watch", {"stream": "b", "after": events})
        await wait_until(lambda: len(second.events) >= STREAM_EVENTS)
        assert [await anext(first) for _ in range(count)] == list(range(count))
        await wait_until(lambda: second.ended)  # it has had more events than its queue may have
        assert len(second.events) == MAX_STREAM_EVENTS


async def test_many_streams_share_the_memory_of_their_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(effect_performer, "MAX_SESSION_BYTES", 2**20)
    stream_count, event_bytes = 8, 2**16
    event_count = 2**20 // stream_count // event_bytes + 1  # more than an equal part
    async with AsyncExitStack() as stack:
        ext = await stack.enter_async_context(closed_at_end(make_extension()))
        streams = [
            await stack.enter_async_context(ext.stream("watch", {"stream": str(number)}))
            for number in range(stream_count)
        ]
        events = ["x" * event_bytes] * event_count
        for number in range(stream_count):
            await ext.call("emit", {"stream": str(number), "events": events}, timeout=60)
        # Each may hold more than its part until all together hold too much.
        ended = [stream.ended for stream in streams]
        assert not any(ended[: stream_count // 2]) and ended[-1]


async def test_a_notification_whose_process_ends_before_it_is_sent_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def end_the_session(session: Session) -> None:
        session.abort()

    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        monkeypatch.setattr(Session, "drained", end_the_session)
        error = await error_of(ext.notify("late", timeout=60))
        assert isinstance(error, ExtensionGone)
