"""The processor time of processes that ended, by accounts and by samples."""

import random
from collections.abc import Mapping

import pytest

from exthost.process import processor_time
from exthost.process.processor_time import ProcessorTime

INTERVAL_SECONDS = 0.02
INIT = 1
PROGRAM = 2


class Machine:
    """One processor, on which a program runs one child after the other, each of the same length."""

    def __init__(self, child_seconds: float, *, are_waited_for: bool) -> None:
        self.child_seconds = child_seconds
        self.are_waited_for = are_waited_for
        self.now = 0.0

    def clocks(self) -> Mapping[int, int]:
        number, age = divmod(self.now, self.child_seconds)
        return {PROGRAM: 0, 100 + int(number): int(age * 1e9)}

    def reaped_seconds(self, pid: int) -> float:
        ended = self.now - self.now % self.child_seconds
        return ended if pid == PROGRAM and self.are_waited_for else 0.0


def measure(machine: Machine, seconds: float, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return what is measured after this time, in which a processor was always busy."""
    monkeypatch.setattr(processor_time, "running_threads", lambda pid: float(pid != PROGRAM))
    monkeypatch.setattr(processor_time, "reaped_seconds", machine.reaped_seconds)
    chance = random.Random(7)
    meter, spent = ProcessorTime(), 0.0
    while machine.now < seconds:
        pause = chance.uniform(0, 2 * INTERVAL_SECONDS)
        machine.now += pause
        # The program always runs a little: otherwise nothing would be read of it.
        clocks = {**machine.clocks(), PROGRAM: int(machine.now * 1e6)}
        spent = meter.add_sample(clocks, [INIT], 2 * INTERVAL_SECONDS - pause)
    return spent


@pytest.mark.parametrize("child_seconds", [0.0003, 0.002, 0.015, 0.1, 3.0])
def test_children_that_are_not_reaped_are_counted_by_samples(
    child_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = measure(Machine(child_seconds, are_waited_for=False), 100.0, monkeypatch)
    assert 90 < spent < 110, spent


@pytest.mark.parametrize("child_seconds", [0.0003, 0.002, 0.015, 0.1, 3.0])
def test_children_that_are_waited_for_are_counted_by_accounts(
    child_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(child_seconds, are_waited_for=True)
    spent = measure(machine, 100.0, monkeypatch)
    # What the program itself used is a thousandth of the time.
    assert spent == pytest.approx(machine.now * 1.001, abs=0.001)


def test_a_pid_that_is_used_again_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_time, "running_threads", lambda pid: 0.0)
    monkeypatch.setattr(processor_time, "reaped_seconds", lambda pid: 0.0)
    meter = ProcessorTime()
    meter.add_sample({9: 0}, [], INTERVAL_SECONDS)
    meter.add_sample({9: 5_000_000_000}, [], INTERVAL_SECONDS)
    assert meter.add_sample({9: 1_000_000_000}, [], INTERVAL_SECONDS) == 6.0
    assert meter.add_sample({}, [], INTERVAL_SECONDS) == 6.0
