"""Blocking callers that read their replies themselves, from a pipe that the event loop has lent."""

import errno
import gc
import itertools
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

import exthost
from exthost import errors
from exthost.dialects.steps import Exchanges
from exthost.events import CallEnded, CallStarted, LogLine
from exthost.host.sync.sync_extension import SyncExtension
from exthost.model.messages import Request
from exthost.process.stdout_loan import CAN_LEND, StdoutLoan
from exthost.process.stdout_reader import StdoutReader
from exthost.session import blocking_reader
from exthost.session.blocking_reader import BlockingReader
from exthost.session.call import Call
from exthost.session.replies import GeneratorHandler
from exthost.session.trace.record import TraceRecord
from exthost.wire.framing import Bytes
from tests.extension.test_interrupting import wait_until
from tests.host.sync.test_sync_facets import when_it_waits
from tests.host.sync.test_sync_host import hostile
from tests.host.test_host import config

pytestmark = pytest.mark.skipif(not CAN_LEND, reason="this system has no eventfd")

SECONDS = 60.0


def reader_of(ext: SyncExtension) -> StdoutReader:
    """Return the reader of the only process of this extension."""
    [session] = ext._target.internals.queue.sessions
    return session._reader


def lend(ext: SyncExtension) -> StdoutLoan:
    """Call until the caller reads its replies itself; return the loan."""
    for n in range(10_000):
        assert ext.call("echo", n, timeout=SECONDS) == n
        loan = reader_of(ext).loan
        if loan is not None and loan.reads:
            return loan
    raise AssertionError("the pipe was not lent")


@contextmanager
def opened(**settings: Any) -> Iterator[tuple[exthost.SyncHost, SyncExtension]]:
    with exthost.SyncHost.from_config(config(hostile(**settings))) as host:
        yield host, host["h"]


@pytest.fixture
def always_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop lends the pipe after each call that it handles itself."""
    monkeypatch.setattr(blocking_reader, "_FIRST_CALLS", 1)
    monkeypatch.setattr(blocking_reader, "_MAX_CALLS", 1)


@pytest.fixture
def never_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop does not take the pipe back because nobody reads."""
    monkeypatch.setattr(blocking_reader, "_UNUSED_SECONDS", 3600.0)


def test_after_a_few_calls_the_caller_reads_and_every_call_is_counted(never_unused: None) -> None:
    with opened() as (_, ext):
        before = lend(ext).reads
        for n in range(200):
            assert ext.call("echo", {"n": n}, timeout=SECONDS) == {"n": n}
            assert ext.call_tool("echo", {"n": n}, timeout=SECONDS).data == {"n": n}
        loan = reader_of(ext).loan
        assert loan is not None and loan.reads == before + 400
        stats = ext.stats
        assert stats.calls == stats.result and stats.in_flight == 0
        assert stats.result >= 400 + before


def test_without_calls_the_event_loop_takes_the_pipe_back() -> None:
    with opened() as (_, ext):
        lend(ext)
        wait_until(lambda: reader_of(ext).is_reading)
        assert reader_of(ext).loan is None
        assert ext.call("echo", 1, timeout=SECONDS) == 1


@pytest.mark.parametrize("threads", [2, 8])
def test_calls_of_many_threads_get_their_own_results(threads: int, always_lent: None) -> None:
    calls = 300
    with opened() as (_, ext), ThreadPoolExecutor(threads) as pool:

        def work(thread: int) -> int:
            for n in range(calls):
                assert ext.call("echo", [thread, n], timeout=SECONDS) == [thread, n]
            return calls

        assert sum(pool.map(work, range(threads))) == threads * calls
        stats = ext.stats
        assert (stats.result, stats.calls, stats.in_flight) == (threads * calls, threads * calls, 0)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("twice", None),
        ("old_id", None),
        ("unknown_id", None),
        ("odd_ids", None),
        ("garbage", None),
        ("loris", "slow"),
        ("log", {"level": "info", "message": "hello"}),
        ("notices", {"thousands": 1}),
        ("huge", {"bytes": 300_000}),
        ("huge_noise", {"bytes": 300_000}),
    ],
)
def test_other_output_is_handled_by_the_event_loop(
    method: str, params: Any, always_lent: None
) -> None:
    with opened() as (_, ext):
        usual = ext.call(method, params, timeout=SECONDS)  # read by the event loop
        for _ in range(10):
            lend(ext)
            assert ext.call(method, params, timeout=SECONDS) == usual
            assert ext.call("echo", 2, timeout=SECONDS) == 2
        assert ext.stats.result == ext.stats.calls


