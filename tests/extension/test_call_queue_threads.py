"""The call queue as the blocking API uses it: other threads submit calls, also while the queue or
its session closes."""

import asyncio
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Any

import pytest

from exthost.errors import ExtensionGone
from exthost.events import Bus
from exthost.extension.call_queue import CallQueue
from exthost.host.sync.blocking_call import BlockingCall
from exthost.session.call import Call
from exthost.session.replies import DELIVER
from exthost.session.session import Session
from tests.extensions.fake_child import FakeChild, session_with
from tests.extensions.harness import closed_at_end, unstarted_extension, wait_until


class CountedCall(BlockingCall):
    """A call of the blocking API that counts how often it ended."""

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


def call_of(queue: CallQueue, value: int) -> CountedCall:
    return CountedCall("echo", value, DELIVER, 100.0, queue)


def shared_queue() -> CallQueue:
    loop = asyncio.get_running_loop()
    return CallQueue("x", max_in_flight=1, is_shared=True, bus=Bus(), loop=loop)


class InterruptedQueue(OrderedDict[Call, None]):
    """The waiting calls of a queue. Calls a function before the first call is added, once: after
    the thread of the caller has read the state of the queue. In that moment, the thread of the
    event loop may change the state."""

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
        lambda: queue.close(lambda _: ExtensionGone("X1006", "closed"))
    )
    call = call_of(queue, 1)
    queue.submit_threadsafe(call)
    await wait_until(lambda: call.ended)
    assert isinstance(call.outcome, ExtensionGone) and call.ends == 1
    assert queue.outcomes.unsuccessful == {"gone": 1} and not queue.waiting


async def test_a_call_added_while_the_last_answer_arrives_is_sent() -> None:
    queue = shared_queue()
    fake_child = FakeChild()
    session = session_with(fake_child, queue)
    queue.attach(session)
    first, second = call_of(queue, 1), call_of(queue, 2)
    queue.submit_threadsafe(first)

    def complete_first_call() -> None:
        queue.complete([(session.pending.pop(0), "answer")])

    queue.waiting = InterruptedQueue(complete_first_call)
    queue.submit_threadsafe(second)
    await wait_until(lambda: len(fake_child.received()) == 2)  # both requests
    fake_child.exit()
    await wait_until(lambda: second.ended)
    assert queue.outcomes.results == 1 and queue.outcomes.unsuccessful == {"gone": 1}
    assert first.ends == second.ends == 1


class EndingLock:
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
    session.lock = EndingLock(session)  # type: ignore[assignment]
    with pytest.raises(ExtensionGone):
        queue.submit_threadsafe(call_of(queue, 1))
    assert not session.pending and not queue.outcomes.unsuccessful
    await wait_until(lambda: session.lifetime.released.is_set)  # not a method: a Latch


CALLS_OF_THREADS = 6 * 100
CALLS_OF_TASKS = 100


@pytest.mark.both_loops
@pytest.mark.parametrize("end", ["no interruption", "a crash", "a close"])
async def test_each_call_of_many_threads_and_tasks_ends_once_with_its_answer(
    end: str,
) -> None:
    ext = unstarted_extension(limits={"max_in_flight": 20})
    ext.internals.queue.is_shared = True
    async with closed_at_end(ext):
        await ext.start()
        accepted: list[CountedCall] = []
        refused: list[int] = []

        def make_calls(first_number: int) -> None:
            for n in range(first_number, first_number + 100):
                call = CountedCall(
                    *ext.internals.calls.factory.for_method("echo", n, 60), ext.internals.queue
                )
                try:
                    ext.internals.queue.submit_threadsafe(call)
                except ExtensionGone:  # not accepted any more
                    refused.append(n)
                    continue
                accepted.append(call)
                if n % 7 == 0:
                    with suppress(ExtensionGone):
                        assert call.wait() == n

        # The numbers of different threads differ, so that a wrong reply is noticed.
        threads = [threading.Thread(target=make_calls, args=(1000 * t,)) for t in range(6)]
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
        for n, result in [*enumerate(results), *((call.params, call.outcome) for call in accepted)]:
            assert result == n or (isinstance(result, ExtensionGone) and end != "no interruption")
        assert all(call.ends == 1 for call in accepted)
        assert len(accepted) + len(refused) == CALLS_OF_THREADS
        stats = ext.stats
        assert stats.in_flight == stats.waiting == 0
        results_received = sum(result == n for n, result in enumerate(results))
        results_received += sum(call.outcome == call.params for call in accepted)
        assert stats.result == results_received
        if end == "no interruption":
            assert (
                refused == [] and stats.calls == stats.result == CALLS_OF_THREADS + CALLS_OF_TASKS
            )
