"""Functions that cause many crashes and count how every call ended. They are used by
`tests/extension/test_many_crashes.py` and, with larger numbers, by `soak`."""

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
    """The resources of this program."""

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
class Account:
    """How the calls ended, and the resources before and after them."""

    calls: int
    ends: Counter[str]
    restarts: int
    before: Footprint
    after: Footprint

    def balances(self, megabytes: float = 5.0) -> bool:
        """Return whether each call ended once and the resources are the same as before."""
        same = (
            self.before.processes == self.after.processes
            and self.before.descriptors == self.after.descriptors
            and self.before.threads == self.after.threads
        )
        grown = self.after.megabytes - self.before.megabytes
        return same and sum(self.ends.values()) == self.calls and grown < megabytes


async def calls_with_crashes(calls: int, every: int, *, at_once: int = 10) -> Account:
    """Make this many calls. The process dies after each `every` calls."""
    async with hostile_extension(f"die_after={every}", restart=ALWAYS) as ext:
        await ext.call("echo", -1)
        before = Footprint.now()
        ends: Counter[str] = Counter()
        numbers = iter(range(calls))

        async def work() -> None:
            for n in numbers:
                ends[await _ended_in(ext, n)] += 1

        await asyncio.gather(*(work() for _ in range(at_once)))
        stats = ext.stats
        counts = Counter({name: getattr(stats, name) for name in OUTCOMES})
        assert +counts == ends + Counter(result=1)
        assert stats.in_flight == stats.waiting == 0
        await wait_until(lambda: ext.state == "ready" and ext.stats.pid is not None)
        return Account(calls, ends, stats.restarts, before, Footprint.now())


async def crash_cycles(times: int) -> Account:
    """Start a process, make one call, and end the process by the next call, this many times."""
    async with hostile_extension(restart=ALWAYS) as ext:
        await ext.call("echo", -1)
        before = Footprint.now()
        ends: Counter[str] = Counter()
        for n in range(times):
            ends[await _ended_in(ext, n)] += 1
            try:
                await ext.call("leave", {"code": 1})
            except ExtensionGone:
                ends["gone"] += 1
        await wait_until(lambda: ext.stats.restarts == times and ext.state == "ready")
        return Account(2 * times, ends, ext.stats.restarts, before, Footprint.now())


async def _ended_in(ext: Extension, n: int) -> str:
    try:
        answer: Any = await ext.call("echo", n, timeout=20)
    except ExtensionGone:
        return "gone"
    return "result" if answer == n else f"wrong: {answer!r}"
