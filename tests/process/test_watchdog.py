"""The watchdog measures what has run, and fails closed where it cannot measure."""

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
    """A process that runs only when it gets a signal."""
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
    measured: list[int] = []
    really = procfs.descendants

    def descendants(pid: int) -> dict[int, int]:
        measured.append(pid)
        return really(pid)

    monkeypatch.setattr(watchdog, "descendants", descendants)
    entry = watchdog._Watched(sleeper, False, Ceiling(memory=GIB, cpu=99), (), lambda limit: None)
    while not _is_idle(entry, measured):
        pass  # the interpreter may not sleep yet
    assert measured
    before = len(measured)
    os.kill(sleeper, signal.SIGUSR1)
    while len(measured) == before:  # bounded by the time limit of a test
        assert entry.find_exceeded_limit(0) == ""


def _is_idle(entry: watchdog._Watched, measured: list[int]) -> bool:
    before = len(measured)
    assert entry.find_exceeded_limit(0) == ""
    return len(measured) == before


def test_where_nothing_can_be_measured_nothing_is_ended(
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

    exact = procfs.process_clock(sleeper)
    monkeypatch.setattr(time, "clock_gettime_ns", refuse)
    assert abs(procfs.process_clock(sleeper) - exact) < 50_000_000
    assert procfs.process_clock(2**22 + 1) == procfs.ENDED


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (PermissionError(13, "Permission denied", "/proc/9/maps"), "/proc/9/maps: Permission den"),
        (OverflowError(), "too many mappings"),
    ],
)
def test_memory_that_cannot_be_measured_is_a_reason_to_end(
    sleeper: int, error: Exception, why: str, monkeypatch: pytest.MonkeyPatch
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
    assert "its memory cannot be measured" in reasons[0] and why in reasons[0]
