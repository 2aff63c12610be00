"""The call queue of an extension with calls from several threads, as the blocking API makes them.

A thread sends its call to the process by itself if there is room, or else adds it to the waiting
calls; the event loop receives the replies. The tests provoke each race between the two, also while
the queue or its session (the connection to the process) closes: every call must end exactly once.
`submit_threadsafe` is what a thread calls. A `FakeChild` stands for the process: `received` returns
the requests that it got, and `exit` ends it.
"""

import asyncio
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Any

import pytest

from exthost.errors import ExtensionGone
from exthost.events import Bus, CallStarted
from exthost.extension.call_queue import CallQueue
from exthost.host.sync.blocking_call import BlockingCall
from exthost.session.call import Call
from exthost.session.replies import DELIVER
from exthost.session.session import Session
from tests.extensions.fake_child import FakeChild, session_with
from tests.extensions.harness import closed_at_end, unstarted_extension, wait_until


class CountedCall(BlockingCall):
    """A call of the blocking API that counts how often it is completed. Once is correct."""

    ends = 0
    outcome: Any = None

    def deliver(self, value: Any) -> None:
        self.ends += 1
        self.outcome = value
        super().deliver(value)

    def reject(self, error: BaseException) -> None:
        self.ends += 1
        self.outcome = error
        super().reject(error)


def make_call(queue: CallQueue, value: int) -> CountedCall:
    timeout = 100.0
    return CountedCall("echo", value, DELIVER, timeout, queue)


def shared_queue(bus: Bus | None = None) -> CallQueue:
    """Return a queue that several threads can use, with one call in flight at a time."""
    loop = asyncio.get_running_loop()
    return CallQueue("x", max_in_flight=1, is_shared=True, bus=bus or Bus(), loop=loop)


class InterruptedQueue(OrderedDict[Call, None]):
    """The waiting calls of a queue. Runs `callback` immediately before the first call is added. At
    that moment the caller's thread has already checked the state of the queue, so the callback
    simulates a change by the event loop at the worst time."""

    def __init__(self, callback: Any) -> None:
        super().__init__()
        self._callback = callback

    def __setitem__(self, call: Call, value: None) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()
        super().__setitem__(call, value)


async def test_a_call_added_while_the_queue_closes_fails_with_the_reason() -> None:
    queue = shared_queue()
    queue.waiting = InterruptedQueue(
        lambda: queue.close(lambda _call: ExtensionGone("X1006", "closed"))
    )
    call = make_call(queue, 1)
    queue.submit_threadsafe(call)
    await wait_until(lambda: call.ended)
    assert isinstance(call.outcome, ExtensionGone) and call.ends == 1
    assert queue.outcomes.unsuccessful == {"gone": 1} and not queue.waiting


async def test_a_call_added_while_the_last_answer_arrives_is_sent() -> None:
    queue = shared_queue()
    fake_child = FakeChild()
    session = session_with(fake_child, queue)
    queue.attach(session)
    first, second = make_call(queue, 1), make_call(queue, 2)
    queue.submit_threadsafe(first)

    def complete_first_call() -> None:
        first_request = 0
        queue.complete([(session.pending.pop(first_request), "answer")])

    queue.waiting = InterruptedQueue(complete_first_call)
    queue.submit_threadsafe(second)
    await wait_until(lambda: len(fake_child.received()) == 2)  # both requests
    fake_child.exit()  # so that the second call ends, too
    await wait_until(lambda: second.ended)
    assert queue.outcomes.results == 1 and queue.outcomes.unsuccessful == {"gone": 1}
    assert first.ends == second.ends == 1


async def test_the_event_for_a_call_of_another_thread_is_published() -> None:
    bus = Bus()
    methods: list[str] = []
    bus.subscribe(CallStarted, lambda event: methods.append(event.method))
    queue = shared_queue(bus)
    fake_child = FakeChild()
    queue.attach(session_with(fake_child, queue))
    call = make_call(queue, 1)
    thread = threading.Thread(target=queue.submit_threadsafe, args=(call,))
    thread.start()
    await wait_until(lambda: methods == ["echo"] and not thread.is_alive())
    fake_child.exit()
    await wait_until(lambda: call.ended)


class LockThatEndsSession:
    """The lock of a session. It ends the session immediately before a thread gets the lock for the
    first time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = session.lock
        self._is_used = False

    def __enter__(self) -> None:
        if not self._is_used:
            self._is_used = True
            self._session.abort()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


async def test_a_call_sent_while_its_session_ends_is_refused() -> None:
    queue = shared_queue()
    session = session_with(FakeChild(), queue)
    queue.attach(session)
    session.lock = LockThatEndsSession(session)  # type: ignore[assignment]
    with pytest.raises(ExtensionGone):
        queue.submit_threadsafe(make_call(queue, 1))
    assert not session.pending and not queue.outcomes.unsuccessful
    await wait_until(lambda: session.lifetime.released.is_set)


THREADS = 6
CALLS_PER_THREAD = 100
CALLS_OF_TASKS = 100


@pytest.mark.both_loops
@pytest.mark.parametrize("end", ["no interruption", "a crash", "a close"])
async def test_every_call_of_many_threads_and_tasks_ends_exactly_once(end: str) -> None:
    ext = unstarted_extension(limits={"max_in_flight": 20}, shared=True)
    async with closed_at_end(ext):
        await ext.start()
        accepted: list[CountedCall] = []
        refused: list[int] = []

        def make_calls(first_number: int) -> None:
            queue = ext.internals.queue
            for n in range(first_number, first_number + CALLS_PER_THREAD):
                parameters = ext.internals.calls.factory.for_method("echo", n, 60)
                call = CountedCall(*parameters, queue)
                try:
                    queue.submit_threadsafe(call)
                except ExtensionGone:  # not accepted any more
                    refused.append(n)
                    continue
                accepted.append(call)
                if n % 7 == 0:  # some calls are awaited at once, most later
                    with suppress(ExtensionGone):
                        assert call.wait() == n

        # No two calls have the same number, so that a wrong reply is noticed. The tasks start at 0.
        starts = [1000 * (thread + 1) for thread in range(THREADS)]
        threads = [threading.Thread(target=make_calls, args=(start,)) for start in starts]
        for thread in threads:
            thread.start()
        task_calls = [asyncio.ensure_future(ext.call("echo", n)) for n in range(CALLS_OF_TASKS)]
        results = await asyncio.gather(*task_calls[:50], return_exceptions=True)
        if end == "a crash":
            ext.kill()
        if end == "a close":
            await ext.close()
        results += await asyncio.gather(*task_calls[50:], return_exceptions=True)
        await wait_until(lambda: not any(thread.is_alive() for thread in threads))
        await wait_until(lambda: all(call.ended for call in accepted))
        outcomes = [*enumerate(results), *((call.params, call.outcome) for call in accepted)]
        for sent, received in outcomes:
            was_interrupted = end != "no interruption" and isinstance(received, ExtensionGone)
            assert received == sent or was_interrupted
        assert all(call.ends == 1 for call in accepted)
        assert len(accepted) + len(refused) == THREADS * CALLS_PER_THREAD
        stats = ext.stats
        assert stats.in_flight == stats.waiting == 0
        assert stats.result == sum(received == sent for sent, received in outcomes)
        if end == "no interruption":
            assert refused == []
            assert stats.calls == stats.result == THREADS * CALLS_PER_THREAD + CALLS_OF_TASKS
