"""Requests of the extension to the host: until they are answered, other messages are held back.

Many extensions read the next message after their request as its answer. So from the first open
request until the last answer the host sends nothing else. Requests that arrive after the first
answer do not make this time longer.
"""

import asyncio
from typing import Any

import pytest

from exthost.dialects.base import method_unknown
from exthost.model.messages import Failure, Reply, Request
from exthost.session.inbound import InboundRequests
from tests.dialects.requirements import shows


class Recorder:
    """Replaces the hold, the pipe and the diagnostics, and records all their calls in order."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def begin(self) -> None:
        self.calls.append("hold")

    def end(self) -> None:
        self.calls.append("release")

    def send(self, answer: Reply | Failure) -> None:
        self.calls.append(answer.id)

    def count(self, name: str) -> None:
        self.calls.append(name)


class ControlledRequests:
    """Requests of an extension, whose handlers return when the test calls `answer`."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self._may_answer: dict[int, asyncio.Event] = {}  # by the id of the request
        recorder: Any = self.recorder
        loop = asyncio.get_running_loop()
        self.inbound = InboundRequests(
            {"q": self._serve}, _refuse, recorder.send, recorder, loop, hold=recorder
        )

    async def _serve(self, id: Any) -> Any:
        await self._may_answer[id].wait()

    def receive(self, *ids: int) -> None:
        for id in ids:
            self._may_answer[id] = asyncio.Event()
            self.inbound.serve(Request("q", id, id))

    async def answer(self, *ids: int) -> None:
        for id in ids:
            self._may_answer[id].set()
            for _ in range(5):  # iterations of the loop, until the answer was sent
                await asyncio.sleep(0)


def _refuse(request: Request) -> Failure:
    return Failure(request.id, "no")


@shows("synaps-turn-03")
async def test_held_messages_are_sent_after_the_answer() -> None:
    requests = ControlledRequests()
    requests.receive(1)
    await requests.answer(1)
    requests.receive(2)
    await requests.answer(2)
    assert requests.recorder.calls == ["hold", 1, "release", "hold", 2, "release"]


async def test_requests_that_arrive_together_are_all_answered_first() -> None:
    requests = ControlledRequests()
    requests.receive(1, 2, 3)
    await requests.answer(2, 1, 3)
    assert requests.recorder.calls == ["hold", 2, 1, 3, "release"]


async def test_later_requests_do_not_hold_messages_longer() -> None:
    requests = ControlledRequests()
    requests.receive(1, 2)
    await requests.answer(1)
    requests.receive(3)
    await requests.answer(2)
    assert requests.recorder.calls == ["hold", 1, 2, "release"]
    requests.receive(4)
    await requests.answer(3, 4)
    assert requests.recorder.calls[4:] == ["hold", 3, 4, "release"]


async def test_cancelling_releases_the_held_messages() -> None:
    requests = ControlledRequests()
    requests.receive(1, 2)
    requests.inbound.cancel()
    assert requests.recorder.calls == ["hold", "release"]
    await asyncio.sleep(0)
    assert requests.recorder.calls == ["hold", "release"]


async def test_a_request_that_the_extension_cancels_is_not_answered() -> None:
    requests = ControlledRequests()
    requests.receive(1, 2, 3)
    requests.inbound.cancel_request(1)  # before its handler has begun
    await asyncio.sleep(0)
    requests.inbound.cancel_request(2)
    requests.inbound.cancel_request(2)
    requests.inbound.cancel_request(["unknown"])
    requests.receive(2)  # the id can be used again at once
    await requests.answer(3, 2)
    assert requests.recorder.calls == ["hold", 3, "release", 2]
    assert requests.inbound._tasks == {}


async def test_a_request_without_a_handler_holds_no_messages_back() -> None:
    requests = ControlledRequests()
    requests.inbound.serve(Request("unknown", None, 9))
    assert requests.recorder.calls == [9]


@pytest.mark.parametrize("is_inside_a_reply", [False, True])
async def test_a_cancelled_handler_is_answered_with_an_error(
    is_inside_a_reply: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answers: asyncio.Queue[Reply | Failure] = asyncio.Queue()

    async def wait_for_cancelled_future(params: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return await future

    loop = asyncio.get_running_loop()
    inbound = InboundRequests(
        {"q": wait_for_cancelled_future}, _refuse, answers.put_nowait, Recorder(), loop
    )
    request = Request("q", None, 7)
    if is_inside_a_reply:  # in some dialects a reply can contain a request to the host
        inbound.ask(request, answers.put_nowait)
    else:
        inbound.serve(request)
    answer = await asyncio.wait_for(answers.get(), 60)
    assert isinstance(answer, Failure) and answer.id == 7 and "CancelledError" in answer.message
    assert "the handler of q failed" in caplog.text


@pytest.mark.parametrize("method", ["q", "unknown"])
async def test_a_request_with_a_long_id_is_counted_and_its_id_is_not_repeated(method: str) -> None:
    requests = ControlledRequests()
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    ids: list[Any] = ["x" * 1_000_000, ["x" * 2000], deep]
    for id in ids:
        requests.inbound.serve(Request(method, None, id))
        requests.inbound.cancel_request(id)
    # Each is answered with the id null.
    assert requests.recorder.calls == ["requests with an id that is too long", None] * 3


def test_the_refusal_of_an_unknown_method_repeats_only_its_beginning() -> None:
    refusal = method_unknown(Request("x" * 1_000_000, None, 1))
    assert len(refusal.message) < 300 and refusal.message.endswith("…")