def test_no_log_message_is_lost_and_they_keep_their_order(always_lent: None) -> None:
    with opened() as (host, ext):
        observed: list[str] = []
        host.events.subscribe(LogLine, lambda event: observed.append(event.text))
        for n in range(200):
            ext.call("log", {"level": "info", "message": f"line {n}"}, timeout=SECONDS)
            assert ext.call("echo", n, timeout=SECONDS) == n
        host.flush_events()
        wait_until(lambda: len(observed) >= 200)
        assert observed == [f"line {n}" for n in range(200)]


def test_an_error_reply_is_raised_and_counted() -> None:
    with opened() as (_, ext):
        lend(ext)
        with pytest.raises(errors.CallFailed, match="no, thanks"):
            ext.call("refuse", {"text": "no, thanks"}, timeout=SECONDS)
        assert ext.stats.error == 1
        assert ext.call("echo", 1, timeout=SECONDS) == 1


@pytest.mark.parametrize("method", ["leave", "killed", "half", "close_stdout", "half_and_live"])
def test_a_process_that_ends_during_the_read_ends_the_call(method: str) -> None:
    with opened(restart={"strategy": "immediate"}) as (_, ext):
        lend(ext)
        with pytest.raises(errors.ExtensionGone):
            ext.call(method, {"code": 3, "signal": 9}, timeout=SECONDS)
        assert ext.call("echo", 1, timeout=SECONDS) == 1
        assert (ext.stats.gone, ext.stats.in_flight) == (1, 0)


def test_a_reply_that_is_too_late_does_not_disturb_the_next_call() -> None:
    with opened() as (_, ext):
        for _ in range(3):
            lend(ext)
            with pytest.raises(errors.CallTimeout):
                ext.call("keep", timeout=0.05)
            assert ext.call("release", timeout=SECONDS) == 1
            assert ext.call("echo", 1, timeout=SECONDS) == 1
        assert ext.stats.timeout == 3 and ext.stats.in_flight == 0


@pytest.mark.parametrize("timeout", [0, 1e-6, -1.0])
def test_a_time_limit_that_is_over_ends_the_call(timeout: float, never_unused: None) -> None:
    with opened() as (_, ext):
        lend(ext)
        with pytest.raises(errors.CallTimeout):
            ext.call("keep", timeout=timeout)
        assert ext.call("echo", 1, timeout=SECONDS) == 1


