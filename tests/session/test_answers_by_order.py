"""In a dialect whose replies have no ids, an abandoned call ends its session.

Otherwise the next call would get the late reply. A call is abandoned if it times out or its caller
is cancelled. A session is the connection to one process; later calls are sent to a new one.
"""

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
from tests.extensions.harness import error_of, wait_until


class CodecWithoutIds(MorphirHostCodec):
    """The codec of morphir, but replies have no id."""

    def decode(self, frame: Any) -> Any:
        received: Any = super().decode(frame)
        return Reply(None, received[1]) if type(received) is tuple else received


BY_ORDER = replace(
    DIALECT,
    codec=lambda role: CodecWithoutIds(),
    traits=replace(DIALECT.traits, positional=True),
)


class QueueWithFakeChild:
    """A call queue with a session of a fake child, whose replies have no ids."""

    def __init__(self, *, retry: bool = False, max_in_flight: int = 1) -> None:
        self.queue = CallQueue(
            "x",
            max_in_flight=max_in_flight,
            retry_once=retry,
            bus=Bus(),
            loop=asyncio.get_running_loop(),
        )
        self.fake_child = self.next_session()

    def next_session(self) -> FakeChild:
        """Attach a new session to the queue, and return its child."""
        self.fake_child = FakeChild()
        self.queue.attach(session_with(self.fake_child, self.queue, BY_ORDER))
        return self.fake_child

    def submit_call(self, n: int) -> FutureCall:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        call = FutureCall("echo", n, DELIVER, 100, self.queue.now(), future)
        self.queue.submit(call)
        return call

    def end(self) -> None:
        self.fake_child.exit()
        self.queue.deadlines.stop()


async def run_loop_a_few_times() -> None:
    """Run enough iterations of the loop for callbacks and writes to happen."""
    for _ in range(8):
        await asyncio.sleep(0)


def abandon(queue_with_child: QueueWithFakeChild, call: FutureCall, reason: str) -> None:
    """Cancel the call, or let it time out."""
    if reason == "cancelled":
        call.future.cancel()
        queue_with_child.queue.cancel(call)
    else:
        queue_with_child.queue.expire(call)
        assert call.future.exception() is not None


async def result_of_call(call: FutureCall) -> Any:
    return await asyncio.wait_for(call.future, 30)


@pytest.mark.both_loops
@pytest.mark.parametrize("reason", ["cancelled", "timed out"])
@pytest.mark.parametrize("moment", ["before", "after"])  # when the next call is made
async def test_a_late_reply_is_dropped_and_the_next_call_gets_a_new_session(
    reason: str, moment: str
) -> None:
    queue_with_child = QueueWithFakeChild()
    first = queue_with_child.submit_call(1)
    waiting = queue_with_child.submit_call(2) if moment == "before" else None
    await run_loop_a_few_times()
    old_child = queue_with_child.fake_child
    old_child.send_to_host(id=0, result="late")  # written to the pipe, and not read yet
    abandon(queue_with_child, first, reason)
    second = waiting or queue_with_child.submit_call(2)
    await run_loop_a_few_times()
    assert old_child.status is not None  # the old session was ended; the second call waits
    assert not second.ended
    new_child = queue_with_child.next_session()
    await run_loop_a_few_times()
    assert [request["params"] for request in new_child.received()] == [2]
    new_child.send_to_host(id=0, result="own")
    assert await result_of_call(second) == "own"
    queue_with_child.end()
    await run_loop_a_few_times()


async def test_other_calls_of_the_session_fail_with_the_reason() -> None:
    queue_with_child = QueueWithFakeChild(max_in_flight=3)
    calls = [queue_with_child.submit_call(n) for n in range(3)]
    await run_loop_a_few_times()
    abandon(queue_with_child, calls[1], "cancelled")
    for call in (calls[0], calls[2]):
        with pytest.raises(ExtensionGone) as caught:
            await result_of_call(call)
        # X1003: the process was ended, because a late reply would answer the wrong call
        assert caught.value.code == "X1003" and "given up" in caught.value.message
    assert queue_with_child.queue.outcomes.unsuccessful == {"cancelled": 1, "gone": 2}
    queue_with_child.end()
    await run_loop_a_few_times()


async def test_with_retry_other_calls_of_the_session_are_sent_again_in_order() -> None:
    queue_with_child = QueueWithFakeChild(max_in_flight=3, retry=True)
    calls = [queue_with_child.submit_call(n) for n in range(5)]
    await run_loop_a_few_times()
    abandon(queue_with_child, calls[1], "cancelled")
    new_child = queue_with_child.next_session()
    await run_loop_a_few_times()
    assert [request["params"] for request in new_child.received()] == [0, 2, 3]
    for n in (0, 2, 3):
        new_child.send_to_host(id=0, result=n)
        assert await result_of_call(calls[n]) == n
    new_child.send_to_host(id=0, result=4)
    assert await result_of_call(calls[4]) == 4
    queue_with_child.end()
    await run_loop_a_few_times()


@pytest.mark.parametrize("second_call", ["after the second reply", "before the first reply"])
async def test_a_reply_that_arrived_earlier_does_not_answer_a_later_call(second_call: str) -> None:
    """The extension writes a second reply before the second call is sent."""
    loop = asyncio.get_running_loop()
    queue = CallQueue("x", max_in_flight=1, bus=Bus(), loop=loop)
    fake_child = FakeChild()
    session = session_with(fake_child, queue, BY_ORDER)
    queue.attach(session)
    futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(2)]
    calls = [FutureCall("say", n, DELIVER, 5, queue.now(), futures[n]) for n in range(2)]
    queue.submit(calls[0])
    if second_call == "before the first reply":  # it is sent when the first reply arrives
        queue.submit(calls[1])
    text = b'{"id":0,"result":0}\n'
    os.write(fake_child.writes, text * (2 if second_call == "before the first reply" else 1))
    assert await futures[0] == 0
    if second_call == "after the second reply":
        os.write(fake_child.writes, text)
        with pytest.raises(ProtocolViolation):
            queue.submit(calls[1])
    else:
        error = await error_of(futures[1])
        assert isinstance(error, ProtocolViolation)
    assert session.cause is not None and not session.pending
    queue.deadlines.stop()
    await wait_until(lambda: session.lifetime.released.is_set)
