"""The shutdown of an extension's process: steps that run in order until the process exits.

A step is a message, bytes, the end of stdin, or SIGTERM, each with the seconds that the host waits
after it. The last step is SIGKILL. The process is a fake that records the steps and the waits.
"""

import asyncio

import pytest

from exthost.model.messages import Notification, Request
from exthost.model.shutdown_steps import CloseStdin, Say, ShutdownStep, Terminate, Write
from exthost.process.shutdown import CLEAN_KILL_SECONDS, KILL_SECONDS, run_steps


class FakeProcess:
    """Exits after the given kind of step, and records the steps and waits."""

    def __init__(self, exits_after: str = "") -> None:
        self.exits_after = exits_after
        self.steps: list[object] = []

    def _record(self, step: object) -> None:
        self.steps.append(step)

    async def send_message(self, message: Request | Notification, wait: float) -> None:
        self._record(f"say {message.method} {wait:g}")

    def write_raw(self, data: bytes) -> None:
        self._record(f"write {data!r}")

    def close_stdin(self) -> None:
        self._record("eof")

    def terminate(self) -> None:
        self._record("term")

    def kill(self) -> None:
        self._record("kill")

    async def exits_within(self, seconds: float) -> bool:
        last_step = str(self.steps[-1])
        self._record(seconds)
        return bool(self.exits_after) and last_step.startswith(self.exits_after)


STEPS: tuple[ShutdownStep, ...] = (
    Say(Request("shutdown"), 2),
    Write(b"bye"),
    CloseStdin(wait=3),
    Terminate(wait=1),
)
# What a process that never exits records: each step, and how long the host waits after it.
STEPS_AND_WAITS = [
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
    ("exits_after", "count"), [("say", 2), ("write", 4), ("eof", 6), ("term", 8), ("kill", 10)]
)
def test_no_step_runs_after_the_exit(exits_after: str, count: int) -> None:
    process = FakeProcess(exits_after)
    assert asyncio.run(run_steps(STEPS, process)) is True
    assert process.steps == STEPS_AND_WAITS[:count]


def test_a_process_that_survives_sigkill_is_reported() -> None:
    process = FakeProcess()
    assert asyncio.run(run_steps(STEPS, process)) is False
    assert process.steps == [*STEPS_AND_WAITS, "kill", KILL_SECONDS]


def test_without_steps_the_process_is_killed() -> None:
    process = FakeProcess("kill")
    assert asyncio.run(run_steps((), process)) is True
    assert process.steps == ["kill", CLEAN_KILL_SECONDS]
