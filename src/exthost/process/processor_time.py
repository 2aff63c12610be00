"""Sums up the processor time of an extension, with that of its processes that have ended.

The kernel adds the time of a process that has ended to that of its parent, but only if the parent
waits for it. A parent that ignores SIGCHLD does not wait, and then the time is in no account. So
the watchdog (`process.watchdog`) also samples the processes. For processes that have ended, the
largest of three sums counts:

- the time of the processes that their parents have waited for, which the kernel measures exactly.
  One of the parents is our init, the first process of the namespace, a program of the host;
- what the clock of each process showed at its last sample, which lacks the time after the sample;
- an estimate, less three standard deviations. It counts only if it is clearly larger than the
  first sum, so that chance does not end an extension whose processes are all waited for.

For the estimate, a process is charged for the time between two samples whenever it is seen on a
processor. A process whose life is a hundredth of that time is seen once in a hundred times, so the
sum over many processes is right, whatever the length of their lives is. Only the first samples of a
process are taken in this way. From then on its clock is precise enough.

The estimate is right on average if the extension cannot foresee the moments of the samples
(`watchdog`). A limit of 1 s is then noticed after about 2 s, a limit of 60 s after about 65 s.
While all processors are busy with other work, the host wakes up late, and the samples miss up to a
third.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exthost.process.procfs import ENDED, reaped_seconds, running_threads

_DEVIATIONS = 3

# The estimate counts if the sum that parents have waited for is less than this share of it. On a
# busy machine, where the samples are not quite independent of what runs, it can be too large.
_CLEAR_SHARE = 0.75

# How many samples of a process are taken for the estimate before its clock is used.
_ESTIMATED_SAMPLES = 8


@dataclass(slots=True)
class _Process:
    """A process that runs, or that has ended and was not waited for.

    clock     its processor time in nanoseconds at the last sample
    reaped    the processor time in seconds of the children that it has waited for
    samples   in how many samples it was seen
    estimate  its processor time in seconds, by samples
    variance  the variance of the estimate
    """

    clock: int = 0
    reaped: float = 0.0
    samples: int = 0
    estimate: float = 0.0
    variance: float = 0.0


class ProcessorTime:
    """The processor time of all processes of one extension."""

    __slots__ = ("_estimated", "_measured", "_processes", "_variance")

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        # Sums over the processes that have ended: their seconds by their clocks, their seconds by
        # the estimate, and the variance of the latter.
        self._measured = self._estimated = self._variance = 0.0

    def add_sample(
        self, clocks: Mapping[int, int], inits: Iterable[int], interval_seconds: float
    ) -> float:
        """Add a sample, and return the processor time of the extension so far, in seconds.

        clocks            the pids of the processes at this moment, each with its processor time in
                          nanoseconds, or ENDED
        inits             the pid of our init, if there is a namespace; it is not in `clocks`
        interval_seconds  the time between two samples that this one stands for
        """
        processes = self._processes
        # A missing process counts as ENDED, which is less than every clock. A smaller clock than
        # before is that of a new process with the same pid.
        for pid in [pid for pid in processes if clocks.get(pid, ENDED) < processes[pid].clock]:
            self._end(processes.pop(pid))
        for pid, clock in clocks.items():
            process = processes.setdefault(pid, _Process())
            self._sample(pid, process, clock, interval_seconds)
            if clock == ENDED:
                self._end(processes.pop(pid))
        running = sum(process.clock for process in processes.values()) / 1e9
        reaped = sum(process.reaped for process in processes.values())
        reaped += sum(map(reaped_seconds, inits))
        estimated = self._estimated - _DEVIATIONS * math.sqrt(self._variance)
        is_clear = reaped < _CLEAR_SHARE * estimated
        return running + max(reaped, self._measured, estimated if is_clear else 0.0)

    def _sample(self, pid: int, process: _Process, clock: int, interval_seconds: float) -> None:
        """Add a sample of one process."""
        clock = max(clock, process.clock)
        if process.samples < _ESTIMATED_SAMPLES:
            charge = interval_seconds * running_threads(pid)
            process.estimate += charge
            # Whether a process is seen is a matter of chance. This is the variance of a charge that
            # is seldom made, as for processes with short lives.
            process.variance += charge**2
        else:
            process.estimate += (clock - process.clock) / 1e9
        if not process.samples or clock != process.clock:  # only a process that runs can wait
            process.reaped = reaped_seconds(pid)
        process.clock = clock
        process.samples += 1

    def _end(self, process: _Process) -> None:
        self._measured += process.clock / 1e9
        self._estimated += process.estimate
        self._variance += process.variance
