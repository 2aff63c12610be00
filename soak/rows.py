"""The tests of the soak: each is a coroutine that returns a text about what it did, or raises.

They check, as the fault tests do, that every call ends exactly once, and that the outcomes that the
callers saw are those that the host counted.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from exthost.authoring.testing.fault_proxy import FAULTS
from exthost.authoring.testing.peers import PEERS, HostilePeer
from exthost.errors import ExtensionGone, ExthostError
from soak.cluster_rows import cluster_rows
from soak.row import Row
from soak.scale_rows import scale_rows
from tests.extensions.harness import check_call_counts
from tests.faults.harness import HostileRun, extension, frame, hurried
from tests.faults.recordings import count_bytes, record, replay

UNLIMITED = {"strategy": "immediate", "max_retries": "unlimited"}
MB = 1_000_000


class Callers:
    """Calls through one extension, and how each ended for its caller."""

    def __init__(self, peer: HostilePeer, folder: Path, *flags: str, **settings: Any) -> None:
        self.ext = extension(peer, folder, *flags, dialect=hurried(peer, 0.3), **settings)
        self._run = HostileRun(self.ext, peer, None)
        self.ends: Counter[str] = Counter()

    async def call(self, deed: str, value: Any = None, timeout: float = 60) -> str:
        try:
            answer = await self._run.do(deed, value=value, timeout=timeout)
        except ExtensionGone:
            end = "gone"
        except ExthostError as error:
            end = error.kind
        else:
            assert answer == value, f"asked for {value!r}, got {answer!r}"
            end = "result"
        self.ends[end] += 1
        return end

    def settle(self) -> None:
        """Check that the host counted what the callers saw, and that no call is left."""
        check_call_counts(self.ext, sum(self.ends.values()))
        stats = self.ext.stats
        observed = {"result": self.ends["result"], "gone": self.ends["gone"]}
        assert {name: getattr(stats, name) for name in observed} == observed, (self.ends, stats)


def crashes(peer: HostilePeer, cycles: int) -> Row:
    """Call, let the process die in a call, call again: that call waits for the next process."""

    async def run(folder: Path) -> str:
        callers = Callers(peer, folder, restart=UNLIMITED)
        await callers.ext.start()
        try:
            for n in range(cycles):
                assert await callers.call("echo", n) == "result"
                assert await callers.call("die") == "gone"
        finally:
            await callers.ext.close()
        callers.settle()
        restarts = callers.ext.stats.restarts
        assert cycles - 1 <= restarts <= cycles, restarts
        return f"{cycles:,} crashes, {restarts:,} restarts, {sum(callers.ends.values()):,} calls"

    return Row(f"{peer.dialect}: crash and restart", run)


def calls(peer: HostilePeer, total: int, every: int) -> Row:
    """Many callers at once, each of which tries again; the process exits regularly."""

    async def run(folder: Path) -> str:
        callers = Callers(peer, folder, f"die_after={every}", restart=UNLIMITED)
        numbers = iter(range(total))

        async def work() -> None:
            for n in numbers:
                while await callers.call("echo", n) != "result":
                    pass

        await callers.ext.start()
        try:
            await asyncio.gather(*(work() for _ in range(10)))
        finally:
            await callers.ext.close()
        callers.settle()
        assert callers.ends["result"] == total
        assert set(callers.ends) <= {"result", "gone"}, callers.ends
        gone, restarts = callers.ends["gone"], callers.ext.stats.restarts
        return f"{total:,} results, {gone:,} calls gone and sent again, {restarts:,} restarts"

    return Row(f"{peer.dialect}: a crash every {every} calls", run)


def stderr(peer: HostilePeer, size: int) -> Row:
    async def run(folder: Path) -> str:
        ext = extension(peer, folder, dialect=hurried(peer, 0.3))
        await ext.start()
        try:
            line = b"e" * 99 + b"\n"
            run = HostileRun(ext, peer, None)
            assert await run.spew((line, size // len(line)), fd=2, timeout=300) == "spewed"
            await run.check_answers()
        finally:
            await ext.close()
        return f"{size // MB:,} MB read away"

    return Row(f"{peer.dialect}: flood on stderr", run)


def notices(peer: HostilePeer, times: int) -> Row:
    async def run(folder: Path) -> str:
        assert peer.notification is not None
        ext = extension(peer, folder, dialect=hurried(peer, 0.3))
        await ext.start()
        try:
            run = HostileRun(ext, peer, None)
            report = frame(peer, peer.notification)
            assert await run.spew((report, times), timeout=300) == "spewed"
            await run.check_answers()
        finally:
            await ext.close()
        return f"{times:,} notices"

    return Row(f"{peer.dialect}: notices", run)


def faults(peer: HostilePeer) -> Row:
    """Every fault at every byte of a conversation."""

    async def run(folder: Path) -> str:
        recording = await record(peer, folder)
        turns = asyncio.Semaphore(6)
        tried = 0

        async def one(fault: str, at: int) -> None:
            nonlocal tried
            async with turns, asyncio.timeout(60):
                await replay(peer, folder, recording, fault, at)
                tried += 1

        size = count_bytes(recording)
        await asyncio.gather(*(one(fault, at) for fault in FAULTS for at in range(size)))
        return f"{len(FAULTS)} faults at {size} bytes: {tried:,} conversations, each call ended"

    return Row(f"{peer.dialect}: a fault at every byte", run, flat=False)


def rows(scale: float) -> list[Row]:
    """Return all rows. `scale` 1 is the full size."""

    def of(number: int) -> int:
        return max(10, int(number * scale))

    first, *others = PEERS.values()
    return [
        crashes(first, of(1000)),
        calls(first, of(100_000), 100),
        *(crashes(peer, of(50)) for peer in others),
        *(calls(peer, of(2_000), 100) for peer in others),
        *(stderr(peer, of(1000 if peer is first else 100) * MB) for peer in PEERS.values()),
        # A flood, of which the host reads some thousands a second: about twenty seconds.
        *(notices(peer, of(80_000)) for peer in PEERS.values() if peer.notification is not None),
        *(faults(peer) for peer in PEERS.values()),
        *cluster_rows(max(1, int(20 * scale))),
        *scale_rows(scale),
    ]
