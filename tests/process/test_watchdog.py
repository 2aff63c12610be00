"""The watchdog, a thread that measures all processes of an extension at short intervals.

An extension has a Ceiling: limits for the memory, processes, sockets and processor time of all its
processes together. The watchdog reports the limit that is exceeded ("" for none), and the host then
ends the extension. It measures only what has run since the last sample, by the processor time
("clock") of each process.
"""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from exthost.model.launch_plan import Ceiling
from exthost.process import extension_memory, procfs, watchdog

GIB = 2**30


@pytest.fixture
def sleeper() -> Iterator[int]:
    """Yield the pid of a process that runs only when it gets a signal."""
    code = "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: None); print(flush=True)\n"
    code += "while True: signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_a_process_that_does_not_run_is_not_measured_again(
    sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_pids: list[int] = []
    real_descendants = procfs.descendants

    def descendants(pid: int) -> dict[int, int]:
        measured_pids.append(pid)
        return real_descendants(pid)

    monkeypatch.setattr(watchdog, "descendants", descendants)
    entry = watchdog._Watched(sleeper, False, Ceiling(memory=GIB, cpu=99), (), lambda limit: None)
    while not _is_idle(entry, measured_pids):
        pass  # the interpreter may still be starting
    assert measured_pids
    before = len(measured_pids)
    # The signal makes the process run for a moment, so it is measured once more.
    os.kill(sleeper, signal.SIGUSR1)
    while len(measured_pids) == before:  # the time limit of the test ends this loop
        assert entry.find_exceeded_limit(0) == ""


def _is_idle(entry: watchdog._Watched, measured_pids: list[int]) -> bool:
    before = len(measured_pids)
    assert entry.find_exceeded_limit(0) == ""
    return len(measured_pids) == before


def test_processes_that_have_ended_exceed_no_limit(
    sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "descendants", lambda pid: {pid: procfs.ENDED})
    ceiling = Ceiling(memory=1, processes=0, cpu=1)
    entry = watchdog._Watched(sleeper, False, ceiling, (), lambda limit: None)
    assert [entry.find_exceeded_limit(0) for _ in range(5)] == [""] * 5


def test_a_kernel_without_clocks_of_other_processes_is_supported(
    sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(clock: int) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    exact_clock = procfs.process_clock(sleeper)
    monkeypatch.setattr(time, "clock_gettime_ns", refuse)
    # The other source has a resolution of 10 ms; the clocks are in nanoseconds.
    assert abs(procfs.process_clock(sleeper) - exact_clock) < 50_000_000
    assert procfs.process_clock(2**22 + 1) == procfs.ENDED


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PermissionError(13, "Permission denied", "/proc/9/maps"), "/proc/9/maps: Permission den"),
        (OverflowError(), "too many mappings"),
    ],
)
def test_memory_that_cannot_be_measured_exceeds_the_limit(
    sleeper: int, error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int) -> None:
        raise error

    monkeypatch.setattr(extension_memory, "shared_mappings", refuse)
    reasons: list[str] = []
    ended = threading.Event()

    def on_exceeded(limit: str) -> None:
        reasons.append(limit)
        ended.set()

    stop = watchdog.watch(sleeper, False, Ceiling(memory=GIB), on_exceeded)
    try:
        assert ended.wait(30)
    finally:
        stop()
    assert "its memory cannot be measured" in reasons[0] and reason in reasons[0]


@pytest.mark.parametrize(
    ("ceiling", "clocks", "reason"),
    [
        (Ceiling(processes=2), {1: 0, 2: 0}, ""),
        (
            Ceiling(processes=2),
            {1: 0, 2: 0, 3: 0},
            "it had 3 processes at once (limits.nproc is 2)",
        ),
        (Ceiling(memory=GIB), {1: 0}, ""),
        (Ceiling(memory=GIB - 1), {1: 0}, "it used 1024 MiB of memory ("),
        (Ceiling(memory=GIB - 1), {1: 0, 2: 0}, "its 2 processes used 1024 MiB of memory ("),
        (Ceiling(sockets=5), {1: 0}, ""),
        (Ceiling(sockets=4), {1: 0}, "it had 5 sockets, whose buffers are memory ("),
    ],
)
def test_a_value_above_the_ceiling_is_reported(
    ceiling: Ceiling, clocks: dict[int, int], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ceiling, with the largest value that it allows and with the next larger one."""
    entry = watchdog._Watched(1, False, ceiling, (), lambda limit: None)
    monkeypatch.setattr(extension_memory.ExtensionMemory, "measure", lambda *_: GIB)
    monkeypatch.setattr(watchdog, "count_sockets", lambda init: 5)
    exceeded_limit = entry._compare(clocks, [1], 1.0)
    assert exceeded_limit.startswith(reason) and bool(exceeded_limit) == bool(reason)
