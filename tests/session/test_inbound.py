"""Requests of the child: what is held back while it waits for an answer, and for how long."""

import asyncio
from typing import Any

import pytest

from exthost.model.messages import Failure, Reply, Request
from exthost.session.inbound import InboundRequests
from tests.dialects.requirements import shows


class Log:
    """Stands for the hold, the pipe and the diagnostics, and records what happens in order."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def begin(self) -> None:
        self.seen.append("hold")

    def end(self) -> None:
        self.seen.append("go")

    def send(self, answer: Reply | Failure) -> None:
        self.seen.append(answer.id)

    def count(self, name: str) -> None:
        self.seen.append(name)


class Served:
    """Requests that are answered when the test says so."""

    def __init__(self) -> None:
        self.log = Log()
        self._gates: dict[int, asyncio.Event] = {}
        log: Any = self.log
        loop = asyncio.get_running_loop()
        self.inbound = InboundRequests({"q": self._serve}, _refuse, log.send, log, loop, hold=log)

    async def _serve(self, id: Any) -> Any:
        await self._gates[id].wait()

    def ask(self, *ids: int) -> None:
        for id in ids:
            self._gates[id] = asyncio.Event()
            self.inbound.serve(Request("q", id, id))

    async def answer(self, *ids: int) -> None:
        for id in ids:
            self._gates[id].set()
            for _ in range(5):
                await asyncio.sleep(0)


def _refuse(request: Request) -> Failure:
    return Failure(request.id, "no")


@shows("synaps-turn-03")
async def test_the_rest_goes_out_after_the_answer() -> None:
    served = Served()
    served.ask(1)
    await served.answer(1)
    served.ask(2)
    await served.answer(2)
    assert served.log.seen == ["hold", 1, "go", "hold", 2, "go"]


async def test_questions_that_come_together_are_all_answered_first() -> None:
    served = Served()
    served.ask(1, 2, 3)
    await served.answer(2, 1, 3)
    assert served.log.seen == ["hold", 2, 1, 3, "go"]


async def test_a_child_that_goes_on_asking_does_not_keep_the_rest_away() -> None:
    served = Served()
    served.ask(1, 2)
    await served.answer(1)
    served.ask(3)
    await served.answer(2)
    assert served.log.seen == ["hold", 1, 2, "go"]
    served.ask(4)
    await served.answer(3, 4)
    assert served.log.seen[4:] == ["hold", 3, 4, "go"]


async def test_when_the_child_is_gone_nothing_is_kept_back_for_it() -> None:
    served = Served()
    served.ask(1, 2)
    served.inbound.cancel()
    assert served.log.seen == ["hold", "go"]
    await asyncio.sleep(0)
    assert served.log.seen == ["hold", "go"]


async def test_an_unserved_question_delays_nothing() -> None:
    served = Served()
    served.inbound.serve(Request("unknown", None, 9))
    assert served.log.seen == [9]


@pytest.mark.parametrize("is_inside_a_reply", [False, True])
async def test_a_handler_whose_own_task_was_cancelled_still_answers(
    is_inside_a_reply: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answers: asyncio.Queue[Reply | Failure] = asyncio.Queue()

    async def serve(params: Any) -> Any:
        lookup = asyncio.get_running_loop().create_future()
        lookup.cancel()
        return await lookup

    loop = asyncio.get_running_loop()
    inbound = InboundRequests({"q": serve}, _refuse, answers.put_nowait, Log(), loop)
    request = Request("q", None, 7)
    if is_inside_a_reply:
        inbound.ask(request, answers.put_nowait)
    else:
        inbound.serve(request)
    answer = await asyncio.wait_for(answers.get(), 60)
    assert isinstance(answer, Failure) and answer.id == 7 and "CancelledError" in answer.message
    assert "the handler of q failed" in caplog.text
