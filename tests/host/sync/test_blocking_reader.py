"""Threads of blocking callers that read their replies themselves.

The blocking API runs an event loop in a thread of its own. Waking this thread for each reply would
cost more than the call, so the event loop lends a calling thread the stdout pipe of the extension:
this is a loan. The loop takes the pipe back if it is not used, or if there is other output than the
reply that the thread waits for.
"""

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
from tests.host.sync.test_sync_facets import run_when_waiting
from tests.host.sync.test_sync_host import hostile
from tests.host.test_host import config

pytestmark = pytest.mark.skipif(not CAN_LEND, reason="this system has no eventfd")

SECONDS = 60.0  # the limit of each wait, generous for a busy machine


def reader_of(ext: SyncExtension) -> StdoutReader:
    """Return the reader of the only process of this extension."""
    [session] = ext._target.internals.queue.sessions
    return session._reader


def call_until_lent(ext: SyncExtension) -> StdoutLoan:
    """Make calls until the caller reads its replies itself; return the loan."""
    for n in range(10_000):
        assert ext.call("echo", n, timeout=SECONDS) == n
        loan = reader_of(ext).loan
        if loan is not None and loan.reads:
            return loan
    raise AssertionError("the pipe was not lent")


@contextmanager
def open_host(**settings: Any) -> Iterator[tuple[exthost.SyncHost, SyncExtension]]:
    """Yield a blocking host and its only extension."""
    with exthost.SyncHost.from_config(config(hostile(**settings))) as host:
        yield host, host["h"]


@pytest.fixture
def always_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the event loop lend the pipe after each call that it handles itself."""
    monkeypatch.setattr(blocking_reader, "_FIRST_CALLS", 1)
    monkeypatch.setattr(blocking_reader, "_MAX_CALLS", 1)


@pytest.fixture
def keeps_unused_loans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not let the event loop take the pipe back because it is not used."""
    monkeypatch.setattr(blocking_reader, "_UNUSED_SECONDS", 3600.0)


def test_after_a_few_calls_the_caller_reads_its_replies(keeps_unused_loans: None) -> None:
    with open_host() as (_, ext):
        before = call_until_lent(ext).reads
        for n in range(200):
            assert ext.call("echo", {"n": n}, timeout=SECONDS) == {"n": n}
            assert ext.call_tool("echo", {"n": n}, timeout=SECONDS).data == {"n": n}
        loan = reader_of(ext).loan
        assert loan is not None and loan.reads == before + 400
        stats = ext.stats
        assert stats.calls == stats.result and stats.in_flight == 0
        assert stats.result >= 400 + before


def test_without_calls_the_event_loop_takes_the_pipe_back() -> None:
    with open_host() as (_, ext):
        call_until_lent(ext)
        wait_until(lambda: reader_of(ext).is_reading)
        assert reader_of(ext).loan is None
        assert ext.call("echo", 1, timeout=SECONDS) == 1


@pytest.mark.parametrize("threads", [2, 8])
def test_calls_of_many_threads_get_their_own_results(threads: int, always_lent: None) -> None:
    calls = 300
    with open_host() as (_, ext), ThreadPoolExecutor(threads) as pool:

        def make_calls(thread: int) -> int:
            for n in range(calls):
                assert ext.call("echo", [thread, n], timeout=SECONDS) == [thread, n]
            return calls

        assert sum(pool.map(make_calls, range(threads))) == threads * calls
        stats = ext.stats
        assert (stats.result, stats.calls, stats.in_flight) == (threads * calls, threads * calls, 0)


@pytest.mark.more
@pytest.mark.sampled
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
    with open_host() as (_, ext):
        expected = ext.call(method, params, timeout=SECONDS)  # read by the event loop
        for _ in range(10):
            call_until_lent(ext)
            assert ext.call(method, params, timeout=SECONDS) == expected
            assert ext.call("echo", 2, timeout=SECONDS) == 2
        assert ext.stats.result == ext.stats.calls


def test_no_log_message_is_lost_and_the_order_is_kept(always_lent: None) -> None:
    with open_host() as (host, ext):
        log_lines: list[str] = []
        host.events.subscribe(LogLine, lambda event: log_lines.append(event.text))
        for n in range(200):
            ext.call("log", {"level": "info", "message": f"line {n}"}, timeout=SECONDS)
            assert ext.call("echo", n, timeout=SECONDS) == n
        host.flush_events()
        wait_until(lambda: len(log_lines) >= 200)
        assert log_lines == [f"line {n}" for n in range(200)]


