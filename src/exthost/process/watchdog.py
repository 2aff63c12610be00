"""Enforces limits for all processes of an extension together, by reading /proc at short intervals.

One thread watches all extensions that have such limits (a `Ceiling`). It reads a few small files
for each process, which would block an event loop. When an extension exceeds a limit, the thread
notifies the event loop, and the event loop kills the extension.

- Memory is the resident memory of all processes, and the content of the sandbox's private file
  systems. A page that several processes share is counted once for each of them.
- The buffers of sockets belong to no process. So the number of sockets is limited instead, where
  the extension has a network namespace of its own.
- Processor time includes that of processes which have ended.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from exthost.launch_plan import Ceiling
from exthost.process.procfs import (
    children_of,
    count_sockets,
    cpu_seconds,
    descendants,
    mounted_bytes,
    resident_bytes,
)

__all__ = ["watch"]

# The interval between two samples. In that time a program can allocate about a hundred megabytes.
INTERVAL_SECONDS = 0.025

# The watchdog waits this much longer than the kernel, which sends SIGXCPU to a single process at
# the limit: the process may handle that signal.
_CPU_GRACE_SECONDS = 0.25


class _Watched(NamedTuple):
    """The arguments of `watch` for one extension."""

    pid: int
    is_wrapped: bool
    ceiling: Ceiling
    mounts: tuple[str, ...]
    on_exceeded: Callable[[str], object]


_watched: dict[int, _Watched] = {}
_lock = threading.Lock()
_thread: threading.Thread | None = None


def watch(
    pid: int,
    is_wrapped: bool,
    ceiling: Ceiling,
    on_exceeded: Callable[[str], object],
    mounts: tuple[str, ...] = (),
) -> Callable[[], None]:
    """Watch a process and its descendants. Return a function that stops watching.

    is_wrapped   the process is a wrapper, which makes a namespace, and its child our init, the
                 first process in it (`sandbox/init.c`); these two are not counted
    on_exceeded  is called once, in the watchdog's thread, with a description of the limit
    mounts       private file systems in memory of the sandbox, whose content is counted as memory
    """
    global _thread
    entry = _Watched(pid, is_wrapped, ceiling, mounts, on_exceeded)
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
            if limit := _find_exceeded_limit(entry):
                with _lock:
                    is_watched = _watched.pop(key, None) is not None
                if is_watched:
                    with suppress(RuntimeError):  # its event loop is closed
                        entry.on_exceeded(limit)
        time.sleep(INTERVAL_SECONDS)


def _find_exceeded_limit(entry: _Watched) -> str:
    """Return a description of the limit that the extension exceeds; "" if it exceeds none."""
    inits = children_of(entry.pid) if entry.is_wrapped else []
    pids = _list_processes(entry.pid, inits, entry.is_wrapped)
    memory, processes, cpu, sockets = entry.ceiling
    if processes is not None and len(pids) > processes:
        return f"it had {len(pids)} processes at once (limits.nproc is {processes})"
    if memory is not None:
        used = sum(map(resident_bytes, pids))
        if entry.mounts and pids:
            used += mounted_bytes(pids[0], entry.mounts)
        if used > memory:
            who = f"its {len(pids)} processes" if len(pids) > 1 else "it"
            limit = f"permissions.max_memory is {_mebibytes(memory)}"
            return f"{who} used {_mebibytes(used)} of memory ({limit})"
    if sockets is not None and pids and (count := count_sockets(pids[0])) > sockets:
        return f"it had {count} sockets, whose buffers are memory (max_memory allows {sockets})"
    if cpu is not None:
        # Our init reaps processes whose parents have ended, so their time is added to its own.
        reaped = sum(cpu_seconds(init, only_reaped=True) for init in inits)
        spent = reaped + sum(map(cpu_seconds, pids))
        if spent > cpu + _CPU_GRACE_SECONDS:
            return f"its processes used {spent:.1f} s of processor time (limits.cpu is {cpu:g} s)"
    return ""


def _list_processes(pid: int, inits: list[int], is_wrapped: bool) -> list[int]:
    """Return the processes of an extension, without the wrapper and our init."""
    if is_wrapped:
        return descendants(*(below for init in inits for below in children_of(init)))
    return descendants(pid)


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"
