"""Headers, one call at a time, a child that asks back, and streams by notices."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exthost.dialects.base import Dialect
from exthost.errors import CallFailed, CallTimeout, ExtensionGone, ProtocolViolation, UsageError
from exthost.events import Bus, Exited, LogLine
from exthost.extension.extension import Extension
from exthost.model.spec import Limits, Spec
from exthost.session.inbound import Handler
from exthost.session.stream_queue import MAX_STREAM_BYTES, MAX_STREAM_EVENTS, STREAM_EVENTS
from exthost.wire.framing import LARGE_READ_BYTES, READ_BYTES
from exthost.wire.lines import Lines
from tests.extensions.clock import Clock
from tests.extensions.harness import accounted, closing, failing, until
from tests.toys.askback import DIALECT

CHILD = Path(__file__).parent / "askback_child.py"
NO_STREAM = "events of no open stream"


async def config_get(params: Any) -> Any:
    return f"the {params['key']}"


def toy(
    bus: Bus | None = None,
    handlers: Mapping[str, Handler] | None = None,
    *,
    dialect: Dialect = DIALECT,
    words: tuple[str, ...] = (),
    **limits: Any,
) -> Extension:
    argv = (sys.executable, "-S", "-E", str(CHILD), *words)
    spec = Spec(id="toy", argv=argv, dialect="askback", limits=Limits(**limits))
    handlers = {"config.get": config_get} | dict(handlers or {})
    return Extension(spec, dialect, bus=bus, handlers=handlers)


async def events_of(ext: Extension, method: str, params: Any) -> tuple[list[Any], Any]:
    async with ext.stream(method, params) as stream:
        return [event async for event in stream], stream.result


async def told_by(ext: Extension, method: str) -> list[Any]:
    """The params of what the child heard under this name."""
    return [output["params"] for output in await ext.call("heard") if output["method"] == method]


# -- the child asks --------------------------------------------------------------------------


@pytest.mark.both_loops
async def test_the_child_asks_inside_the_handshake_and_is_answered() -> None:
    async with closing(toy()) as ext:
        await ext.start()
        assert ext.offer.name == "the name"
        # It knew what it might ask, and was refused what nobody serves.
        assert ext.offer.extra["learnt"] == {"serves": ["config.get"], "refused": -32601}
        assert await told_by(ext, "initialized") == [None]


@pytest.mark.both_loops
async def test_the_child_asks_inside_a_call_and_gets_that_answer_next() -> None:
    async with closing(toy()) as ext:
        # Many at once: none may slip in between a question of the child and its answer.
        asked = [
            ext.call("relay", {"method": "config.get", "params": {"key": n}}) for n in range(50)
        ]
        answers = await asyncio.gather(*asked)
        assert [answer["result"] for answer in answers] == [f"the {n}" for n in range(50)]
        accounted(ext, 50, result=50)


async def test_an_unserved_question_is_refused_with_32601_and_the_call_goes_on() -> None:
    async with closing(toy()) as ext:
        answer = await ext.call("relay", {"method": "no.such", "params": {}})
        assert answer["error"]["code"] == -32601 and "no.such" in answer["error"]["message"]
        assert await ext.call("echo", 1) == 1


async def test_a_handler_that_refuses_or_fails_is_reported_to_the_child() -> None:
    async def refuse(params: Any) -> Any:
        raise CallFailed("X0701", "no", error_code=-32602, error_message="bad key", data=[1])

    async def trip(params: Any) -> Any:
        raise ValueError("tripped")

    async def unsayable(params: Any) -> Any:
        return object()

    handlers = {"refuse": refuse, "trip": trip, "unsayable": unsayable}
    async with closing(toy(handlers=handlers)) as ext:
        reports = [await ext.call("relay", {"method": name, "params": None}) for name in handlers]
        errors = [answer["error"] for answer in reports]
        assert [error["code"] for error in errors] == [-32602, -32603, -32603]
        assert errors[0]["message"] == "bad key" and errors[0]["data"] == [1]
        assert "tripped" in errors[1]["message"]
        assert await ext.call("echo", 1) == 1


async def test_the_reader_does_not_wait_for_a_handler() -> None:
    bus = Bus()
    received = asyncio.Event()
    bus.subscribe(LogLine, lambda line: received.set() if line.text == "wait for it" else None)

    async def slow(params: Any) -> Any:
        await received.wait()
        return "at last"

    async with closing(toy(bus, {"slow": slow})) as ext:
        answer = await ext.call("chat")
        assert answer["result"] == "at last"


async def test_a_handler_that_calls_its_own_busy_extension_fails_at_its_time_limit() -> None:
    """One call at a time: it would wait for the very call that waits for it."""
    made: list[Extension] = []

    async def call_again(params: Any) -> Any:
        error = await failing(made[0].call("echo", 1, timeout=0.2))
        return error.kind

    async with closing(toy(handlers={"again": call_again})) as ext:
        made.append(ext)
        answer = await ext.call("relay", {"method": "again", "params": None})
        assert answer["result"] == "CallTimeout"
        assert await ext.call("echo", 2) == 2
        assert await ext.call("asked") == ["relay", "echo"]


async def test_handlers_still_at_work_when_the_child_goes_are_cancelled() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(params: Any) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with closing(toy(handlers={"endless": endless})) as ext:
        call = asyncio.ensure_future(
            failing(ext.call("relay", {"method": "endless", "params": None}))
        )
        await begun.wait()
        ext.kill()
        assert isinstance(await call, ExtensionGone)
        await ended.wait()


# -- one call at a time ----------------------------------------------------------------------


async def test_only_one_call_is_in_flight_and_the_others_wait_in_order() -> None:
    async with closing(toy()) as ext:
        await ext.start()
        calls = [asyncio.ensure_future(ext.call("echo", n)) for n in range(10)]
        await asyncio.sleep(0)
        assert (ext.stats.in_flight, ext.stats.waiting) == (1, 9)
        assert await asyncio.gather(*calls) == list(range(10))


@pytest.mark.both_loops
async def test_a_call_that_times_out_is_withdrawn_and_the_one_behind_it_is_served() -> None:
    async with closing(toy()) as ext:
        await ext.start()
        pid = ext.stats.pid
        held = asyncio.ensure_future(failing(ext.call("hold", timeout=0.2)))
        behind = asyncio.ensure_future(ext.call("echo", "mine", timeout=60))
        assert isinstance(await held, CallTimeout)
        assert await behind == "mine"
        assert ext.stats.pid == pid, "by id, a late answer harms nobody"
        assert ext.stats.dropped == {"late or repeated replies": 1}
        assert await told_by(ext, "cancelled") == [{"id": 2}]
        accounted(ext, 3, result=2, timeout=1)


async def test_a_failure_without_an_id_answers_no_request() -> None:
    async with closing(toy()) as ext:
        assert await ext.call("null_error") == "right"
        assert ext.stats.dropped == {"errors that name no request": 1}


# -- streams that the reply ends -------------------------------------------------------------


@pytest.mark.both_loops
async def test_the_events_of_the_call_in_flight_come_in_order_and_its_reply_ends_them() -> None:
    async with closing(toy()) as ext:
        for count in (0, 1, 1000):
            events, result = await events_of(ext, "run", {"events": count})
            assert events == list(range(count))
            assert result == {"sent": count}
        accounted(ext, 3, result=3)


async def test_an_event_that_cannot_be_read_is_counted_and_the_stream_goes_on() -> None:
    async with closing(toy()) as ext:
        events, result = await events_of(ext, "run", {"events": 3, "bad": True})
        assert (events, result) == ([0, 1, 2], {"sent": 3})
        assert ext.stats.dropped == {"events that could not be read": 1}


async def test_the_child_may_ask_inside_a_stream() -> None:
    async with closing(toy()) as ext:
        events, result = await events_of(ext, "run", {"events": 5, "ask": "no.such"})
        assert events == list(range(5))
        assert result["error"]["code"] == -32601


async def test_a_stream_that_fails_raises_once_after_its_last_event() -> None:
    async with closing(toy()) as ext:
        events = []
        async with ext.stream("run", {"events": 3, "fail": "out of paper"}) as stream:
            with pytest.raises(CallFailed) as failed:
                async for event in stream:
                    events.append(event)  # noqa: PERF401 - kept when it raises
            assert [event async for event in stream] == []
        assert events == [0, 1, 2]
        assert failed.value.error_message == "out of paper" and failed.value.data == [1]
        accounted(ext, 1, error=1)


@pytest.mark.both_loops
async def test_a_stream_whose_child_dies_raises_once_after_its_last_event() -> None:
    async with closing(toy()) as ext:
        events = []
        async with ext.stream("run", {"events": 300, "die": 6}) as stream:
            with pytest.raises(ExtensionGone) as gone:
                async for event in stream:
                    events.append(event)  # noqa: PERF401
        assert events == list(range(300))
        assert gone.value.evidence.exit == "exited with 6"


async def test_a_stream_that_cannot_be_asked_for_leaves_nothing_open() -> None:
    async with closing(toy()) as ext:
        await ext.start()
        with pytest.raises(UsageError):
            async with ext.stream("run", object()):
                pass
        events, _ = await events_of(ext, "run", {"events": 2})
        assert events == [0, 1]


async def test_the_error_for_a_method_that_is_not_a_stream_lists_the_streams() -> None:
    async with closing(toy()) as ext:
        with pytest.raises(UsageError) as refused:
            ext.stream("echo", {})
        assert "run, watch" in refused.value.help


async def test_leaving_early_sends_the_cancel_and_the_next_stream_gets_only_its_own_events() -> (
    None
):
    async with closing(toy()) as ext:
        async with ext.stream("run", {"events": 2000}) as stream:
            async for event in stream:
                assert event == 0
                break
        # The child is still at it; the events of the one that was left must not be taken for these.
        events, result = await events_of(ext, "run", {"events": 3})
        assert (events, result) == ([0, 1, 2], {"sent": 3})
        assert await told_by(ext, "run.cancel") == [{"why": "the consumer left"}]


async def test_a_stream_that_takes_too_long_is_cancelled_and_raises_after_its_events(
    clock: Clock,
) -> None:
    async with closing(toy()) as ext:
        await ext.start()
        clock.stop()
        events = []
        with pytest.raises(CallTimeout):
            async with ext.stream("run", {"events": 3, "hold": True}, timeout=0.3) as stream:
                async for event in stream:
                    events.append(event)
                    if event == 2:  # the last that comes
                        clock.move(0.3)
        assert events == [0, 1, 2]
        assert await ext.call("echo", "mine") == "mine"
        assert len(await told_by(ext, "run.cancel")) == 1
        assert ext.stats.dropped == {"late or repeated replies": 1}


async def test_a_stream_that_is_left_while_it_waits_for_its_turn_is_never_asked_for() -> None:
    async with closing(toy()) as ext:
        await ext.start()
        held = asyncio.ensure_future(ext.call("hold"))
        await asyncio.sleep(0)
        async with ext.stream("run", {"events": 3}):
            assert ext.stats.waiting == 1
        assert ext.stats.waiting == 0
        held.cancel()
        assert await ext.call("asked") == ["hold"]
        assert await told_by(ext, "run.cancel") == []


async def test_a_stream_that_is_read_to_its_end_is_not_cancelled() -> None:
    async with closing(toy()) as ext:
        await events_of(ext, "run", {"events": 3})
        await events_of(ext, "watch", {"stream": "a", "after": ["done"]})
        assert await told_by(ext, "run.cancel") == []
        assert await told_by(ext, "watch.cancel") == []


# -- streams that a terminal event ends ------------------------------------------------------


@pytest.mark.both_loops
async def test_a_terminal_event_ends_its_stream_and_is_its_result() -> None:
    async with closing(toy()) as ext:
        events, result = await events_of(ext, "watch", {"stream": "a", "after": [1, 2, "done"]})
        assert (events, result) == ([1, 2, "done"], "done")
        assert ext.stats.dropped == {}


async def test_the_terminal_event_comes_exactly_once_and_later_events_are_dropped() -> None:
    async with closing(toy()) as ext:
        after = [1, "done", 2, "done", "failed"]
        events, result = await events_of(ext, "watch", {"stream": "a", "after": after})
        assert (events, result) == ([1, "done"], "done")
        await ext.call("echo")
        assert ext.stats.dropped == {NO_STREAM: 3}


async def test_events_before_the_acknowledgement_are_kept() -> None:
    async with closing(toy()) as ext:
        params = {"stream": "a", "before": [1, 2], "after": [3, "done"]}
        events, _ = await events_of(ext, "watch", params)
        assert events == [1, 2, 3, "done"]
        # Even when the whole of it came before.
        events, _ = await events_of(ext, "watch", {"stream": "b", "before": [1, "done"]})
        assert events == [1, "done"]


async def test_streams_are_distinguished_by_their_names() -> None:
    async with closing(toy()) as ext:
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
    async with closing(toy()) as ext:
        with pytest.raises(ProtocolViolation) as violation:
            async with ext.stream("watch", {"stream": "a", "acknowledge": "b", "before": [1]}):
                pass
        assert violation.value.code == "X0605"
        assert await ext.call("echo", 1) == 1, "the session goes on"
        accounted(ext, 2, result=1, error=1)


async def test_leaving_a_stream_early_cancels_it_by_name_once() -> None:
    async with closing(toy()) as ext:
        async with ext.stream("watch", {"stream": "a", "after": [1, 2]}) as stream:
            async for event in stream:
                if event == 2:  # the last that was sent: none is on its way when we leave
                    break
        assert await told_by(ext, "watch.cancel") == [{"stream": "a", "why": "the consumer left"}]
        await ext.call("emit", {"stream": "a", "events": [3]})
        assert ext.stats.dropped == {NO_STREAM: 1}


async def test_leaving_by_an_exception_or_a_cancellation_cancels_too() -> None:
    async with closing(toy()) as ext:
        with pytest.raises(KeyError):
            async with ext.stream("watch", {"stream": "a"}):
                raise KeyError("a")

        reached = asyncio.Event()

        async def watch_for_ever() -> None:
            async with ext.stream("watch", {"stream": "b"}) as stream:
                reached.set()
                async for _ in stream:
                    pass

        watcher = asyncio.ensure_future(watch_for_ever())
        await reached.wait()
        watcher.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watcher
        cancels = await told_by(ext, "watch.cancel")
        assert [cancel["stream"] for cancel in cancels] == ["a", "b"]


async def test_an_open_stream_takes_no_place_among_the_calls() -> None:
    async with closing(toy()) as ext, ext.stream("watch", {"stream": "a"}) as stream:
        assert ext.internals.queue.max_in_flight == 1
        assert (ext.stats.in_flight, ext.stats.calls) == (1, 0)
        assert await ext.call("echo", 1, timeout=60) == 1
        assert (ext.stats.in_flight, ext.stats.result) == (1, 1)  # it has not ended
        await ext.call("emit", {"stream": "a", "events": ["done"]})
        assert [event async for event in stream] == ["done"]
        assert (ext.stats.in_flight, ext.stats.calls, ext.stats.result) == (0, 3, 3)


async def test_when_the_child_goes_each_open_stream_ends_with_one_failure() -> None:
    async with (
        closing(toy()) as ext,
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


async def test_when_the_extension_is_closed_its_streams_end() -> None:
    ext = toy()
    async with ext.stream("watch", {"stream": "a", "after": [1]}) as stream:
        assert await anext(stream) == 1
        await ext.close()
        with pytest.raises(ExtensionGone):
            await anext(stream)


async def test_an_acknowledgement_over_the_size_limit_fails_the_opening_and_ends_it() -> None:
    """The same dialect in lines, where a message that is too long is let go."""
    in_lines = replace(DIALECT, framing=Lines)
    async with closing(toy(dialect=in_lines, words=("lines",), max_message=10_000)) as ext:
        after = list(range(2 * STREAM_EVENTS))
        with pytest.raises(ProtocolViolation) as violation:
            async with ext.stream("watch", {"stream": "a", "padding": 10_000, "after": after}):
                pass
        assert violation.value.code == "X0603"
        # A stream that was left behind would swallow these, and hold up the child for them.
        assert await ext.call("echo", 1) == 1
        assert ext.stats.dropped[NO_STREAM] == len(after)
        events, _ = await events_of(ext, "watch", {"stream": "a", "after": [1, "done"]})
        assert events == [1, "done"]


# -- slow consumers --------------------------------------------------------------------------


@pytest.mark.both_loops
@pytest.mark.parametrize(
    ("pad", "total", "most"),
    [(1000, 5000, STREAM_EVENTS), (200_000, 300, MAX_STREAM_BYTES // 200_000)],
    ids=["by number", "by size"],
)
async def test_a_child_whose_stream_is_not_read_is_left_unread_until_it_is(
    pad: int, total: int, most: int, tmp_path: Path
) -> None:
    noted = tmp_path / "stuck_at"

    def stuck_at() -> int:
        return int(noted.read_text() or 0) if noted.exists() else 0

    params = {"events": total, "pad": pad, "noted": str(noted)}
    async with closing(toy()) as ext, ext.stream("run", params) as stream:
        await until(lambda: stuck_at() >= most - 1)
        # Beside the queue there is one read, what the pipe holds (large frames widen both), and
        # the one under way.
        beside = 2 * (LARGE_READ_BYTES if pad > READ_BYTES else READ_BYTES)
        assert stuck_at() <= most + beside // pad + 2
        assert [event async for event in stream] == list(range(total))
        assert stream.result == {"sent": total}


async def test_a_consumer_that_calls_the_same_extension_meanwhile_does_not_block_itself() -> None:
    """The call's answer comes behind more events than the queue holds."""
    count = 3 * STREAM_EVENTS
    async with closing(toy()) as ext, ext.stream("watch", {"stream": "a"}) as stream:
        await ext.call("emit", {"stream": "a", "events": count})
        await ext.call("emit", {"stream": "a", "events": ["done"]})
        events = []
        async for event in stream:
            events.append(event)
            if event in (0, STREAM_EVENTS, "done"):
                assert await ext.call("echo", event, timeout=60) == event
        assert events == [*range(count), "done"]