def test_an_error_reply_is_raised_and_counted() -> None:
    with open_host() as (_, ext):
        call_until_lent(ext)
        with pytest.raises(errors.CallFailed, match="no, thanks"):
            ext.call("refuse", {"text": "no, thanks"}, timeout=SECONDS)
        assert ext.stats.error == 1
        assert ext.call("echo", 1, timeout=SECONDS) == 1


@pytest.mark.parametrize("method", ["leave", "killed", "half", "close_stdout", "half_and_live"])
def test_a_process_that_ends_during_the_read_ends_the_call(method: str) -> None:
    with open_host(restart={"strategy": "immediate"}) as (_, ext):
        call_until_lent(ext)
        with pytest.raises(errors.ExtensionGone):
            ext.call(method, {"code": 3, "signal": 9}, timeout=SECONDS)
        assert ext.call("echo", 1, timeout=SECONDS) == 1
        assert (ext.stats.gone, ext.stats.in_flight) == (1, 0)


def test_a_late_reply_does_not_affect_the_next_call() -> None:
    with open_host() as (_, ext):
        for _ in range(3):
            call_until_lent(ext)
            with pytest.raises(errors.CallTimeout):
                ext.call("keep", timeout=0.05)
            assert ext.call("release", timeout=SECONDS) == 1
            assert ext.call("echo", 1, timeout=SECONDS) == 1
        assert ext.stats.timeout == 3 and ext.stats.in_flight == 0


@pytest.mark.parametrize("timeout", [0, 1e-6, -1.0])
def test_a_time_limit_that_has_passed_ends_the_call(
    timeout: float, keeps_unused_loans: None
) -> None:
    with open_host() as (_, ext):
        call_until_lent(ext)
        with pytest.raises(errors.CallTimeout):
            ext.call("keep", timeout=timeout)
        assert ext.call("echo", 1, timeout=SECONDS) == 1


