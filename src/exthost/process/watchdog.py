"""Enforces limits over all processes of an extension, by looking at /proc at short intervals.

One thread serves all extensions with a ceiling. It reads a few small files for each process, which
would block an event loop. When an extension exceeds its ceiling, the thread tells the event loop,
and the loop kills the extension: no other thread touches it.

Memory is resident memory, summed over processes. Shared pages count once for each process.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from exthost.model import Ceiling
from exthost.process.procfs import children_of, descendants, resident_bytes

__all__ = ["watch"]

# The interval between two looks at an extension. A program can allocate a hundred megabytes in it.
INTERVAL_SECONDS = 0.025


class _Watched(NamedTuple):
    pid: int
    is_wrapped: bool
    ceiling: Ceiling
    on_exceeded: Callable[[str], object]


_watched: dict[int, _Watched] = {}
_lock = threading.Lock()
_thread: threading.Thread | None = None


def watch(
    pid: int, is_wrapped: bool, ceiling: Ceiling, on_exceeded: Callable[[str], object]
) -> Callable[[], None]:
    """Watch the processes below `pid`. If `is_wrapped`, the first two are the wrapper and our init,
    and do not count. `on_exceeded` is called once, in the watchdog's thread, with a description of
    the limit. Return a function that stops watching."""
    global _thread
    entry = _Watched(pid, is_wrapped, ceiling, on_exceeded)
    with _lock:
        _watched[id(entry)] = entry
        if _thread is None or not _thread.is_alive():  # a fork does not copy threads
            _thread = threading.Thread(target=_run, name="exthost watchdog", daemon=True)
            _thread.start()

    def stop() -> None:
        with _lock:
            _watched.pop(id(entry), None)

    return stop


def _run() -> None:
    global _thread
    while True:
        with _lock:
            entries = dict(_watched)
            if not entries:
                _thread = None
                return
        for key, entry in entries.items():
            if limit := _exceeded(entry):
                with _lock:
                    is_watched = _watched.pop(key, None) is not None
                if is_watched:
                    with suppress(RuntimeError):  # its event loop is closed
                        entry.on_exceeded(limit)
        time.sleep(INTERVAL_SECONDS)


def _exceeded(entry: _Watched) -> str:
    """Return the limit that the extension exceeds, described for a person; "" if none."""
    pids = _processes(entry.pid, entry.is_wrapped)
    memory, processes = entry.ceiling
    if processes is not None and len(pids) > processes:
        return f"it had {len(pids)} processes at a time (limits.nproc is {processes})"
    if memory is not None:
        used = sum(map(resident_bytes, pids))
        if used > memory:
            who = f"its {len(pids)} processes" if len(pids) > 1 else "it"
            limit = f"permissions.max_memory is {_megabytes(memory)}"
            return f"{who} used {_megabytes(used)} of memory ({limit})"
    return ""


def _processes(pid: int, is_wrapped: bool) -> list[int]:
    """Return the processes of an extension, without the wrapper and our init."""
    if is_wrapped:
        return descendants(*(below for init in children_of(pid) for below in children_of(init)))
    return descendants(pid)


def _megabytes(count: int) -> str:
    return f"{count / 2**20:.0f} MB"
