"""The desk as the blocking face uses it: calls come from other threads, at bad moments too."""

import asyncio
import threading
from collections import OrderedDict
from typing import Any

import pytest
from exthost.session.desk import Desk
from exthost.session.state import Call

from exthost.errors import ExtensionGone
from exthost.events import Bus
from tests.extensions.driving import closing, unstarted, until
from tests.extensions.puppet import Puppet, session_with


class Gate:
    """A sink that a thread waits at."""

    def __init__(self) -> None:
        self._gate = threading.Event()
        self.result: Any = None
        self.ends = 0

    def done(self) -> bool:
        return self._gate.is_set()

    def set_result(self, result: Any, /) -> None:
        self.result = result
        self.ends += 1
        self._gate.set()

    def set_exception(self, exception: BaseException, /) -> None:
        self.set_result(exception)

    def wait(self) -> Any:
        assert self._gate.wait(20), "nobody told this caller how its call ended"
        return self.result


class ThatInterrupts(OrderedDict[Call, None]):
    """Does something in the moment between a caller's look and its joining the queue."""

    def __init__(self, moment: Any) -> None:
        super().__init__()
        self._moment = moment

    def __setitem__(self, call: Call, value: None) -> None:
        moment, self._moment = self._moment, None
        if moment is not None:
            moment()
        super().__setitem__(call, value)


async def test_a_call_that_joins_the_queue_as_the_desk_closes_is_told_so() -> None:
    desk = Desk("x", max_in_flight=1, shared=True, bus=Bus(), loop=asyncio.get_running_loop())
    desk.waiting = ThatInterrupts(lambda: desk.close(lambda _: ExtensionGone("X1006", "closed")))
    gate = Gate()
    desk.submit(Call.of("echo", 1, gate, 100, desk.now()))
    await until(gate.done)
    assert isinstance(gate.result, ExtensionGone) and gate.ends == 1
    assert desk.losses == {"gone": 1} and not desk.waiting


async def test_a_call_that_joins_the_queue_as_the_last_answer_leaves_is_sent() -> None:
    desk = Desk("x", max_in_flight=1, shared=True, bus=Bus(), loop=asyncio.get_running_loop())
    puppet = Puppet()
    desk.attach(session_with(puppet, desk))
    first, second = (Call.of("echo", n, Gate(), 100, desk.now()) for n in (1, 2))
    desk.submit(first)
    session = desk.session
    assert session is not None

    def answered() -> None:
        desk.settle(session.pending.pop(0), "answer")

    desk.waiting = ThatInterrupts(answered)
    desk.submit(second)
    await until(lambda: len(puppet.heard()) == 2)
    puppet.die()
    await until(lambda: second.ended)
    assert desk.results == 1 and desk.losses == {"gone": 1}


@pytest.mark.both_loops
@pytest.mark.parametrize("end", ["in peace", "by a crash", "by a close"])
async def test_calls_from_many_threads_and_tasks_each_end_once_with_their_own_answer(
    end: str,
) -> None:
    ext = unstarted(limits={"max_in_flight": 20})
    ext.queue.shared = True
    async with closing(ext):
        await ext.start()
        ends: list[tuple[int, Gate]] = []
        refused: list[int] = []

        def from_a_thread(start: int) -> None:
            for n in range(start, start + 100):
                gate = Gate()
                try:
                    ext.begin("echo", n, 20, gate)
                except ExtensionGone:  # not accepted any more
                    refused.append(n)
                    continue
                ends.append((n, gate))
                if n % 7 == 0:
                    gate.wait()

        threads = [threading.Thread(target=from_a_thread, args=(1000 * t,)) for t in range(6)]
        for thread in threads:
            thread.start()
        mine = [asyncio.ensure_future(ext.call("echo", n)) for n in range(100)]
        results = await asyncio.gather(*mine[:50], return_exceptions=True)
        if end == "by a crash":
            ext.kill()
        if end == "by a close":
            await ext.close()
        results += await asyncio.gather(*mine[50:], return_exceptions=True)
        await until(lambda: not any(thread.is_alive() for thread in threads))
        await until(lambda: all(gate.done() for _, gate in ends))
        for n, result in [*enumerate(results), *((n, gate.result) for n, gate in ends)]:
            assert result == n or (isinstance(result, ExtensionGone) and end != "in peace")
        assert all(gate.ends == 1 for _, gate in ends)
        assert len(ends) + len(refused) == 600
        stats = ext.stats
        assert stats["in_flight"] == stats["waiting"] == 0
        told = sum(result == n for n, result in enumerate(results))
        told += sum(gate.result == n for n, gate in ends)
        assert stats["result"] == told
        if end == "in peace":
            assert refused == [] and stats["calls"] == stats["result"] == 700