async def test_a_consumer_whose_call_must_wait_for_its_own_streams_end_does_not_block_itself() -> (
    None
):
    """One call at a time: what it asks inside the loop is sent when the stream's call is over."""
    count = 3 * STREAM_EVENTS
    async with closing(toy()) as ext, ext.stream("run", {"events": count}) as stream:
        events = []
        async for event in stream:
            events.append(event)
            if event == 0:
                assert await ext.call("echo", "inside", timeout=60) == "inside"
        assert events == list(range(count))


async def test_a_consumer_that_calls_after_the_child_was_left_unread_does_not_block_itself(
    tmp_path: Path,
) -> None:
    noted, count = tmp_path / "stuck_at", 1500
    params = {"events": count, "pad": 1000, "noted": str(noted)}
    async with closing(toy()) as ext, ext.stream("run", params) as stream:
        await until(noted.exists)
        assert await ext.call("echo", "inside", timeout=60) == "inside"
        assert [event async for event in stream] == list(range(count))


@pytest.mark.both_loops
async def test_a_stream_that_is_never_read_while_others_wait_is_overrun_alone() -> None:
    async with (
        closing(toy()) as ext,
        ext.stream("watch", {"stream": "slow"}) as slow,
        ext.stream("watch", {"stream": "quick"}) as quick,
    ):
        # The answer of this call stands behind all those events.
        assert await ext.call("emit", {"stream": "slow", "events": 6000}) == "emitted"
        await ext.call("emit", {"stream": "quick", "events": [1, "done"]})
        assert [event async for event in quick] == [1, "done"]
        events = []
        with pytest.raises(UsageError) as overrun:
            async for event in slow:
                events.append(event)  # noqa: PERF401
        assert overrun.value.code == "X1306"
        assert events == list(range(MAX_STREAM_EVENTS))
        assert await ext.call("echo", 1) == 1
        # It was told to stop, once.
        cancels = await told_by(ext, "watch.cancel")
        assert [cancel["stream"] for cancel in cancels] == ["slow"]


# -- the end ---------------------------------------------------------------------------------


async def test_it_is_asked_to_shut_down_before_anything_is_closed() -> None:
    bus = Bus()
    exits: list[Exited] = []
    bus.subscribe(Exited, exits.append)
    async with closing(toy(bus)) as ext:
        await ext.start()
    assert [event.status for event in exits] == ["exited with 0"]
