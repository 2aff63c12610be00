"""The ladder: each step in its order, none waited out that is not needed, SIGKILL last."""

import asyncio

import pytest

from exthost.messages import Notification, Request
from exthost.model import CloseStdin, LadderStep, Say, Terminate, Write
from exthost.process.ending import CLEAN_KILL_SECONDS, KILL_SECONDS, climb


class Scripted:
    """Ends at the step it is told to end at, and notes what it was asked."""

    def __init__(self, ends_at: str = "") -> None:
        self.ends_at = ends_at
        self.asked: list[object] = []

    def _note(self, what: object) -> None:
        self.asked.append(what)

    async def say(self, message: Request | Notification, wait: float) -> None:
        self._note(f"say {message.method} {wait:g}")

    def write_raw(self, data: bytes) -> None:
        self._note(f"write {data!r}")

    def close_stdin(self) -> None:
        self._note("eof")

    def terminate(self) -> None:
        self._note("term")

    def kill(self) -> None:
        self._note("kill")

    async def exits_within(self, seconds: float) -> bool:
        last = str(self.asked[-1])
        self._note(seconds)
        return bool(self.ends_at) and last.startswith(self.ends_at)


LADDER: tuple[LadderStep, ...] = (
    Say(Request("shutdown"), 2),
    Write(b"bye"),
    CloseStdin(wait=3),
    Terminate(wait=1),
)
STEPS = [
    "say shutdown 2",
    0.0,
    "write b'bye'",
    0.0,
    "eof",
    3,
    "term",
    1,
    "kill",
    CLEAN_KILL_SECONDS,
]


@pytest.mark.parametrize(
    ("ends_at", "climbed"), [("say", 2), ("write", 4), ("eof", 6), ("term", 8), ("kill", 10)]
)
def test_the_climb_ends_at_the_step_that_is_answered_by_an_exit(ends_at: str, climbed: int) -> None:
    mortal = Scripted(ends_at)
    assert asyncio.run(climb(LADDER, mortal)) is True
    assert mortal.asked == STEPS[:climbed]


def test_what_survives_even_sigkill_is_told() -> None:
    mortal = Scripted()
    assert asyncio.run(climb(LADDER, mortal)) is False
    assert mortal.asked == [*STEPS, "kill", KILL_SECONDS]


def test_without_a_ladder_there_is_only_the_end() -> None:
    mortal = Scripted("kill")
    assert asyncio.run(climb((), mortal)) is True
    assert mortal.asked == ["kill", CLEAN_KILL_SECONDS]
