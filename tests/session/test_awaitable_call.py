"""A call can be awaited like a future: order, context, cancellation and interrupts.

`ext.call(...)` returns an `AwaitableCall`, which is faster than a future and a task: the queue of
calls itself resumes the waiting tasks (`queue.wakes`) after it has handled all replies of one read.
These tests complete calls with `queue.complete`, as the reader of an extension's output does. A
`FakeChild` stands for the process of an extension: `send_to_host` writes a message to its stdout.
"""

import asyncio
import contextvars
from typing import Any

import pytest

from exthost.events import Bus, CallEnded
from exthost.extension.call_queue import CallQueue
from exthost.session.awaitable_call import AwaitableCall
from exthost.session.replies import DELIVER
from exthost.session.session import Session
from tests.extensions.fake_child import FakeChild, session_with
from tests.extensions.harness import hostile_extension

_CALLER: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


def _new_queue() -> CallQueue:
    loop = asyncio.get_running_loop()
    return CallQueue("x", max_in_flight=10, bus=Bus(), loop=loop)


def _new_call(queue: CallQueue) -> AwaitableCall:
    return AwaitableCall("echo", 1, DELIVER, 5.0, queue)


async def _wait_for(call: AwaitableCall) -> object:
    await call
    return call.value


async def _start_waiting(call: AwaitableCall) -> "asyncio.Task[object]":
    """Return a task that waits for the call."""
    task = asyncio.create_task(_wait_for(call))
    await asyncio.sleep(0)
    assert call.task_context is not None
    return task


# While `wakes` is held, callers are collected, and resumed together by `wake()`.
@pytest.mark.parametrize("is_held", [True, False])
async def test_callers_resume_in_the_order_of_the_replies(is_held: bool) -> None:
    queue, order = _new_queue(), []

    async def caller(call: AwaitableCall, name: str) -> None:
        _CALLER.set(name)
        await call
        order.append((name, _CALLER.get(), call.value))

    calls = [_new_call(queue) for _ in range(3)]
    tasks = [asyncio.create_task(caller(call, str(n))) for n, call in enumerate(calls)]
    await asyncio.sleep(0)
    queue.wakes.is_held = is_held
    for n in (2, 0, 1):
        queue.complete([(calls[n], n * 10)])
    assert order == []  # completing calls runs no code of their callers
    queue.wakes.is_held = False
    if is_held:
        asyncio.get_running_loop().call_soon(queue.wakes.wake)
    await asyncio.wait_for(asyncio.gather(*tasks), 30)
    assert order == [("2", "2", 20), ("0", "0", 0), ("1", "1", 10)]
    assert _CALLER.get() == "nobody"  # each caller ran in the context of its own task


async def test_awaiting_an_ended_call_returns_at_once() -> None:
    queue = _new_queue()
    completed, expired = _new_call(queue), _new_call(queue)
    queue.complete([(completed, 1)])
    queue.expire(expired)
    assert await _wait_for(completed) == 1
    with pytest.raises(Exception, match="took longer than 5 s"):
        await _wait_for(expired)


async def test_a_cancelled_caller_is_counted_at_once_and_only_once() -> None:
    queue = _new_queue()
    call = _new_call(queue)
    task = await _start_waiting(call)
    task.cancel("enough")
    assert queue.outcomes.unsuccessful["cancelled"] == 1
    queue.complete([(call, 1)])  # the reply arrives before the task runs again
    with pytest.raises(asyncio.CancelledError) as caught:
        await asyncio.wait_for(task, 30)
    assert caught.value.args == ("enough",)
    assert (queue.outcomes.results, queue.outcomes.unsuccessful["cancelled"]) == (0, 1)


async def test_a_caller_can_be_cancelled_after_the_reply_arrived() -> None:
    queue = _new_queue()
    call = _new_call(queue)
    task = await _start_waiting(call)
    queue.complete([(call, 1)])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)
    assert (queue.outcomes.results, queue.outcomes.unsuccessful["cancelled"]) == (1, 0)


async def test_replies_read_during_a_step_of_a_task_wake_callers_after_it() -> None:
    """A task cannot be resumed inside of another task's step, so the loop does it afterwards."""
    queue = _new_queue()
    call = _new_call(queue)
    task = await _start_waiting(call)
    queue.wakes.in_task = queue.wakes.is_held = True
    queue.complete([(call, 7)])
    queue.wakes.is_held = False
    queue.wakes.wake()
    queue.wakes.in_task = False
    assert not task.done()
    assert await asyncio.wait_for(task, 30) == 7


def test_an_interrupt_in_one_caller_does_not_affect_other_callers() -> None:
    results: list[Any] = []

    async def caller(call: AwaitableCall) -> None:
        await call
        if call.value == 0:
            raise KeyboardInterrupt
        results.append(call.value)

    async def start_callers() -> "tuple[CallQueue, dict[AwaitableCall, asyncio.Task[None]]]":
        queue = _new_queue()
        calls = [_new_call(queue) for _ in range(3)]
        tasks = {call: asyncio.create_task(caller(call)) for call in calls}
        await asyncio.sleep(0)
        queue.wakes.is_held = True
        return queue, tasks

    with asyncio.Runner() as runner:
        queue, tasks = runner.run(start_callers())
        for n, call in enumerate(tasks):
            queue.complete([(call, n)])
        with pytest.raises(KeyboardInterrupt):
            queue.wakes.wake()
        interrupted, *others = tasks.values()
        assert isinstance(interrupted.exception(), KeyboardInterrupt)
        runner.get_loop().run_until_complete(asyncio.wait(others, timeout=30))
    assert results == [1, 2]


class _InterruptedCodec:
    """A codec that raises KeyboardInterrupt once, at the message "now"."""

    def __init__(self, codec: Any) -> None:
        self._codec = codec
        self._was_interrupted = False

    def decode(self, frame: Any) -> Any:
        if b"now" in bytes(frame) and not self._was_interrupted:
            self._was_interrupted = True
            raise KeyboardInterrupt
        return self._codec.decode(frame)


@pytest.mark.parametrize("has_subscriber", [False, True])
def test_an_interrupt_while_reading_loses_no_reply(has_subscriber: bool) -> None:
    fake_child = FakeChild()

    async def start_callers() -> "tuple[Session, asyncio.Task[object]]":
        queue = _new_queue()
        if has_subscriber:
            queue.bus.subscribe(CallEnded, lambda _: None)
        session = session_with(fake_child, queue)
        conversation = session.conversation
        conversation.decode = _InterruptedCodec(conversation._codec).decode
        queue.attach(session)
        call = _new_call(queue)
        queue.submit(call)
        return session, await _start_waiting(call)

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        session, task = runner.run(start_callers())
        fake_child.send_to_host(id=0, result=7)
        fake_child.send_to_host(method="now")
        loop.call_later(30, loop.stop)
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        loop.run_until_complete(asyncio.wait([task], timeout=30))
        assert task.done() and task.result() == 7
        loop.run_until_complete(session.kill_and_wait())


async def test_asyncio_functions_can_wrap_a_call() -> None:
    async with hostile_extension() as extension:
        async with asyncio.timeout(30):
            assert await extension.call("echo", 1) == 1
        assert await asyncio.wait_for(extension.call("echo", 2), 30) == 2
        assert await asyncio.gather(*(extension.call("echo", n) for n in range(3))) == [0, 1, 2]
        assert await asyncio.shield(extension.call("echo", 4)) == 4
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(extension.call("keep"), 0.05)
        assert extension.stats.cancelled == 1
        assert extension.stats.in_flight == 0
