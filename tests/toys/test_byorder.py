"""The host with the toy dialect `byorder`, a protocol without ids in its messages.

Without ids, an answer belongs to the only request without one, so calls are sent one at a time. A
timeout ends the process, because a late answer would be taken for that of the next call. The call
`make` is an operation of two exchanges, "plan" and "build". The child, `byorder_child.py`, does
what a method says: `say` returns its params, `hold` answers only after the next request, `twice`
answers two times, `heard` returns the method and the length of each request.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.dialects.base import Dialect
from exthost.errors import (
    CallFailed,
    CallTimeout,
    ExtensionGone,
    HandshakeFailed,
    NotFound,
    ProtocolViolation,
    UsageError,
)
from exthost.events import Bus, Exited
from exthost.extension.extension import Extension
from exthost.model.spec import Limits, Spec
from exthost.session.call import Call
from exthost.session.conversation import Conversation
from exthost.session.effects import Effect
from tests.extensions.harness import check_call_counts, closed_at_end, error_of, wait_until
from tests.toys.byorder import DIALECT

CHILD = Path(__file__).parent / "byorder_child.py"


def make_extension(
    *flags: str, bus: Bus | None = None, dialect: Dialect = DIALECT, **limits: Any
) -> Extension:
    argv = (sys.executable, "-S", "-E", str(CHILD), *flags)
    spec = Spec(id="toy", argv=argv, dialect="byorder", limits=Limits(**limits))
    return Extension(spec, dialect, bus=bus)


@pytest.mark.both_loops
async def test_answers_without_ids_are_delivered_to_their_calls() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        assert ext.offer.name == "toy"
        results = await asyncio.gather(*(ext.call("say", n) for n in range(100)))
        assert results == list(range(100))
        check_call_counts(ext, 100, result=100)


async def test_an_empty_frame_is_a_request_and_a_reply() -> None:
    async with closed_at_end(make_extension()) as ext:
        assert [await ext.call("ping") for _ in range(3)] == [None, None, None]
        assert await ext.call("heard") == [["ping", 0]] * 3


@pytest.mark.both_loops
async def test_an_operation_of_two_exchanges_is_not_interrupted_by_other_calls() -> None:
    async with closed_at_end(make_extension()) as ext:
        calls = [ext.call("make", n) if n % 2 else ext.call("say", n) for n in range(60)]
        for n, result in enumerate(await asyncio.gather(*calls)):
            if n % 2:
                assert result["built"] == [f"{n}-0", f"{n}-1", f"{n}-2"]
            else:
                assert result == n
        check_call_counts(ext, 60, result=60)


async def test_an_operation_that_stops_after_its_first_exchange_sends_no_second() -> None:
    async with closed_at_end(make_extension()) as ext:
        error = await error_of(ext.call("make", "impossible"))
        assert isinstance(error, CallFailed) and error.data == {"fault": "cannot be done"}
        assert await ext.call("heard") == [["plan", len('plan "impossible"')]]
        check_call_counts(ext, 2, result=1, error=1)


async def test_an_error_reply_does_not_end_the_process() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        pid = ext.stats.pid
        error = await error_of(ext.call("refuse", "not today"))
        assert isinstance(error, CallFailed) and error.error_message == "not today"
        assert await ext.call("say", 1) == 1
        assert ext.stats.pid == pid


# -- timeouts and cancellations ----------------------------------------------------------------


@pytest.mark.both_loops
@pytest.mark.parametrize(
    ("method", "params"), [("hold", "late"), ("make", "held"), ("make", "held-build")]
)
async def test_after_a_timeout_the_next_call_is_answered_by_a_new_process(
    method: str, params: str
) -> None:
    bus = Bus()
    exits: list[Exited] = []
    bus.subscribe(Exited, exits.append)
    async with closed_at_end(make_extension(bus=bus)) as ext:
        await ext.start()
        pid = ext.stats.pid
        error = await error_of(ext.call(method, params, timeout=0.3))
        assert isinstance(error, CallTimeout) and method in error.message
        assert await ext.call("say", "mine") == "mine"
        assert ext.stats.pid != pid
        assert [(event.pid, event.status) for event in exits] == [(pid, "killed by SIGKILL")]
        check_call_counts(ext, 2, result=1, timeout=1)


@pytest.mark.both_loops
async def test_calls_behind_a_timed_out_call_are_answered_by_a_new_process() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        pid = ext.stats.pid
        abandoned_call = asyncio.ensure_future(error_of(ext.call("hold", "late", timeout=0.3)))
        waiting_calls = [asyncio.ensure_future(ext.call("say", n)) for n in range(5)]
        assert isinstance(await abandoned_call, CallTimeout)
        assert await asyncio.gather(*waiting_calls) == list(range(5))
        assert ext.stats.pid != pid
        check_call_counts(ext, 6, result=5, timeout=1)


async def test_calls_behind_a_cancelled_call_are_answered_by_a_new_process() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        pid = ext.stats.pid
        abandoned_call = asyncio.ensure_future(ext.call("hold", "late"))
        waiting_calls = [asyncio.ensure_future(ext.call("say", n)) for n in range(5)]
        await wait_until(lambda: ext.stats.in_flight == 1)
        abandoned_call.cancel()
        assert await asyncio.gather(*waiting_calls) == list(range(5))
        assert abandoned_call.cancelled()
        assert ext.stats.pid != pid
        check_call_counts(ext, 6, result=5, cancelled=1)


async def test_a_call_that_times_out_before_it_was_sent_does_not_end_the_process() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        pid = ext.stats.pid
        first = asyncio.ensure_future(ext.call("hold", "late", timeout=60))
        await asyncio.sleep(0)
        error = await error_of(ext.call("say", 1, timeout=0.05))
        assert isinstance(error, CallTimeout) and "its turn" in error.message
        assert ext.stats.pid == pid and not first.done()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_max_in_flight_is_one_so_a_timeout_fails_no_other_call() -> None:
    """The setting max_in_flight has no effect. tests/session/test_answers_by_order.py shows what
    would be lost with several calls in flight."""
    async with closed_at_end(make_extension(max_in_flight=3)) as ext:
        await ext.start()
        pid = ext.stats.pid
        assert await asyncio.gather(*(ext.call("say", n) for n in range(30))) == list(range(30))
        abandoned_call = asyncio.ensure_future(error_of(ext.call("hold", 1, timeout=0.3)))
        await asyncio.sleep(0)
        assert await ext.call("say", "mine") == "mine"
        assert isinstance(await abandoned_call, CallTimeout)
        assert ext.stats.pid != pid


async def test_a_first_start_that_times_out_is_reported_to_the_call_that_caused_it() -> None:
    async with closed_at_end(make_extension("old")) as ext:  # it has another protocol
        error = await error_of(ext.call("say", 1))
        assert isinstance(error, HandshakeFailed)


# -- invalid output and crashes ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        ("garble", "X0602", "its answer to garble"),
        ("overrun", "X0601", "4,294,967,295"),  # the length of its frame, over the limit
    ],
)
async def test_unreadable_output_ends_the_process(method: str, code: str, text: str) -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        pid = ext.stats.pid
        error = await error_of(ext.call(method))
        assert isinstance(error, ProtocolViolation)
        assert error.code == code and text in error.message
        assert error.extension == "toy"
        assert await ext.call("say", 1) == 1
        assert ext.stats.pid != pid


async def test_an_answer_without_a_request_ends_the_process() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        pid = ext.stats.pid
        assert await ext.call("twice", "right") == "right"
        await wait_until(lambda: ext.stats.pid != pid)
        assert isinstance(ext.cause, ProtocolViolation)
        assert await ext.call("say", "mine") == "mine"


async def test_a_child_that_dies_between_two_exchanges_is_reported_and_replaced() -> None:
    async with closed_at_end(make_extension()) as ext:
        error = await error_of(ext.call("make", "fatal"))
        assert isinstance(error, ExtensionGone)
        assert error.evidence.exit == "exited with 3"
        assert error.evidence.stderr == ("the build broke me",)
        assert await ext.call("say", 1) == 1


async def test_the_error_of_a_child_that_dies_inside_a_frame_has_the_byte_counts() -> None:
    async with closed_at_end(make_extension()) as ext:
        error = await error_of(ext.call("die", 4))
        assert isinstance(error, ExtensionGone)
        assert error.evidence.exit == "exited with 4"
        assert "18 of 100 bytes" in error.message


async def test_a_request_over_the_limit_is_not_sent() -> None:
    async with closed_at_end(make_extension(max_message=1000)) as ext:
        await ext.start()
        pid = ext.stats.pid
        error = await error_of(ext.call("say", "x" * 1000))
        assert isinstance(error, UsageError) and error.code == "X1303"
        # The codec expects no answer to the refused request.
        assert await ext.call("say", "next") == "next"
        assert ext.stats.pid == pid
        assert await ext.call("heard") == [["say", len('say "next"')]]
        error = await error_of(ext.call("garble"))
        assert "its answer to garble" in error.message


async def test_a_value_that_cannot_be_encoded_is_refused() -> None:
    async with closed_at_end(make_extension()) as ext:
        error = await error_of(ext.call("say", object()))
        assert isinstance(error, UsageError) and error.code == "X1302"
        assert await ext.call("say", "next") == "next"


async def test_a_dialect_with_fixed_methods_sends_no_other_methods() -> None:
    async with closed_at_end(make_extension()) as ext:
        await ext.start()
        error = await error_of(ext.call("build", {}))
        assert isinstance(error, NotFound) and "make" in error.help
        assert await ext.call("heard") == []


async def test_without_ending_the_process_a_late_answer_would_be_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This shows that the tests above can fail: without the end of the process they would."""

    def only_forget(conversation: Conversation, call: Call, reason: str) -> list[Effect]:
        conversation.requests.forget(call)
        return []

    monkeypatch.setattr(Conversation, "abandon", only_forget)
    async with closed_at_end(make_extension()) as ext:
        await ext.start()  # so that the time limit does not include the start
        await error_of(ext.call("hold", "late", timeout=0.3))
        assert await ext.call("say", "mine") == "late"
