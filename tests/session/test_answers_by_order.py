"""Where answers have no ids, a call that was given up poisons its session: nobody else may get
its late answer, and whoever comes after it is served by a fresh one."""

import asyncio
import os
from dataclasses import replace
from typing import Any

import pytest

from exthost.dialects.morphir.dialect import DIALECT, MorphirHostCodec
from exthost.errors import ExtensionGone, ProtocolViolation
from exthost.events import Bus
from exthost.extension.call_queue import CallQueue
from exthost.model.messages import Reply
from exthost.session.call import FutureCall
from exthost.session.replies import DELIVER
from tests.extensions.fake_child import FakeChild, session_with
from tests.extensions.harness import failing, until


class WithoutIds(MorphirHostCodec):
    """morphir, as if its answers carried no id."""

    def decode(self, frame: Any) -> Any:
        received: Any = super().decode(frame)
        return Reply(None, received[1]) if type(received) is tuple else received


BY_ORDER = replace(
    DIALECT,
    codec=lambda role: WithoutIds(),
    traits=replace(DIALECT.traits, positional=True),
)


class Stage:
    """A call queue and its first session, by order."""

    def __init__(self, *, retry: bool = False, most: int = 1) -> None:
        self.queue = CallQueue(
            "x",
            max_in_flight=most,
            retry_once=retry,
            bus=Bus(),
            loop=asyncio.get_running_loop(),
        )
        self.fake_child = self.next_session()

    def next_session(self) -> FakeChild:
        self.fake_child = FakeChild()
        self.queue.attach(session_with(self.fake_child, self.queue, BY_ORDER))
        return self.fake_child

    def call(self, n: int) -> FutureCall:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        call = FutureCall("echo", n, DELIVER, 100, self.queue.now(), future)
        self.queue.submit(call)
        return call

    def end(self) -> None:
        self.fake_child.die()
        self.queue.deadlines.stop()


async def ticks() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


def give_up(stage: Stage, call: FutureCall, how: str) -> None:
    if how == "cancelled":
        call.future.cancel()
        stage.queue.cancel(call)
    else:
        stage.queue.expire(call)
        assert call.future.exception() is not None


async def outcome_of(call: FutureCall) -> Any:
    return await asyncio.wait_for(call.future, 30)


@pytest.mark.both_loops
@pytest.mark.parametrize("how", ["cancelled", "timed out"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_late_answer_is_dropped_and_waiting_calls_get_a_fresh_session(
    how: str, when: str
) -> None:
    stage = Stage()
    first = stage.call(1)
    waiting = stage.call(2) if when == "before" else None
    await ticks()
    old = stage.fake_child
    old.say(id=0, result="late")  # in the pipe, not read yet
    give_up(stage, first, how)
    second = waiting or stage.call(2)
    await ticks()
    assert old.status is not None  # it was ended, and the second call is unharmed
    assert not second.ended
    fresh = stage.next_session()
    await ticks()
    assert [request["params"] for request in fresh.heard()] == [2]
    fresh.say(id=0, result="own")
    assert await outcome_of(second) == "own"
    stage.end()
    await ticks()


async def test_calls_beside_an_abandoned_call_get_the_reason_of_their_loss() -> None:
    stage = Stage(most=3)
    calls = [stage.call(n) for n in range(3)]
    await ticks()
    give_up(stage, calls[1], "cancelled")
    for call in (calls[0], calls[2]):
        with pytest.raises(ExtensionGone) as caught:
            await outcome_of(call)
        assert caught.value.code == "X1003" and "given up" in caught.value.message
    assert stage.queue.outcomes.unsuccessful == {"cancelled": 1, "gone": 2}
    stage.end()
    await ticks()


async def test_those_beside_it_are_sent_again_in_their_order_where_that_is_allowed() -> None:
    stage = Stage(most=3, retry=True)
    calls = [stage.call(n) for n in range(5)]
    await ticks()
    give_up(stage, calls[1], "cancelled")
    fresh = stage.next_session()
    await ticks()
    assert [request["params"] for request in fresh.heard()] == [0, 2, 3]
    for n in (0, 2, 3):
        fresh.say(id=0, result=n)
        assert await outcome_of(calls[n]) == n
    fresh.say(id=0, result=4)
    assert await outcome_of(calls[4]) == 4
    stage.end()
    await ticks()


@pytest.mark.parametrize("asked", ["by itself", "in the same read"])
async def test_earlier_input_does_not_answer_a_question(asked: str) -> None:
    """One answer too many, already in the pipe when the next call is made."""
    loop = asyncio.get_running_loop()
    queue = CallQueue("x", max_in_flight=1, bus=Bus(), loop=loop)
    fake_child = FakeChild()
    session = session_with(fake_child, queue, BY_ORDER)
    queue.attach(session)
    futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(2)]
    calls = [FutureCall("say", n, DELIVER, 5, queue.now(), futures[n]) for n in range(2)]
    queue.submit(calls[0])
    if asked == "in the same read":  # it waits for its turn, which comes with the first answer
        queue.submit(calls[1])
    text = b'{"id":0,"result":0}\n'
    os.write(fake_child.writes, text * (2 if asked == "in the same read" else 1))
    assert await futures[0] == 0
    if asked == "by itself":
        os.write(fake_child.writes, text)
        with pytest.raises(ProtocolViolation):
            queue.submit(calls[1])
    else:
        error = await failing(futures[1])
        assert isinstance(error, ProtocolViolation)
    assert session.cause is not None and not session.pending
    queue.deadlines.stop()
    await until(lambda: session.lifetime.released.is_set)
