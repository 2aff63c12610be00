"""The rows about processes on nodes: something is killed again and again under 200 calls a second.

Every call ends exactly once, for its caller and in the host's own account, and nothing is left.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from soak.row import Row
from tests.cluster import test_node_loss
from tests.cluster.load import Load


def cluster_rows(rounds: int) -> list[Row]:
    """Return the rows, each of which kills this often."""
    rows = [
        _row(f"nodes: SIGKILL of {what}", partial(_killed, what, rounds))
        for what in test_node_loss.KILLS
    ]
    rows.append(_row("nodes: SIGKILL of the host", partial(_host_killed, rounds)))
    return rows


def _row(name: str, run: Callable[[], Awaitable[str]]) -> Row:
    return Row(name, lambda _: run(), flat=False)


async def _killed(what: str, rounds: int) -> str:
    load, counts = await test_node_loss.repeated(what, rounds)
    assert counts["calls"] == load.made and counts["result"] == load.ends["result"]
    return _summary(load, rounds)


async def _host_killed(rounds: int) -> str:
    for _ in range(rounds):
        await asyncio.to_thread(test_node_loss.kill_host)
    return f"{rounds} hosts killed, nothing left of any"


def _summary(load: Load, rounds: int) -> str:
    ends = ", ".join(f"{count:,} {name}" for name, count in sorted(load.ends.items()))
    return f"killed {rounds} times: {load.made:,} calls, each ended once: {ends}"
