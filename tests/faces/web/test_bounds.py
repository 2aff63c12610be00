"""Tests of limits: the data that a host keeps for its web page, and its responses, are bounded.

A `Recorder` keeps the last messages of an extension (`TraceRecord`) in a ring. A `History` keeps
the last calls and changes of state.
"""

import asyncio
import json
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from exthost.events import CallEnded, StateChanged
from exthost.faces.http_server.access import Access
from exthost.faces.http_server.listener import listen
from exthost.faces.http_server.server import serve_app
from exthost.faces.http_server.token import Token, Tokens
from exthost.faces.web import endpoints
from exthost.faces.web.application import build_application
from exthost.faces.web.endpoints import Endpoints
from exthost.faces.web.history import MAX_CALLS, MAX_MOVES, POINT_COUNT, History, point_number
from exthost.faces.web.login import Login
from exthost.faces.web.page_questions import PageQuestions
from exthost.faces.web.page_traffic import (
    BATCH_RECORDS,
    MAX_RINGS,
    RING_RECORDS,
    Recorder,
    follow_traffic,
    records_of_call,
)
from exthost.faces.web.page_values import TEXT_CHARACTERS, to_json, truncate
from exthost.faces.web.server_requests import ServerRequests
from exthost.host.control.requests import RequestPerformer
from exthost.host.control.status_report import StatusReport
from exthost.host.host import Host
from exthost.session.trace.record import TraceRecord


def make_record(number: int, text: str = "") -> TraceRecord:
    return TraceRecord(time.time(), "x", "notification", "received", method=f"m{number}", text=text)


async def test_of_many_records_the_last_are_sent_with_the_number_of_the_others() -> None:
    recorder = Recorder(Host())
    ring = recorder.watch("x")
    for number in range(10_000):
        ring(make_record(number, "needle" if number == 9_000 else ""))
    assert len(ring) == RING_RECORDS
    async with aclosing(follow_traffic(recorder, "x", "")) as batches:
        first = await anext(batches)
        assert len(first["records"]) == BATCH_RECORDS
        assert first["records"][-1]["method"] == "m9999"
        assert first["dropped"] == RING_RECORDS - BATCH_RECORDS
        for number in range(10_000):
            ring(make_record(number))
        second = await anext(batches)
        assert len(second["records"]) == BATCH_RECORDS
        assert second["dropped"] == 10_000 - BATCH_RECORDS
    for number in range(RING_RECORDS - 1):
        ring(make_record(number, "needle" if number == 5 else ""))
    async with aclosing(follow_traffic(recorder, "x", "Needle")) as batches:
        (match,) = (await anext(batches))["records"]
    assert match["method"] == "m5"
    recorder.close()


async def test_the_number_of_recorded_extensions_is_limited() -> None:
    host = Host()
    recorder = Recorder(host)
    for number in range(3 * MAX_RINGS):
        recorder.watch(f"x{number}")
    recorded = [
        number for number in range(3 * MAX_RINGS) if recorder.find(f"x{number}") is not None
    ]
    assert recorded == list(range(2 * MAX_RINGS, 3 * MAX_RINGS))
    recorder.close()
    assert not host.traffic.is_traced(f"x{3 * MAX_RINGS - 1}")


async def test_the_records_of_a_call_are_found_by_its_start_and_end() -> None:
    recorder = Recorder(Host())
    ring = recorder.watch("x")
    for call, (began, ended) in enumerate([(10.0, 11.0), (10.1, 10.3), (10.2, 12.0)]):
        ring(TraceRecord(began, "x", "request", "sent", call=call, method="m"))
        ring(TraceRecord(ended, "x", "reply", "received", call=call, method="m"))
    ring(TraceRecord(10.25, "x", "stderr", text="oh"))
    records = records_of_call(ring, 10.1, 10.3, is_answered=True)
    assert [(item["kind"], item.get("call")) for item in records] == [
        ("request", 1),
        ("reply", 1),
        ("stderr", None),
    ]
    assert records_of_call(None, 0, 1, is_answered=True) == []
    recorder.close()


async def test_a_call_without_records_has_no_messages_of_its_time() -> None:
    recorder = Recorder(Host())
    ring = recorder.watch("x")
    ring(TraceRecord(10.1, "x", "notification", "received", method="n"))
    ring(TraceRecord(10.2, "x", "stderr", text="oh"))
    records = records_of_call(ring, 10.0, 11.0, is_answered=True)
    assert [item["kind"] for item in records] == ["stderr"]
    recorder.close()


async def test_the_history_of_an_extension_is_bounded() -> None:
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
    assert past.points(point_number(time.time()) + 2 * POINT_COUNT) == [], (
        "there were no calls lately"
    )
    for number in range(100):
        host.events.publish(StateChanged(f"gone-{number}", "ready", "stopped"))
    history.forget_removed()
    assert history.find("x").calls.maxlen == MAX_CALLS and not history.find("x").calls
    history.close()


def test_any_value_becomes_json_and_long_text_is_truncated() -> None:
    assert json.loads(to_json({"a": "\ud800", "b": [1]}))["b"] == [1]
    assert json.loads(to_json({"a": object()}))
    long = truncate("x" * (TEXT_CHARACTERS + 5))
    assert long.endswith("5 more characters")


async def test_a_client_that_disconnects_during_its_request_leaves_no_traceback_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # The service of the page, as `exthost run --web` sets it up.
    host = Host()
    report, listener = StatusReport(host), listen("127.0.0.1", 0)
    requests = RequestPerformer(host, report, str(tmp_path / "exthost.toml"))
    answered = asyncio.Event()
    questions = PageQuestions()
    endpoints = Endpoints(
        host,
        report,
        requests,
        str(tmp_path / "exthost.toml"),
        questions,
        ServerRequests(questions),
    )
    tokens = Tokens(Token("secret"))
    access = Access("127.0.0.1", tokens)
    app = build_application(endpoints, access, Login(access, tokens, 1))

    async def app_with_event(scope: Any, receive: Any, send: Any) -> None:
        try:
            await app(scope, receive, send)
        finally:
            answered.set()

    serving = asyncio.ensure_future(serve_app(app_with_event, listener, access))
    # The head announces 1000 bytes; the client sends a few of them and disconnects.
    head = (
        b"POST /api/steer HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"
        b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    )
    try:
        _, writer = await asyncio.open_connection(*listener.getsockname()[:2])
        writer.write(head + b'{"verb"')
        await writer.drain()
        writer.close()
        await answered.wait()
    finally:
        endpoints.close()
        serving.cancel()
        await asyncio.wait([serving])
        await endpoints.sampler.close()
    assert "Traceback" not in caplog.text and "Exception" not in caplog.text


def test_the_page_is_smaller_than_150_kilobytes() -> None:
    static = Path(endpoints.__file__).with_name("static")
    assert sum(file.stat().st_size for file in static.iterdir()) < 150_000
