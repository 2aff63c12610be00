"""What a page is sent is bounded, however much happens."""

import json
import time
from contextlib import aclosing

from exthost.events import CallEnded, StateChanged
from exthost.host.host import Host
from exthost.trace.record import TraceRecord
from exthost.web.history import MAX_CALLS, MAX_MOVES, POINT_COUNT, History, point_number
from exthost.web.page_traffic import (
    BATCH_RECORDS,
    MAX_RINGS,
    RING_RECORDS,
    Recorder,
    follow_traffic,
    records_of_call,
)
from exthost.web.page_values import TEXT_CHARACTERS, to_json, truncate


def record(number: int, text: str = "") -> TraceRecord:
    return TraceRecord(time.time(), "x", "notification", "received", method=f"m{number}", text=text)


async def test_a_flood_of_frames_comes_as_its_last_ones_and_a_number() -> None:
    recorder = Recorder(Host())
    ring = recorder.watch("x")
    for number in range(10_000):
        ring(record(number, "needle" if number == 9_000 else ""))
    assert len(ring) == RING_RECORDS
    async with aclosing(follow_traffic(recorder, "x", "")) as batches:
        first = await anext(batches)
        assert len(first["records"]) == BATCH_RECORDS
        assert first["records"][-1]["method"] == "m9999"
        assert first["dropped"] == RING_RECORDS - BATCH_RECORDS
        for number in range(10_000):
            ring(record(number))
        second = await anext(batches)
        assert len(second["records"]) == BATCH_RECORDS
        assert second["dropped"] == 10_000 - BATCH_RECORDS
    for number in range(RING_RECORDS - 1):
        ring(record(number, "needle" if number == 5 else ""))
    async with aclosing(follow_traffic(recorder, "x", "Needle")) as batches:
        (found,) = (await anext(batches))["records"]
    assert found["method"] == "m5"
    recorder.close()


async def test_only_so_many_extensions_are_recorded_at_a_time() -> None:
    host = Host()
    recorder = Recorder(host)
    for number in range(3 * MAX_RINGS):
        recorder.watch(f"x{number}")
    kept = [number for number in range(3 * MAX_RINGS) if recorder.find(f"x{number}") is not None]
    assert kept == list(range(2 * MAX_RINGS, 3 * MAX_RINGS))
    recorder.close()
    assert not host.traffic.is_traced("x47")


async def test_a_call_is_found_among_others_by_its_two_moments() -> None:
    recorder = Recorder(Host())
    ring = recorder.watch("x")
    for call, (began, ended) in enumerate([(10.0, 11.0), (10.1, 10.3), (10.2, 12.0)]):
        ring(TraceRecord(began, "x", "request", "sent", call=call, method="m"))
        ring(TraceRecord(ended, "x", "reply", "received", call=call, method="m"))
    ring(TraceRecord(10.25, "x", "stderr", text="oh"))
    found = records_of_call(ring, 10.1, 10.3, is_answered=True)
    assert [(one["kind"], one.get("call")) for one in found] == [
        ("request", 1),
        ("reply", 1),
        ("stderr", None),
    ]
    assert records_of_call(None, 0, 1, is_answered=True) == []
    recorder.close()


async def test_the_past_of_an_extension_is_kept_in_bounded_rings() -> None:
    host = Host()
    history = History(host)
    for number in range(1000):
        host.events.publish(StateChanged("x", "ready", "backoff", "r" * 1000))
        outcome = "result" if number % 100 else "error"
        host.events.publish(CallEnded("x", "m", outcome, 0.001))
    past = history.find("x")
    assert (len(past.moves), len(past.calls), len(past.failed)) == (MAX_MOVES, MAX_CALLS, 10)
    assert len(past.moves[0].reason) < 1000
    points = past.points(point_number(time.time()))
    assert len(points) == POINT_COUNT and sum(calls for calls, _ in points) == 1000
    assert sum(failed for _, failed in points) == 10
    assert past.points(point_number(time.time()) + 2 * POINT_COUNT) == [], "two minutes of nothing"
    for number in range(100):
        host.events.publish(StateChanged(f"gone-{number}", "ready", "stopped"))
    history.forget_removed()
    assert history.find("x").calls.maxlen == MAX_CALLS and not history.find("x").calls
    history.close()


def test_any_value_becomes_json_and_long_text_is_cut() -> None:
    assert json.loads(to_json({"a": "\ud800", "b": [1]}))["b"] == [1]
    assert json.loads(to_json({"a": object()}))
    long = truncate("x" * (TEXT_CHARACTERS + 5))
    assert long.endswith("5 more characters")
