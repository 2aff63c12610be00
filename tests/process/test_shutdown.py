"""Shutdown steps run in order, stop at the exit, and end with SIGKILL."""

import asyncio

import pytest

from exthost.model.messages import Notification, Request
from exthost.model.shutdown_steps import CloseStdin, Say, ShutdownStep, Terminate, Write
from exthost.process.shutdown import CLEAN_KILL_SECONDS, KILL_SECONDS, run_steps


class Scripted:
    """Exits at the configured step, and records the steps."""

    def __init__(self, ends_at: str = "") -> None:
        self.ends_at = ends_at
        self.asked: list[object] = []

    def _note(self, what: object) -> None:
        self.asked.append(what)

    async def send_message(self, message: Request | Notification, wait: float) -> None:
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


STEPS: tuple[ShutdownStep, ...] = (
    Say(Request("shutdown"), 2),
    Write(b"bye"),
    CloseStdin(wait=3),
    Terminate(wait=1),
)
EXPECTED = [
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
    ("ends_at", "count"), [("say", 2), ("write", 4), ("eof", 6), ("term", 8), ("kill", 10)]
)
def test_no_step_follows_the_exit(ends_at: str, count: int) -> None:
    process = Scripted(ends_at)
    assert asyncio.run(run_steps(STEPS, process)) is True
    assert process.asked == EXPECTED[:count]


def test_a_process_that_survives_sigkill_is_reported() -> None:
    process = Scripted()
    assert asyncio.run(run_steps(STEPS, process)) is False
    assert process.asked == [*EXPECTED, "kill", KILL_SECONDS]


def test_without_steps_there_is_only_sigkill() -> None:
    process = Scripted("kill")
    assert asyncio.run(run_steps((), process)) is True
    assert process.asked == ["kill", CLEAN_KILL_SECONDS]