def test_without_a_free_descriptor_the_event_loop_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def eventfd(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with opened() as (_, ext):
        monkeypatch.setattr(os, "eventfd", eventfd)
        for n in range(20):
            assert ext.call("echo", n, timeout=SECONDS) == n
        assert reader_of(ext).is_reading and reader_of(ext).loan is None


def test_a_subscriber_sees_every_later_call(never_unused: None) -> None:
    with opened() as (host, ext):
        lend(ext)
        observed: Counter[str] = Counter()
        ends = [
            host.events.subscribe(kind, lambda event: observed.update([type(event).__name__]))
            for kind in (CallStarted, CallEnded)
        ]
        for n in range(20):
            assert ext.call("echo", n, timeout=SECONDS) == n
        host.flush_events()
        assert observed == {"CallStarted": 20, "CallEnded": 20}
        for end in ends:
            end()


def test_a_trace_sees_every_later_message(never_unused: None) -> None:
    with opened() as (host, ext):
        lend(ext)
        records: list[TraceRecord] = []
        end = host.traffic.subscribe(records.append)
        for n in range(20):
            assert ext.call("echo", n, timeout=SECONDS) == n
        host.flush_events()
        end()
        frames = Counter(record.direction for record in records)
        assert frames == {"sent": 20, "received": 20}
        lend(ext)


def test_an_exception_of_a_signal_handler_leaves_a_working_host(never_unused: None) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with opened() as (_, ext):
            for _ in range(3):
                loan = lend(ext)
                send = partial(os.kill, os.getpid(), signal.SIGUSR1)
                thread = when_it_waits(send, BlockingReader.read_reply.__name__)
                with pytest.raises(Interrupted):
                    ext.call("keep", timeout=3600)
                thread.join()
                assert not (loan.turn.locked() or loan.busy.locked())
                assert ext.call("echo", 1, timeout=SECONDS) == 1
            # The event loop cancels the calls, and does not take part in what follows them.
            wait_until(lambda: (ext.stats.cancelled, ext.stats.in_flight) == (3, 0))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_exception_of_a_signal_handler_at_the_reply_is_raised_in_the_caller(
    never_unused: None,
) -> None:
    with opened() as (_, ext):
        lend(ext)
        [session] = ext._target.internals.queue.sessions
        conversation = session.conversation
        decode = conversation.decode

        def interrupted(frame: Bytes) -> Any:  # as if a handler ran at this point
            conversation.decode = decode
            raise TimeoutError("a time limit of the program")

        conversation.decode = interrupted
        with pytest.raises(TimeoutError, match="of the program"):
            ext.call("echo", 1, timeout=SECONDS)
        assert ext.call("echo", 2, timeout=SECONDS) == 2
        assert ext.stats.in_flight == 0


def test_a_mistake_of_the_dialect_at_the_reply_is_left_to_the_event_loop(
    never_unused: None,
) -> None:
    with opened() as (_, ext):
        lend(ext)
        [session] = ext._target.internals.queue.sessions
        conversation = session.conversation
        decode = conversation.decode

        def mistake(frame: Bytes) -> Any:
            conversation.decode = decode
            raise KeyError("id")

        conversation.decode = mistake
        assert ext.call("echo", 1, timeout=SECONDS) == 1


def call_in_worker(ext: SyncExtension) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(ext.call, "echo", "nested", timeout=SECONDS).result()


@pytest.mark.parametrize(
    "use",
    [
        lambda ext: ext.call("echo", "nested", timeout=SECONDS),
        lambda ext: ext.call("echo", "nested", timeout=SECONDS, wait=False),
        lambda ext: ext.check_health(timeout=SECONDS) and "nested",
        call_in_worker,
    ],
)
def test_a_signal_handler_may_use_the_host_while_its_thread_reads(
    use: Callable[[SyncExtension], Any], never_unused: None
) -> None:
    results: list[Any] = []
    with opened() as (_, ext):

        def call(number: int, frame: FrameType | None) -> None:
            results.append(use(ext))
            results.append(ext.call("release", timeout=SECONDS))

        before = signal.signal(signal.SIGUSR1, call)
        try:
            for _ in range(3):
                lend(ext)
                send = partial(os.kill, os.getpid(), signal.SIGUSR1)
                thread = when_it_waits(send, BlockingReader.read_reply.__name__)
                ext.call("keep", timeout=SECONDS)  # the handler makes the child reply to it
                thread.join()
                assert results[-2] == "nested"
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert ext.stats.result == ext.stats.calls


def test_a_signal_handler_may_use_the_host_while_its_thread_handles_a_reply(
    never_unused: None,
) -> None:
    with opened() as (_, ext):
        lend(ext)
        queue = ext._target.internals.queue
        may_complete = queue.may_complete_on_thread

        def interrupted(value: Any) -> bool:  # as if a handler ran at this point
            queue.may_complete_on_thread = may_complete
            assert call_in_worker(ext) == "nested"
            assert ext.check_health(timeout=SECONDS) is not None
            return may_complete(value)

        queue.may_complete_on_thread = interrupted
        assert ext.call("echo", 1, timeout=SECONDS) == 1
        assert ext.stats.result == ext.stats.calls and ext.stats.in_flight == 0


def test_bytes_that_one_thread_declines_are_not_passed_by_another(never_unused: None) -> None:
    with opened() as (_, ext), ThreadPoolExecutor(3) as pool:
        lend(ext)
        [session] = ext._target.internals.queue.sessions
        busy, free = threading.Event(), threading.Event()

        def occupy_the_loop() -> None:
            busy.set()
            free.wait(SECONDS)

        session.loop.call_soon_threadsafe(occupy_the_loop)
        assert busy.wait(SECONDS)  # the event loop cannot take the pipe back
        first = pool.submit(ext.call, "together", {"of": 2, "n": 1}, timeout=SECONDS)
        wait_until(lambda: len(session.pending) == 1)
        second = pool.submit(ext.call, "together", {"of": 2, "n": 2}, timeout=SECONDS)
        loan = reader_of(ext).loan
        assert loan is not None
        wait_until(lambda: loan.is_over)
        third = pool.submit(ext.call, "echo", 3, timeout=SECONDS)
        wait_until(lambda: len(session.pending) == 3)
        free.set()
        assert [first.result(), second.result(), third.result()] == [1, 2, 3]


def test_a_call_of_several_requests_is_left_to_the_event_loop(never_unused: None) -> None:
    def steps() -> Exchanges:
        yield Request("echo", 1)
        return None

    with opened() as (_, ext):
        loan = lend(ext)
        reading = ext._target.internals.queue.sessions[0].blocking_reader
        assert reading is not None
        call = Call("echo", 1, GeneratorHandler(steps()), SECONDS, 0.0)
        assert reading.read_reply(call, 0) is blocking_reader.NO_REPLY
        assert reader_of(ext).loan is loan and not loan.is_over


def test_a_session_that_ends_while_a_reply_is_handled_ends_its_call_once() -> None:
    with opened(restart={"strategy": "immediate"}) as (_, ext):
        lend(ext)
        before = ext.stats
        queue = ext._target.internals.queue
        [session] = queue.sessions
        may_complete = queue.may_complete_on_thread

        def abort_first(value: Any) -> bool:
            queue.may_complete_on_thread = may_complete
            ext._loop_thread.run_plain(session.abort)
            return may_complete(value)

        queue.may_complete_on_thread = abort_first
        with pytest.raises(errors.ExtensionGone):
            ext.call("echo", 1, timeout=SECONDS)
        after = ext.stats
        assert (after.result - before.result, after.gone - before.gone) == (0, 1)
        assert ext.call("echo", 2, timeout=SECONDS) == 2


class TimeLimit(Exception):
    """What a signal handler raises."""


def run_interrupted(function: Callable[[], None], line: int) -> bool:
    """Run this function and raise TimeLimit before its line of this number, in the order of the
    run, as a signal handler can at any line. Return whether there was such a line."""
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                raise TimeLimit
        return trace

    before = sys.gettrace()
    gc.disable()  # Python drops what a line of a `__del__` raises
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
        gc.enable()
    return left <= 0


def test_an_exception_of_a_signal_handler_comes_out_of_each_line_of_a_request_for_a_loan() -> None:
    busy_loop = SimpleNamespace(call_soon_threadsafe=lambda function: None)
    owner: Any = SimpleNamespace(loop=busy_loop)
    conversation: Any = SimpleNamespace(decode=None)
    reader: Any = SimpleNamespace(loan=None)

    def request_loan() -> None:
        callers = BlockingReader(reader, conversation, owner)
        for _ in range(3):
            callers.count_call()
        assert callers._is_requested

    for line in itertools.count(1):
        try:
            was_reached = run_interrupted(request_loan, line)
        except TimeLimit:
            continue
        assert not was_reached
        break
    assert line > 10


def test_after_close_no_thread_is_taken_for_that_of_the_loop() -> None:
    with opened() as (host, ext):
        host.close()
        thread: Any = ext._loop_thread._thread
        thread._ident = threading.get_ident()  # the system may give its number to another thread
        with pytest.raises(errors.UsageError) as caught:
            ext.call("echo", 1, timeout=SECONDS)
        assert caught.value.code == "X1315"


def test_another_thread_may_close_the_host_during_a_read(never_unused: None) -> None:
    with opened() as (host, ext):
        lend(ext)
        thread = when_it_waits(host.close, BlockingReader.read_reply.__name__)
        with pytest.raises(errors.ExthostError):
            ext.call("keep", timeout=3600)
        thread.join()


def test_a_restart_and_a_check_by_the_event_loop_take_the_pipe_back(never_unused: None) -> None:
    with opened(lifetime="plain") as (_, ext):
        lend(ext)
        assert ext.check_health(timeout=SECONDS) is not None
        lend(ext)
        pids = {ext.call("pid", timeout=SECONDS)}
        ext.restart()
        pids.add(ext.call("pid", timeout=SECONDS))
        assert len(pids) == 2
        lend(ext)


def test_a_waiter_for_the_last_call_is_woken_if_a_thread_ends_it(never_unused: None) -> None:
    with opened() as (_, ext), ThreadPoolExecutor(2) as pool:
        lend(ext)
        queue = ext._target.internals.queue
        [session] = queue.sessions
        may_complete = queue.may_complete_on_thread

        def decide_late(value: Any) -> bool:
            wait_until(lambda: session._idle is not None)
            return may_complete(value)

        queue.may_complete_on_thread = decide_late
        call = pool.submit(ext.call, "echo", 7, timeout=SECONDS)
        wait_until(lambda: len(session.pending) == 1)
        pool.submit(ext._loop_thread.run, session.until_idle).result(SECONDS)
        assert call.result(SECONDS) == 7


def test_a_pool_does_not_lend() -> None:
    with opened(pool={"min": 1, "max": 2}) as (_, ext):
        for n in range(50):
            assert ext.call("echo", n, timeout=SECONDS) == n
        assert all(
            session.blocking_reader is None for session in ext._target.internals.queue.sessions
        )


def count_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_descriptors_are_closed_after_loans(always_lent: None) -> None:
    with opened() as (_, ext):
        lend(ext)
        ext.check_health(timeout=SECONDS)
        before = count_descriptors()
        for _ in range(20):
            lend(ext)
            ext.check_health(timeout=SECONDS)
        wait_until(lambda: count_descriptors() <= before + 1)
