"""The processor time of an extension, including that of processes which have ended.

The kernel adds the time of an ended child to its parent, but only if the parent waits for it (reaps
it). The time of other children is estimated from samples. Here a simulated machine has samples at
random intervals, and a program whose children follow each other without a pause.
"""

import random
from collections.abc import Mapping

import pytest

from exthost.process import processor_time
from exthost.process.processor_time import ProcessorTime

INTERVAL_SECONDS = 0.02
INIT = 1
PROGRAM = 2


class Machine:
    """One processor, on which a program runs one child after the other for the same time each."""

    def __init__(self, child_seconds: float, *, are_reaped: bool) -> None:
        self.child_seconds = child_seconds
        self.are_reaped = are_reaped
        self.now = 0.0

    def clocks(self) -> Mapping[int, int]:
        """Return the processor time of each live process, in nanoseconds."""
        number, age = divmod(self.now, self.child_seconds)
        return {PROGRAM: 0, 100 + int(number): int(age * 1e9)}

    def reaped_seconds(self, pid: int) -> float:
        ended = self.now - self.now % self.child_seconds
        return ended if pid == PROGRAM and self.are_reaped else 0.0


def measure(machine: Machine, seconds: float, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return the measured processor time after `seconds` in which the processor was always busy."""
    monkeypatch.setattr(processor_time, "running_threads", lambda pid: float(pid != PROGRAM))
    monkeypatch.setattr(processor_time, "reaped_seconds", machine.reaped_seconds)
    rng = random.Random(7)
    meter, spent = ProcessorTime(), 0.0
    while machine.now < seconds:
        interval = rng.uniform(0, 2 * INTERVAL_SECONDS)
        machine.now += interval
        # The program itself runs a little, because a process that did not run is not read.
        clocks = {**machine.clocks(), PROGRAM: int(machine.now * 1e6)}
        spent = meter.add_sample(clocks, [INIT], 2 * INTERVAL_SECONDS - interval)
    return spent


@pytest.mark.parametrize("child_seconds", [0.0003, 0.002, 0.015, 0.1, 3.0])
def test_the_time_of_children_that_are_not_reaped_is_estimated(
    child_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = measure(Machine(child_seconds, are_reaped=False), 100.0, monkeypatch)
    assert 90 < spent < 110, spent  # within ten percent of 100 seconds


@pytest.mark.parametrize("child_seconds", [0.0003, 0.002, 0.015, 0.1, 3.0])
def test_the_time_of_reaped_children_is_read_from_their_parent(
    child_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(child_seconds, are_reaped=True)
    spent = measure(machine, 100.0, monkeypatch)
    # The program itself used a thousandth of the time.
    assert spent == pytest.approx(machine.now * 1.001, abs=0.001)


def test_a_pid_that_is_used_again_counts_as_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor_time, "running_threads", lambda pid: 0.0)
    monkeypatch.setattr(processor_time, "reaped_seconds", lambda pid: 0.0)
    meter = ProcessorTime()
    meter.add_sample({9: 0}, [], INTERVAL_SECONDS)
    meter.add_sample({9: 5_000_000_000}, [], INTERVAL_SECONDS)
    assert meter.add_sample({9: 1_000_000_000}, [], INTERVAL_SECONDS) == 6.0
    assert meter.add_sample({}, [], INTERVAL_SECONDS) == 6.0
