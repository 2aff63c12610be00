"""Invalid output of an extension is reported, dropped and counted, and affects no other call.

The program is the hostile extension of the tests (`tests/extensions/hostile.py`), whose methods do
what their names say: `garbage` writes stray lines before its reply, `twice` replies two times, and
`raw` writes the given text, in which $ID is the id of the request.
"""

import asyncio
import logging
from typing import Any

import pytest

from exthost.errors import CallFailed, CallTimeout, ProtocolViolation
from exthost.events import Bus, Dropped, LogLine, Noticed
from tests.extensions.clock import Clock, run_loop
from tests.extensions.harness import Ledger, check_call_counts, error_of, hostile_extension

# The names of counts in `stats.dropped`.
STRAY = "stray lines on stdout"
LATE = "late or repeated replies"
UNKNOWN = "replies without a request"

# Error codes.
INVALID_JSON = "X0606"
NOT_ENCODABLE = "X1302"
TOO_LARGE_TO_SEND = "X1303"
TOO_LARGE_TO_READ = "X0603"


@pytest.mark.both_loops
async def test_stray_output_of_every_kind_is_skipped_counted_and_logged() -> None:
    bus = Bus()
    lines: list[LogLine] = []
    bus.subscribe(LogLine, lines.append)
    async with hostile_extension(events=bus) as ext:
        assert await ext.call("garbage", {"a": 1}) == {"a": 1}
        assert await ext.call("echo", 2) == 2
        # The method writes eleven stray lines and three blank lines, which are not counted.
        assert ext.stats.dropped == {STRAY: 11}
        check_call_counts(ext, 2, result=2)
    reports = [line.text for line in lines if line.source == "stdout"]
    assert len(reports) == 11
    assert "Listening on port 8080" in reports[0] and lines[0].level == logging.WARNING
    assert any("cannot send requests to the host" in text for text in reports)


async def test_a_byte_order_mark_and_a_banner_before_the_handshake_are_skipped() -> None:
    async with hostile_extension("banner") as ext:
        assert await ext.call("echo", "x") == "x"
        assert ext.stats.dropped == {STRAY: 2}


@pytest.mark.parametrize(
    ("method", "dropped"),
    [("twice", {LATE: 1}), ("old_id", {LATE: 1}), ("unknown_id", {UNKNOWN: 1})],
)
async def test_a_reply_without_a_call_is_dropped(method: str, dropped: dict[str, int]) -> None:
    async with hostile_extension() as ext:
        assert await ext.call(method, "mine") in ("mine", "first")
        assert await ext.call("echo", "next") == "next"
        assert ext.stats.dropped == dropped
        check_call_counts(ext, 2, result=2)


async def test_ids_that_are_not_numbers_answer_no_request() -> None:
    async with hostile_extension() as ext:
        assert await ext.call("odd_ids", "right") == "right"
        assert ext.stats.dropped == {STRAY: 7}
        check_call_counts(ext, 1, result=1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"result": 1, "error": None}, 1),
        ({"result": None}, None),
        ({}, None),
        ({"unknown": 1, "result": "r"}, "r"),
    ],
)
async def test_replies_with_missing_or_unknown_fields_are_accepted(
    fields: dict[str, Any], expected: Any
) -> None:
    async with hostile_extension() as ext:
        assert await ext.call("odd_answers", fields) == expected
        check_call_counts(ext, 1, result=1)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"result": 1, "error": "no"}, "no"),
        ({"error": ""}, ""),
        ({"error": {"code": 7}}, '{"code":7}'),
        ({"error": 0}, "0"),
        ({"error": False}, "false"),
    ],
)
async def test_a_reply_with_an_error_and_a_result_is_an_error(
    fields: dict[str, Any], text: str
) -> None:
    async with hostile_extension() as ext:
        error = await error_of(ext.call("odd_answers", fields))
        assert isinstance(error, CallFailed)
        assert (error.code, error.extension, error.error_message) == ("X0701", "hostile", text)
        assert error.help
        check_call_counts(ext, 1, error=1)


@pytest.mark.parametrize("text", ['{"id":$ID,"result":NaN}', '{"id":$ID,"result":Infinity}'])
async def test_a_reply_with_an_invalid_number_fails_its_call_at_once(
    text: str,
) -> None:
    async with hostile_extension() as ext:
        error = await error_of(ext.call("raw", {"text": text}))
        assert isinstance(error, ProtocolViolation) and error.code == INVALID_JSON
        assert text[-5:-1] in error.evidence.bytes
        assert await ext.call("echo", 1) == 1
        assert ext.stats.dropped == {STRAY: 1}
        check_call_counts(ext, 2, result=1, error=1)


async def test_the_timeout_error_has_an_unreadable_reply_with_the_id_of_the_call(
    clock: Clock,
) -> None:
    async with hostile_extension() as ext:
        await ext.call("garbage", None)  # stray lines without the id of a call
        error = await error_of(ext.call("keep", None, timeout=0.2))
        assert error.message.endswith("no answer arrived") and not error.evidence.bytes
        clock.stop()
        text = '{"id": $ID, "result": NaN} (printed for debugging)'
        unreadable = asyncio.ensure_future(error_of(ext.call("raw", {"text": text}, timeout=0.5)))
        await run_loop()  # this call is sent first
        await ext.call("echo")  # answered after the unreadable reply
        await clock.advance(0.5)
        error = await unreadable
        assert isinstance(error, CallTimeout) and "is not a message (not JSON" in error.message
        assert "NaN" in error.evidence.bytes


