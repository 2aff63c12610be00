"""Enforces limits for all processes of an extension together, by sampling them at short intervals.

One thread watches all extensions that have such limits (a `Ceiling`). It reads a few small files
for each process, which would block an event loop. When an extension exceeds a limit, the thread
notifies the event loop, and the event loop kills the extension. The wrapper processes that make a
namespace do not count, nor does our init, the first process in it (`launch/sandbox/init.c`).

- An extension is measured only if one of its processes has run since the last sample. Its clocks
  show that, and reading them takes a microsecond each.
- Memory is the sum over all processes, and the content of the sandbox's private file systems
  (`extension_memory`). A page that several processes share is counted once for each of them.
- The buffers of sockets belong to no process. So the number of sockets is limited instead, where
  the extension has a network namespace of its own.
- Processor time includes that of processes which have ended (`processor_time`).

The intervals are random, because an extension that foresees a sample could hide from it.
"""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from exthost.model.launch_plan import Ceiling
from exthost.process.extension_memory import ExtensionMemory
from exthost.process.processor_time import ProcessorTime
from exthost.process.procfs import (
    ENDED,
    count_sockets,
    descendants,
    process_clock,
    wrapper_processes,
)

# The mean interval between two samples. An interval is at most twice as long. In that time a
# program can allocate about a hundred megabytes.
INTERVAL_SECONDS = 0.02

# The watchdog waits this much longer than the kernel, which sends SIGXCPU to a single process at
# the limit: the process may handle that signal.
_CPU_GRACE_SECONDS = 0.25


class _Watched:
    """An extension that is watched. The arguments are those of `watch`."""

    def __init__(
        self,
        pid: int,
        wrappers: int,
        ceiling: Ceiling,
        mounts: tuple[str, ...],
        on_exceeded: Callable[[str], object],
    ) -> None:
        self.on_exceeded = on_exceeded
        self._pid = pid
        self._wrappers = wrappers
        self._ceiling = ceiling
        self._memory = ExtensionMemory(mounts)
        self._processor_time = ProcessorTime()
        # All processes at the last sample, with the wrapper and our init, each with its clock.
        self._clocks: dict[int, int] = {}
        self._sampled_at = time.monotonic()

    def find_exceeded_limit(self, pause_seconds: float) -> str:
        """Return a description of the limit that the extension exceeds; "" if it exceeds none.
        `pause_seconds` is how long the thread slept before this sample, by its random choice."""
        previously_sampled_at = self._sampled_at
        self._sampled_at = time.monotonic()
        if not self._has_run():
            return ""
        # The time that this sample stands for is the inverse of its density. A pause is uniform
        # from 0 to twice the mean. After `pause_seconds` without a sample, the density is 1 /
        # (twice the mean - pause_seconds), so what an extension does at that moment counts that
        # much, even if it knew when the last sample was. The rest of the time was not random.
        late_seconds = self._sampled_at - previously_sampled_at - pause_seconds
        interval = 2 * INTERVAL_SECONDS - pause_seconds + max(late_seconds, 0.0)
        self._clocks = clocks = descendants(self._pid)
        if clocks[self._pid] == ENDED:
            return ""  # it was reaped, or this system cannot measure anything
        wrappers = wrapper_processes(self._pid, self._wrappers)
        clocks = {pid: clock for pid, clock in clocks.items() if pid not in wrappers.every}
        try:
            return self._compare(clocks, wrappers.inits, interval)
        except OverflowError:
            return "its memory cannot be measured: it has too many mappings"
        except PermissionError as error:
            return f"its memory cannot be measured ({error.filename}: {error.strerror})"

    def _has_run(self) -> bool:
        """Return whether a process has run since the last sample, or there was none."""
        return not self._clocks or any(
            clock == ENDED or process_clock(pid) != clock for pid, clock in self._clocks.items()
        )

    def _compare(self, clocks: dict[int, int], inits: list[int], interval: float) -> str:
        """Return a description of the limit that these processes exceed; "" if there is none."""
        memory, processes, cpu, sockets = self._ceiling
        count = len(clocks)
        if processes is not None and count > processes:
            return f"it had {count} processes at once (limits.nproc is {processes})"
        # While there are other processes, our init has not ended.
        init = inits[0] if inits and clocks else None
        if memory is not None and (used := self._memory.measure(clocks, init)) > memory:
            who = f"its {count} processes" if count > 1 else "it"
            limit = f"permissions.max_memory is {_mebibytes(memory)}"
            return f"{who} used {_mebibytes(used)} of memory ({limit})"
        if sockets is not None and init is not None and (count := count_sockets(init)) > sockets:
            return f"it had {count} sockets, whose buffers are memory (max_memory allows {sockets})"
        if cpu is not None:
            spent = self._processor_time.add_sample(clocks, inits, interval)
            if spent > cpu + _CPU_GRACE_SECONDS:
                limit = f"limits.cpu is {cpu:g} s"
                return f"its processes used {spent:.1f} s of processor time ({limit})"
        return ""


_watched: dict[int, _Watched] = {}
_lock = threading.Lock()
_thread: threading.Thread | None = None


def watch(
    pid: int,
    wrappers: int,
    ceiling: Ceiling,
    on_exceeded: Callable[[str], object],
    mounts: tuple[str, ...] = (),
) -> Callable[[], None]:
    """Watch a process and its descendants. Return a function that stops watching.

    wrappers     how many processes are around our init, the first process of a namespace
                 (`sandbox/init.c`); neither they nor our init are counted; 0 for no namespace
    on_exceeded  is called once, in the watchdog's thread, with a description of the limit
    mounts       private file systems in memory of the sandbox, whose content is counted as memory
    """
    global _thread
    entry = _Watched(pid, wrappers, ceiling, mounts, on_exceeded)
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
    """Sample all watched extensions, at random intervals, until there are none."""
    global _thread
    pause = 0.0
    while True:
        with _lock:
            entries = dict(_watched)
            if not entries:
                _thread = None
                return
        for key, entry in entries.items():
            if limit := entry.find_exceeded_limit(pause):
                with _lock:
                    is_watched = _watched.pop(key, None) is not None
                if is_watched:
                    with suppress(RuntimeError):  # its event loop is closed
                        entry.on_exceeded(limit)
        pause = random.uniform(0, 2 * INTERVAL_SECONDS)
        time.sleep(pause)


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"
