"""The tests of the soak with processes on nodes: nodes or processes are killed again and again
while 200 calls a second are made.

Every call must end exactly once, for its caller and in the statistics of the host, and no process
may be left over. The tests with Ray exist only if Ray is installed.
"""

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable
from functools import partial

from soak.row import Row
from tests.cluster import ray_loss, test_node_loss
from tests.cluster.load import Load


def cluster_rows(rounds: int) -> list[Row]:
    """Return the rows, each of which kills this often."""
    rows = [
        _row(f"nodes: SIGKILL of {what}", partial(_killed, what, rounds))
        for what in test_node_loss.KILLS
    ]
    rows.append(_row("nodes: SIGKILL of the host", partial(_host_killed, rounds)))
    if importlib.util.find_spec("ray") is None:
        return rows
    rows += [
        _row(f"ray: SIGKILL of {what}", partial(_killed_on_ray, what, rounds))
        for what in ray_loss.KILLS
    ]
    rows.append(_row("ray: SIGKILL of the host", partial(_host_killed_on_ray, rounds)))
    return rows


def _row(name: str, run: Callable[[], Awaitable[str]]) -> Row:
    return Row(name, lambda _: run(), flat=False)


async def _killed(what: str, rounds: int) -> str:
    load, counts = await test_node_loss.kill_under_load(what, rounds)
    assert counts["calls"] == load.made and counts["result"] == load.ends["result"]
    return _summary(load, rounds)


async def _host_killed(rounds: int) -> str:
    seconds = [await asyncio.to_thread(test_node_loss.kill_host) for _ in range(rounds)]
    return _host_summary(seconds)


async def _killed_on_ray(what: str, rounds: int) -> str:
    ray = await asyncio.to_thread(ray_loss.RayCluster)
    try:
        async with ray_loss.on_ray(ray) as r:
            load = await ray_loss.kill_on(r, what, rounds)
            stats = r.extension.stats
    finally:
        await asyncio.to_thread(ray.close)
    assert stats.calls == load.made and stats.result == load.ends["result"]
    return _summary(load, rounds)


async def _host_killed_on_ray(rounds: int) -> str:
    ray = await asyncio.to_thread(ray_loss.RayCluster)
    try:
        seconds = [await asyncio.to_thread(ray_loss.kill_host, ray) for _ in range(rounds)]
    finally:
        await asyncio.to_thread(ray.close)
    return _host_summary(seconds)


def _host_summary(seconds: list[float]) -> str:
    return f"{len(seconds)} hosts killed, nothing left of any after {max(seconds):.2f} s"


def _summary(load: Load, rounds: int) -> str:
    ends = ", ".join(f"{count:,} {name}" for name, count in sorted(load.ends.items()))
    return f"killed {rounds} times: {load.made:,} calls, each ended once: {ends}"
