"""Sums up what the processes of an extension have together, and ends it when that is too much.

One thread looks for all extensions of this program, as long as there is one with a ceiling: the
kernel is asked through a handful of small files for each process, which the event loop should not
wait for. What it finds it tells the loop, and the loop ends the extension: nobody else touches it.

Memory is what is resident, process by process; pages that processes share count for each of them.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from exthost.model import Ceiling
from exthost.process.leash import children_of, descendants

__all__ = ["watch"]

# How often each extension is looked at: a hog can take a hundred megabytes in that time.
INTERVAL_SECONDS = 0.025

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class _Watched(NamedTuple):
    pid: int
    wrapped: bool
    ceiling: Ceiling
    exceeded: Callable[[str], object]


_watched: dict[int, _Watched] = {}
_lock = threading.Lock()
_thread: threading.Thread | None = None


def watch(
    pid: int, wrapped: bool, ceiling: Ceiling, exceeded: Callable[[str], object]
) -> Callable[[], None]:
    """Look after the processes from `pid` down, which with `wrapped` is not the extension's own;
    `exceeded` is told once, in the watchdog's thread, which limit was passed and how. Returns what
    ends it."""
    global _thread
    entry = _Watched(pid, wrapped, ceiling, exceeded)
    with _lock:
        _watched[id(entry)] = entry
        if _thread is None or not _thread.is_alive():  # a fork takes no threads along
            _thread = threading.Thread(target=_look, name="exthost watchdog", daemon=True)
            _thread.start()

    def leave() -> None:
        with _lock:
            _watched.pop(id(entry), None)

    return leave


def _look() -> None:
    global _thread
    while True:
        with _lock:
            entries = dict(_watched)
            if not entries:
                _thread = None
                return
        for key, entry in entries.items():
            if why := _verdict(entry):
                with _lock:
                    told = _watched.pop(key, None)
                if told is not None:
                    with suppress(RuntimeError):  # its loop is closed, and it with it
                        entry.exceeded(why)
        time.sleep(INTERVAL_SECONDS)


def _verdict(entry: _Watched) -> str:
    pids = _processes(entry.pid, entry.wrapped)
    memory, processes = entry.ceiling
    if processes is not None and len(pids) > processes:
        return f"it had {len(pids)} processes at a time (limits.nproc is {processes})"
    if memory is not None:
        held = sum(map(resident_bytes, pids))
        if held > memory:
            of = f"{len(pids)} processes of its" if len(pids) > 1 else "it"
            return f"{of} held {_megabytes(held)} (permissions.max_memory is {_megabytes(memory)})"
    return ""


def _processes(pid: int, wrapped: bool) -> list[int]:
    """The processes of an extension. Of a namespace, what its first process started or adopted:
    the wrapper and that first process are ours."""
    if wrapped:
        return descendants(*(below for init in children_of(pid) for below in children_of(init)))
    return descendants(pid)


def resident_bytes(pid: int) -> int:
    """What a process has in memory; nothing when it is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - twenty times a second
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _megabytes(count: int) -> str:
    return f"{count / 2**20:.0f} MB"
