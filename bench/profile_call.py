"""Measures one call in microseconds: `python -m bench.profile_call [--uvloop] [--dialect mcp]`.

A tool for optimising calls. It takes seconds, and prints the wall time and the processor time of
this process for `ext.call` and `host.call_tool`, one at a time and with a hundred in flight. It
prints the best of many blocks, which other programs disturb least, and gives no verdict: `python -m
bench` does that, with ratios.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import baselines, children, cores, subject
from bench.children import bare
from bench.cores import Pin
from bench.measures import tools
from bench.measures.calls import BLOCK_CALLS, IN_FLIGHT_CALLS, in_flight, one_by_one
from bench.rounds import held
from bench.row import Setting

BLOCKS = 100
Blocks = dict[str, tuple[int, Callable[[], Awaitable[object]]]]


class Cost(NamedTuple):
    """The least seconds that one call took."""

    wall: float
    processor: float


async def costs(blocks: Blocks, times: int) -> dict[str, Cost]:
    """Run each block of `calls` calls `times` times in turn; return the least cost of each."""
    least = dict.fromkeys(blocks, Cost(float("inf"), float("inf")))
    for _ in range(times):
        for name, (calls, block) in blocks.items():
            wall, processor = time.perf_counter(), time.process_time()
            await block()
            # The processor time is read first, so that reading the clock counts as well.
            processor = (time.process_time() - processor) / calls
            wall = (time.perf_counter() - wall) / calls
            before = least[name]
            least[name] = Cost(min(before.wall, wall), min(before.processor, processor))
    return least


async def measured(setting: Setting, dialect: str, pin: Pin, times: int) -> dict[str, Cost]:
    """Return the cost of each kind of call, and of the raw pipe."""
    pair = cores.pair(pin)
    with bare(tools.child(setting, dialect)) as raw:
        async with subject.host(tools.entry(setting, dialect=dialect)) as host:
            tool, ext = tools.tool_call(host), tools.ext_call(host, dialect)
            await tools.check(tool, dialect)
            cores.pin(pair)
            ping_pong = baselines.ping_pong(raw, BLOCK_CALLS, tools.LINES[dialect])
            blocks: Blocks = {
                "raw pipe": (BLOCK_CALLS, held(ping_pong)),
                "ext.call, alone": (BLOCK_CALLS, one_by_one(ext)),
                "host.call_tool, alone": (BLOCK_CALLS, one_by_one(tool)),
                "ext.call, 100 in flight": (IN_FLIGHT_CALLS, in_flight(ext)),
                "host.call_tool, 100 in flight": (IN_FLIGHT_CALLS, in_flight(tool)),
            }
            return await costs(blocks, times)


def lines(found: dict[str, Cost]) -> list[str]:
    """Return the table, a line for each kind of call."""
    raw = found["raw pipe"].wall
    table = [f"{'':30} {'wall us':>9} {'cpu us':>9} {'/ raw':>7} {'calls/s':>9}"]
    for name, cost in found.items():
        table.append(
            f"{name:30} {cost.wall * 1e6:9.2f} {cost.processor * 1e6:9.2f}"
            f" {cost.wall / raw:7.2f} {1 / cost.wall:9,.0f}"
        )
    return table


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile_call")
    parser.add_argument("--uvloop", action="store_true")
    parser.add_argument("--dialect", choices=sorted(tools.MODES), default="morphir")
    parser.add_argument("--same", action="store_true", help="host and child on one core")
    parser.add_argument("--blocks", type=int, default=BLOCKS, metavar="N", help="best of N")
    options = parser.parse_args(words)
    pin = Pin.SAME if options.same or len(cores.usable()) == 1 else Pin.SPLIT
    with tempfile.TemporaryDirectory(prefix="exthost-bench-") as folder:
        argv, about = children.build(Path(folder))
        setting = Setting(child=argv, child_is_c=children.is_c(argv))
        work = measured(setting, options.dialect, pin, options.blocks)
        found = subject.run(work, uvloop=options.uvloop)
    loop = "uvloop" if options.uvloop else "asyncio"
    print(f"{options.dialect}, {loop}, {pin.value} core; child: {about}; best of {options.blocks}")
    print("\n".join(lines(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
