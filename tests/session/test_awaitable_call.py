"""A call is awaited without a future: what a task may rely on holds all the same."""

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
from tests.extensions.harness import hostile

_WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


def _queue() -> CallQueue:
    loop = asyncio.get_running_loop()
    return CallQueue("x", max_in_flight=10, bus=Bus(), loop=loop)


def _call(queue: CallQueue) -> AwaitableCall:
    return AwaitableCall("echo", 1, DELIVER, 5.0, queue)


async def _outcome(call: AwaitableCall) -> object:
    await call
    return call.value


async def _as_task(call: AwaitableCall) -> "asyncio.Task[object]":
    """A task that is waiting for it."""
    task = asyncio.create_task(_outcome(call))
    await asyncio.sleep(0)
    assert call.task_context is not None
    return task


@pytest.mark.parametrize("is_held", [True, False])
async def test_callers_go_on_in_the_order_in_which_they_were_answered(is_held: bool) -> None:
    queue, order = _queue(), []

    async def caller(call: AwaitableCall, name: str) -> None:
        _WHO.set(name)
        await call
        order.append((name, _WHO.get(), call.value))

    calls = [_call(queue) for _ in range(3)]
    tasks = [asyncio.create_task(caller(call, str(n))) for n, call in enumerate(calls)]
    await asyncio.sleep(0)
    queue.wakes.is_held = is_held
    for n in (2, 0, 1):
        queue.complete([(calls[n], n * 10)])
    assert order == []  # whoever completes calls is never interrupted by their callers
    queue.wakes.is_held = False
    if is_held:
        asyncio.get_running_loop().call_soon(queue.wakes.wake)
    await asyncio.wait_for(asyncio.gather(*tasks), 30)
    assert order == [("2", "2", 20), ("0", "0", 0), ("1", "1", 10)]
    assert _WHO.get() == "nobody"


async def test_one_that_ended_before_it_was_awaited_is_not_waited_for() -> None:
    queue = _queue()
    good, bad = _call(queue), _call(queue)
    queue.complete([(good, 1)])
    queue.expire(bad)
    assert await _outcome(good) == 1
    with pytest.raises(Exception, match="took longer than 5 s"):
        await _outcome(bad)


async def test_a_cancelled_caller_is_accounted_for_at_once_and_only_once() -> None:
    queue = _queue()
    call = _call(queue)
    task = await _as_task(call)
    task.cancel("enough")
    assert queue.outcomes.unsuccessful["cancelled"] == 1
    queue.complete([(call, 1)])  # its answer comes in the same tick
    with pytest.raises(asyncio.CancelledError) as caught:
        await asyncio.wait_for(task, 30)
    assert caught.value.args == ("enough",)
    assert (queue.outcomes.results, queue.outcomes.unsuccessful["cancelled"]) == (0, 1)


async def test_a_caller_that_is_cancelled_after_its_answer_came_is_cancelled_all_the_same() -> None:
    queue = _queue()
    call = _call(queue)
    task = await _as_task(call)
    queue.complete([(call, 1)])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)
    assert (queue.outcomes.results, queue.outcomes.unsuccessful["cancelled"]) == (1, 0)


async def test_messages_read_in_the_step_of_a_task_wake_their_callers_after_that_step() -> None:
    queue = _queue()
    call = _call(queue)
    task = await _as_task(call)
    queue.wakes.in_task = queue.wakes.is_held = True
    queue.complete([(call, 7)])
    queue.wakes.is_held = False
    queue.wakes.wake()
    queue.wakes.in_task = False
    assert not task.done()
    assert await asyncio.wait_for(task, 30) == 7


def test_an_interrupt_in_one_caller_is_passed_on_and_the_others_still_get_their_answers() -> None:
    got: list[Any] = []

    async def caller(call: AwaitableCall) -> None:
        await call
        if call.value == 0:
            raise KeyboardInterrupt
        got.append(call.value)

    async def ask() -> "tuple[CallQueue, dict[AwaitableCall, asyncio.Task[None]]]":
        queue = _queue()
        calls = [_call(queue) for _ in range(3)]
        tasks = {call: asyncio.create_task(caller(call)) for call in calls}
        await asyncio.sleep(0)
        queue.wakes.is_held = True
        return queue, tasks

    with asyncio.Runner() as runner:
        queue, tasks = runner.run(ask())
        for n, call in enumerate(tasks):
            queue.complete([(call, n)])
        with pytest.raises(KeyboardInterrupt):
            queue.wakes.wake()
        interrupted, *others = tasks.values()
        assert isinstance(interrupted.exception(), KeyboardInterrupt)
        runner.get_loop().run_until_complete(asyncio.wait(others, timeout=30))
    assert got == [1, 2]


class _Interrupted:
    """A codec in whose hands Ctrl-C comes, once."""

    def __init__(self, codec: Any) -> None:
        self._codec = codec
        self._come = False

    def decode(self, frame: Any) -> Any:
        if b"now" in bytes(frame) and not self._come:
            self._come = True
            raise KeyboardInterrupt
        return self._codec.decode(frame)


@pytest.mark.parametrize("watched", [False, True])
def test_an_interrupt_while_reading_costs_no_caller_its_answer(watched: bool) -> None:
    fake_child = FakeChild()

    async def ask() -> "tuple[Session, asyncio.Task[object]]":
        queue = _queue()
        if watched:
            queue.bus.subscribe(CallEnded, lambda _: None)
        session = session_with(fake_child, queue)
        conversation = session.conversation
        conversation.decode = _Interrupted(conversation._codec).decode
        queue.attach(session)
        call = _call(queue)
        queue.submit(call)
        return session, await _as_task(call)

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        session, task = runner.run(ask())
        fake_child.say(id=0, result=7)
        fake_child.say(method="now")
        loop.call_later(30, loop.stop)
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        loop.run_until_complete(asyncio.wait([task], timeout=30))
        assert task.done() and task.result() == 7
        loop.run_until_complete(session.kill_and_wait())


async def test_wrappers_of_users_around_a_call_work() -> None:
    async with hostile() as extension:
        async with asyncio.timeout(30):
            assert await extension.call("echo", 1) == 1
        assert await asyncio.wait_for(extension.call("echo", 2), 30) == 2
        assert await asyncio.gather(*(extension.call("echo", n) for n in range(3))) == [0, 1, 2]
        assert await asyncio.shield(extension.call("echo", 4)) == 4
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(extension.call("keep"), 0.05)
        assert extension.stats.cancelled == 1
        assert extension.stats.in_flight == 0