def test_without_a_free_descriptor_the_event_loop_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def eventfd(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with open_host() as (_, ext):
        monkeypatch.setattr(os, "eventfd", eventfd)
        for n in range(20):
            assert ext.call("echo", n, timeout=SECONDS) == n
        assert reader_of(ext).is_reading and reader_of(ext).loan is None


def test_a_subscriber_gets_every_later_call(keeps_unused_loans: None) -> None:
    with open_host() as (host, ext):
        call_until_lent(ext)
        event_counts: Counter[str] = Counter()
        unsubscribe_functions = [
            host.events.subscribe(kind, lambda event: event_counts.update([type(event).__name__]))
            for kind in (CallStarted, CallEnded)
        ]
        for n in range(20):
            assert ext.call("echo", n, timeout=SECONDS) == n
        host.flush_events()
        assert event_counts == {"CallStarted": 20, "CallEnded": 20}
        for unsubscribe in unsubscribe_functions:
            unsubscribe()


def test_a_trace_gets_every_later_message(keeps_unused_loans: None) -> None:
    with open_host() as (host, ext):
        call_until_lent(ext)
        records: list[TraceRecord] = []
        unsubscribe = host.traffic.subscribe(records.append)
        for n in range(20):
            assert ext.call("echo", n, timeout=SECONDS) == n
        host.flush_events()
        unsubscribe()
        frames = Counter(record.direction for record in records)
        assert frames == {"sent": 20, "received": 20}
        call_until_lent(ext)


def test_an_exception_of_a_signal_handler_leaves_a_working_host(
    keeps_unused_loans: None,
) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with open_host() as (_, ext):
            for _ in range(3):
                loan = call_until_lent(ext)
                # Another thread sends the signal when this thread waits in `read_reply`.
                send = partial(os.kill, os.getpid(), signal.SIGUSR1)
                thread = run_when_waiting(send, BlockingReader.read_reply.__name__)
                with pytest.raises(Interrupted):
                    ext.call("keep", timeout=3600)
                thread.join()
                assert not (loan.turn.locked() or loan.busy.locked())
                assert ext.call("echo", 1, timeout=SECONDS) == 1
            # The event loop cancels the calls; it does not handle the calls after them.
            wait_until(lambda: (ext.stats.cancelled, ext.stats.in_flight) == (3, 0))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_exception_of_a_signal_handler_during_decoding_is_raised_in_the_caller(
    keeps_unused_loans: None,
) -> None:
    with open_host() as (_, ext):
        call_until_lent(ext)
        [session] = ext._target.internals.queue.sessions
        conversation = session.conversation
        decode = conversation.decode

        def decode_and_raise(frame: Bytes) -> Any:  # a signal handler could run at this point
            conversation.decode = decode
            raise TimeoutError("a time limit of the program")

        conversation.decode = decode_and_raise
        with pytest.raises(TimeoutError, match="of the program"):
            ext.call("echo", 1, timeout=SECONDS)
        assert ext.call("echo", 2, timeout=SECONDS) == 2
        assert ext.stats.in_flight == 0


def test_an_exception_of_the_dialect_during_decoding_is_handled_by_the_event_loop(
    keeps_unused_loans: None,
) -> None:
    with open_host() as (_, ext):
        call_until_lent(ext)
        [session] = ext._target.internals.queue.sessions
        conversation = session.conversation
        decode = conversation.decode

        def raise_key_error(frame: Bytes) -> Any:
            conversation.decode = decode
            raise KeyError("id")

        conversation.decode = raise_key_error
        assert ext.call("echo", 1, timeout=SECONDS) == 1


def call_in_other_thread(ext: SyncExtension) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(ext.call, "echo", "nested", timeout=SECONDS).result()


@pytest.mark.parametrize(
    "use",
    [
        lambda ext: ext.call("echo", "nested", timeout=SECONDS),
        lambda ext: ext.call("echo", "nested", timeout=SECONDS, wait=False),
        lambda ext: ext.check_health(timeout=SECONDS) and "nested",
        call_in_other_thread,
    ],
)
def test_a_signal_handler_may_use_the_host_while_its_thread_reads(
    use: Callable[[SyncExtension], Any], keeps_unused_loans: None
) -> None:
    results: list[Any] = []
    with open_host() as (_, ext):

        def call(number: int, frame: FrameType | None) -> None:
            results.append(use(ext))
            results.append(ext.call("release", timeout=SECONDS))

        before = signal.signal(signal.SIGUSR1, call)
        try:
            for _ in range(3):
                call_until_lent(ext)
                send = partial(os.kill, os.getpid(), signal.SIGUSR1)
                thread = run_when_waiting(send, BlockingReader.read_reply.__name__)
                # The signal handler makes the extension reply to this call.
                ext.call("keep", timeout=SECONDS)
                thread.join()
                assert results[-2] == "nested"
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert ext.stats.result == ext.stats.calls


def test_a_signal_handler_may_use_the_host_while_its_thread_handles_a_reply(
    keeps_unused_loans: None,
) -> None:
    with open_host() as (_, ext):
        call_until_lent(ext)
        queue = ext._target.internals.queue
        may_complete = queue.may_complete_on_thread

        def use_host_and_decide(value: Any) -> bool:  # a signal handler could run at this point
            queue.may_complete_on_thread = may_complete
            assert call_in_other_thread(ext) == "nested"
            assert ext.check_health(timeout=SECONDS) is not None
            return may_complete(value)

        queue.may_complete_on_thread = use_host_and_decide
        assert ext.call("echo", 1, timeout=SECONDS) == 1
        assert ext.stats.result == ext.stats.calls and ext.stats.in_flight == 0


def test_later_bytes_do_not_overtake_bytes_that_a_thread_left_to_the_loop(
    keeps_unused_loans: None,
) -> None:
    with open_host() as (_, ext), ThreadPoolExecutor(3) as pool:
        call_until_lent(ext)
        [session] = ext._target.internals.queue.sessions
        loop_is_blocked, may_continue = threading.Event(), threading.Event()

        def occupy_the_loop() -> None:
            loop_is_blocked.set()
            may_continue.wait(SECONDS)

        session.loop.call_soon_threadsafe(occupy_the_loop)
        assert loop_is_blocked.wait(SECONDS)  # the event loop cannot take the pipe back
        # The extension answers both calls of `together` in one write. The thread of the first call
        # gets the reply to the second, which it must leave to the loop.
        first = pool.submit(ext.call, "together", {"of": 2, "n": 1}, timeout=SECONDS)
        wait_until(lambda: len(session.pending) == 1)
        second = pool.submit(ext.call, "together", {"of": 2, "n": 2}, timeout=SECONDS)
        loan = reader_of(ext).loan
        assert loan is not None
        wait_until(lambda: loan.is_over)
        third = pool.submit(ext.call, "echo", 3, timeout=SECONDS)
        wait_until(lambda: len(session.pending) == 3)
        may_continue.set()
        assert [first.result(), second.result(), third.result()] == [1, 2, 3]


def test_a_call_of_several_requests_is_handled_by_the_event_loop(
    keeps_unused_loans: None,
) -> None:
    def steps() -> Exchanges:
        yield Request("echo", 1)
        return None

    with open_host() as (_, ext):
        loan = call_until_lent(ext)
        reader = ext._target.internals.queue.sessions[0].blocking_reader
        assert reader is not None
        call = Call("echo", 1, GeneratorHandler(steps()), SECONDS, 0.0)
        assert reader.read_reply(call, 0) is blocking_reader.NO_REPLY
        assert reader_of(ext).loan is loan and not loan.is_over  # it is used by later calls


def test_a_session_that_ends_while_a_reply_is_handled_ends_its_call_once() -> None:
    with open_host(restart={"strategy": "immediate"}) as (_, ext):
        call_until_lent(ext)
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
    """An exception of a signal handler."""


def run_interrupted(function: Callable[[], None], line: int) -> bool:
    """Run the function, and raise TimeLimit before its n-th executed line (`line`), as a signal
    handler could. Return whether the function executed that many lines."""
    remaining = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal remaining
        if event == "line":
            remaining -= 1
            if remaining == 0:
                raise TimeLimit
        return trace

    before = sys.gettrace()
    gc.disable()  # exceptions in a `__del__` method are not raised
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
        gc.enable()
    return remaining <= 0


def test_an_exception_of_a_signal_handler_is_raised_from_every_line_of_a_loan_request() -> None:
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
    assert line > 10  # the function has more than ten lines, so some of them were interrupted


def test_after_close_another_thread_with_the_same_id_is_not_the_loop_thread() -> None:
    with open_host() as (host, ext):
        host.close()
        thread: Any = ext._loop_thread._thread
        thread._ident = threading.get_ident()  # the system can reuse the id for another thread
        with pytest.raises(errors.UsageError) as caught:
            ext.call("echo", 1, timeout=SECONDS)
        assert caught.value.code == "X1315"


def test_another_thread_may_close_the_host_during_a_read(keeps_unused_loans: None) -> None:
    with open_host() as (host, ext):
        call_until_lent(ext)
        thread = run_when_waiting(host.close, BlockingReader.read_reply.__name__)
        with pytest.raises(errors.ExthostError):
            ext.call("keep", timeout=3600)
        thread.join()


def test_a_restart_or_a_health_check_takes_the_pipe_back(keeps_unused_loans: None) -> None:
    with open_host(lifetime="plain") as (_, ext):
        call_until_lent(ext)
        assert ext.check_health(timeout=SECONDS) is not None
        call_until_lent(ext)
        pids = {ext.call("pid", timeout=SECONDS)}
        ext.restart()
        pids.add(ext.call("pid", timeout=SECONDS))
        assert len(pids) == 2
        call_until_lent(ext)


def test_until_idle_returns_when_a_thread_completes_the_last_call(
    keeps_unused_loans: None,
) -> None:
    with open_host() as (_, ext), ThreadPoolExecutor(2) as pool:
        call_until_lent(ext)
        queue = ext._target.internals.queue
        [session] = queue.sessions
        may_complete = queue.may_complete_on_thread

        def wait_and_decide(value: Any) -> bool:
            wait_until(lambda: session._idle is not None)
            return may_complete(value)

        queue.may_complete_on_thread = wait_and_decide
        call = pool.submit(ext.call, "echo", 7, timeout=SECONDS)
        wait_until(lambda: len(session.pending) == 1)
        pool.submit(ext._loop_thread.run, session.until_idle).result(SECONDS)
        assert call.result(SECONDS) == 7


def test_the_pipes_of_a_pool_are_not_lent() -> None:
    with open_host(pool={"min": 1, "max": 2}) as (_, ext):
        for n in range(50):
            assert ext.call("echo", n, timeout=SECONDS) == n
        assert all(
            session.blocking_reader is None for session in ext._target.internals.queue.sessions
        )


def count_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_descriptors_are_closed_after_loans(always_lent: None) -> None:
    with open_host() as (_, ext):
        call_until_lent(ext)
        ext.check_health(timeout=SECONDS)
        before = count_descriptors()
        for _ in range(20):
            call_until_lent(ext)
            ext.check_health(timeout=SECONDS)
        wait_until(lambda: count_descriptors() <= before + 1)
