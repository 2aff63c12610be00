"""Functions that crash an extension many times and count how every call ended.

Each call must end exactly once, and no process, descriptor, thread or
memory may remain.
"""

import asyncio
import gc
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exthost.errors import ExtensionGone
from exthost.extension.extension import Extension
from tests.extensions.harness import OUTCOMES, hostile_extension, wait_until
from tests.extensions.proc import our_descriptors, our_processes, our_threads

# Restart after each crash, without a delay and without a limit.
ALWAYS = {"strategy": "immediate", "max_retries": "unlimited"}


@dataclass(frozen=True, slots=True)
class Footprint:
    """The resources that this process uses."""

    processes: int
    descriptors: int
    threads: int
    megabytes: float

    @classmethod
    def now(cls) -> "Footprint":
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        return cls(len(our_processes()), len(our_descriptors()), len(our_threads()), memory)


@dataclass(frozen=True, slots=True)
class CrashReport:
    """How the calls ended, and the resources before and after them."""

    calls: int
    outcomes: Counter[str]
    restarts: int
    before: Footprint
    after: Footprint

    def is_clean(self, megabytes: float = 5.0) -> bool:
        """Return whether each call ended once and the resources are the same as before."""
        has_same_resources = (
            self.before.processes == self.after.processes
            and self.before.descriptors == self.after.descriptors
            and self.before.threads == self.after.threads
        )
        growth = self.after.megabytes - self.before.megabytes
        return (
            has_same_resources and sum(self.outcomes.values()) == self.calls and growth < megabytes
        )


async def calls_with_crashes(calls: int, every: int, *, at_once: int = 10) -> CrashReport:
    """Make this many calls. The process dies after each `every` calls."""
    async with hostile_extension(f"die_after={every}", restart=ALWAYS) as ext:
        await ext.call("echo", -1)
        before = Footprint.now()
        outcomes: Counter[str] = Counter()
        numbers = iter(range(calls))

        async def make_calls() -> None:
            for n in numbers:
                outcomes[await _call_echo(ext, n)] += 1

        await asyncio.gather(*(make_calls() for _ in range(at_once)))
        stats = ext.stats
        counts = Counter({name: getattr(stats, name) for name in OUTCOMES})
        assert +counts == outcomes + Counter(result=1)
        assert stats.in_flight == stats.waiting == 0
        await wait_until(lambda: ext.state == "ready" and ext.stats.pid is not None)
        return CrashReport(calls, outcomes, stats.restarts, before, Footprint.now())


async def crash_cycles(times: int) -> CrashReport:
    """Start a process, make one call, and end the process by the next call, this many times."""
    async with hostile_extension(restart=ALWAYS) as ext:
        await ext.call("echo", -1)
        before = Footprint.now()
        outcomes: Counter[str] = Counter()
        for n in range(times):
            outcomes[await _call_echo(ext, n)] += 1
            try:
                await ext.call("leave", {"code": 1})
            except ExtensionGone:
                outcomes["gone"] += 1
        await wait_until(lambda: ext.stats.restarts == times and ext.state == "ready")
        return CrashReport(2 * times, outcomes, ext.stats.restarts, before, Footprint.now())


async def _call_echo(ext: Extension, n: int) -> str:
    """Call `echo`, and return how the call ended."""
    try:
        answer: Any = await ext.call("echo", n, timeout=20)
    except ExtensionGone:
        return "gone"
    return "result" if answer == n else f"wrong: {answer!r}"
