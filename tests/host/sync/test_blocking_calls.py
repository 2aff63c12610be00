"""Blocking calls in special cases: signals, callbacks, and unusual time limits.

A blocking call sends its request from the calling thread, and the event loop in another thread
receives the reply. The program `h` is the hostile extension of the tests: `keep` is never answered.
"""

import math
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from types import FrameType
from typing import Any

import pytest

import exthost
from exthost import errors
from exthost.events import CallEnded, HostEvent
from exthost.extension.call_queue import CallQueue
from exthost.host.sync.blocking_call import BlockingCall
from exthost.session.call import Call
from tests.host.sync.test_sync_facets import run_when_waiting
from tests.host.sync.test_sync_host import hostile
from tests.host.test_host import config, entry


class SoftTimeLimitExceeded(Exception):
    """An exception that a task queue raises in a signal handler if a task takes too long."""


@pytest.fixture(params=[SoftTimeLimitExceeded, SystemExit])
def raised_by_signal(request: pytest.FixtureRequest) -> Iterator[type[BaseException]]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise request.param

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield request.param
    signal.signal(signal.SIGUSR1, before)


def test_any_exception_of_a_signal_handler_cancels_the_call(
    raised_by_signal: type[BaseException],
) -> None:
    with exthost.SyncHost.from_config(config(hostile(limits={"max_in_flight": 1}))) as host:
        interrupt = partial(os.kill, os.getpid(), signal.SIGUSR1)
        thread = run_when_waiting(interrupt, BlockingCall.wait.__name__)
        with pytest.raises(raised_by_signal):
            host["h"].call("keep", timeout=3600)
        thread.join()
        # Only one call can be in flight; the next call is sent, so the first has ended.
        assert host["h"].call("echo", 1, timeout=60) == 1
        assert (host["h"].stats.cancelled, host["h"].stats.in_flight) == (1, 0)


def test_a_signal_between_the_request_and_the_wait_cancels_the_call(
    raised_by_signal: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = CallQueue.submit_threadsafe

    def submit_and_interrupt(queue: CallQueue, call: Call) -> None:
        submit(queue, call)
        signal.raise_signal(signal.SIGUSR1)

    with exthost.SyncHost.from_config(config(hostile(limits={"max_in_flight": 1}))) as host:
        with monkeypatch.context() as patched, pytest.raises(raised_by_signal):
            patched.setattr(CallQueue, "submit_threadsafe", submit_and_interrupt)
            host["h"].call("keep", timeout=3600)
        assert host["h"].call("echo", 1, timeout=60) == 1
        assert (host["h"].stats.cancelled, host["h"].stats.in_flight) == (1, 0)


@pytest.mark.parametrize("timeout", [0, -0.5])
def test_a_call_without_time_left_is_not_accepted(timeout: float) -> None:
    breaker = {"failures": 3, "open": "10m"}
    lazy = entry("lazy", start="lazy")
    with exthost.SyncHost.from_config(config(entry("a", breaker=breaker), lazy)) as host:
        for _ in range(5):
            for use in (
                partial(host["a"].call, "echo", 1),
                partial(host["a"].call_tool, "echo", {}),
                partial(host.call_tool, "ext_a_echo", {}),
                partial(host.call_tool, "ext_lazy_echo", {}),
            ):
                with pytest.raises(errors.CallTimeout, match="was not sent") as caught:
                    use(timeout=timeout)
                assert caught.value.code == "X0801"
        assert (host["a"].stats.calls, host["a"].stats.breaker) == (0, "closed")
        assert host["lazy"].state == "admitted"
        assert host.call_tool("ext_a_echo", {"n": 1}).data == {"n": 1}


def test_requests_of_the_loop_and_of_a_thread_have_different_ids() -> None:
    with (
        exthost.SyncHost.from_config(config(entry("a"))) as host,
        ThreadPoolExecutor() as threads,
    ):
        requests = host._target["a"].internals.queue.sessions[0].conversation.requests
        encode = requests._encode_request
        ids: list[Any] = []
        answers: list[Future[Any]] = []

        def encode_slowly(method: str, params: Any, id: Any) -> Any:
            ids.append(id)
            if not answers:  # the request of the loop; a thread sends another one meanwhile
                answers.append(threads.submit(host["a"].call, "echo", 1, timeout=5))
                wait(answers, timeout=0.3)
            return encode(method, params, id)

        requests._encode_request = encode_slowly
        host["a"].check_health(timeout=5)
        assert [answer.result() for answer in answers] == [1]
        assert len(ids) == len(set(ids)) == 2


def test_a_time_limit_may_be_longer_than_the_maximum_of_the_system() -> None:
    with exthost.SyncHost.from_config(config(entry("a"))) as host:
        for timeout in (math.inf, 1e300, 10**12):
            assert host["a"].call("echo", 1, timeout=timeout) == 1
            assert host.call_tool("ext_a_echo", {"n": 1}, timeout=timeout).data == {"n": 1}


def test_a_call_from_a_listener_fails_at_once_and_is_not_sent() -> None:
    codes: list[str] = []
    with exthost.SyncHost.from_config(config(entry("a"))) as host:

        def listen(_: object) -> None:
            for use in (
                lambda: host["a"].call("echo", 1),
                lambda: host["a"].call_tool("shout", {"text": "x"}),
                lambda: host.call_tool("ext_a_shout", {"text": "x"}),
            ):
                with pytest.raises(errors.UsageError) as caught:
                    use()
                codes.append(caught.value.code)

        unsubscribe = host.events.subscribe(CallEnded, listen)
        assert host["a"].call("echo", 2) == 2
        host.flush_events()  # after this, the loop has called the listener
        unsubscribe()
        assert codes == ["X1314"] * 3  # a blocking call on the loop would never return
        assert host["a"].stats.result == 1


@pytest.mark.parametrize("exception_class", [SystemExit, KeyboardInterrupt])
def test_the_host_continues_if_a_listener_raises_an_exit(
    exception_class: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def listen(_: object) -> None:
        raise exception_class("enough")

    with exthost.SyncHost.from_config(config(entry("a"))) as host:
        unsubscribe_functions = [
            host.events.subscribe(CallEnded, listen),
            host.events.subscribe(HostEvent, listen),
        ]
        assert [host["a"].call("echo", n, timeout=60) for n in range(3)] == [0, 1, 2]
        assert host.call_tool("ext_a_shout", {"text": "x"}, timeout=60).data == {"text": "X"}
        with pytest.raises(exception_class):
            host.emit("turn.started")
        host.flush_events()
        for unsubscribe in unsubscribe_functions:
            unsubscribe()
        assert host["a"].call("echo", 3, timeout=60) == 3
    assert exception_class.__name__ in caplog.text


@pytest.mark.parametrize("kind", ["host", "connection"])
def test_an_open_host_or_connection_cannot_be_opened_again(kind: str) -> None:
    program = hostile()["source"]
    context_manager: Any = (
        exthost.SyncHost.from_config(config(entry("a")))
        if kind == "host"
        else exthost.sync_connect([program["command"], *program["args"]], dialect="morphir")
    )
    with context_manager:
        with pytest.raises(errors.UsageError) as caught:
            context_manager.__enter__()
        assert caught.value.code == "X1311"  # it was opened twice
    with context_manager:  # after it was closed, it can be opened again
        pass