async def test_lone_surrogates_arrive_as_they_were_written() -> None:
    async with hostile_extension() as ext:
        text = '{"id":$ID,"result":"\\ud83d alone"}'
        assert await ext.call("raw", {"text": text}) == "\ud83d alone"


async def test_the_last_of_repeated_members_is_used() -> None:
    async with hostile_extension() as ext:
        assert await ext.call("raw", {"text": '{"id":1,"result":1,"id":$ID,"result":2}'}) == 2
        check_call_counts(ext, 1, result=1)


async def test_a_reply_nested_a_hundred_thousand_deep_fails_its_call_at_once() -> None:
    async with hostile_extension() as ext:
        error = await error_of(ext.call("deep", {"depth": 100_000}))
        assert isinstance(error, ProtocolViolation) and error.code == INVALID_JSON
        assert await ext.call("echo", 1) == 1  # after the second reply to the failed call
        assert ext.stats.dropped == {STRAY: 1, LATE: 1}


async def test_a_reply_may_arrive_byte_by_byte() -> None:
    async with hostile_extension() as ext:
        slow = asyncio.ensure_future(ext.call("loris", {"text": "ü" * 50}))
        quick = [ext.call("echo", n) for n in range(20)]
        assert await asyncio.gather(*quick) == list(range(20))
        assert await slow == {"text": "ü" * 50}
        check_call_counts(ext, 21, result=21)


async def test_log_notifications_become_log_lines_with_their_level() -> None:
    bus = Bus()
    lines: list[LogLine] = []
    notifications: list[Noticed] = []
    bus.subscribe(LogLine, lines.append)
    bus.subscribe(Noticed, notifications.append)
    async with hostile_extension(events=bus) as ext:
        await ext.call("log", {"level": "error", "message": "it hurts"})
        await ext.call("log", {"level": "shouting", "message": {"a": 1}})
        await ext.call("log", "not even an object")
    assert [(line.level, line.text) for line in lines] == [
        (logging.ERROR, "it hurts"),
        (logging.INFO, '{"a":1}'),
    ]
    assert [notification.method for notification in notifications] == ["log"] * 3


async def test_a_flood_of_notifications_loses_no_reply() -> None:
    async with hostile_extension() as ext:
        flood = asyncio.ensure_future(ext.call("notices", {"thousands": 10}))
        await run_loop()  # this call is sent first
        assert await ext.call("echo", 1) == 1
        assert await flood == "noticed"
        assert ext.stats.dropped == {}
        check_call_counts(ext, 2, result=2)


async def test_drops_are_reported_on_the_bus_with_their_number() -> None:
    ledger = Ledger()
    drops: list[Dropped] = []
    ledger.bus.subscribe(Dropped, drops.append)
    async with hostile_extension(events=ledger.bus) as ext:
        for _ in range(3):
            await ext.call("twice")
        await ext.call("echo")
        ledger.check_calls(ext, result=4)
    assert drops == [Dropped("hostile", LATE, times) for times in (1, 2, 3)]


async def test_a_value_that_cannot_be_encoded_is_a_usage_error() -> None:
    async with hostile_extension(limits={"max_message": 1000}) as ext:
        encode_error = await error_of(ext.call("echo", object()))
        size_error = await error_of(ext.call("echo", "x" * 2000))
        assert (encode_error.kind, encode_error.code) == ("UsageError", NOT_ENCODABLE)
        assert (size_error.kind, size_error.code) == ("UsageError", TOO_LARGE_TO_SEND)
        assert await ext.call("echo", 1) == 1
        check_call_counts(ext, 1, result=1)  # neither of them was accepted as a call


async def test_many_waiting_calls_that_cannot_be_encoded_fail_without_ending_the_session() -> None:
    """2000 calls in a row must not exceed the recursion limit."""
    async with hostile_extension(limits={"max_in_flight": 1}) as ext:
        first = asyncio.ensure_future(ext.call("echo", "first"))
        invalid_calls = [
            asyncio.ensure_future(error_of(ext.call("echo", object()))) for _ in range(2000)
        ]
        last = asyncio.ensure_future(ext.call("echo", "last"))
        assert await first == "first"
        assert {(await error).code for error in invalid_calls} == {NOT_ENCODABLE}
        assert await last == "last"
        assert ext.stats.restarts == 0
        check_call_counts(ext, 2002, result=2, error=2000)


async def test_an_over_long_reply_fails_only_its_call() -> None:
    async with hostile_extension(limits={"max_message": 1000}) as ext:
        too_long_call = asyncio.ensure_future(error_of(ext.call("huge", {"bytes": 5000})))
        short_call = asyncio.ensure_future(ext.call("echo", "short"))
        error = await too_long_call
        assert isinstance(error, ProtocolViolation)
        assert error.code == TOO_LARGE_TO_READ and "1,000" in error.message
        assert error.evidence.bytes.startswith('{"id":2,"result":"xxx')
        assert "max_message" in error.help
        assert await short_call == "short"
        assert ext.stats.dropped == {"messages over the size limit": 1}
        check_call_counts(ext, 2, result=1, error=1)
