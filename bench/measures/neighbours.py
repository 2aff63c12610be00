"""What a hostile extension costs the one beside it."""

import asyncio
import sys
import time
from contextlib import AbstractAsyncContextManager

from bench import baselines, subject
from bench.rounds import duration, ratios, read_values
from bench.row import Reading, Setting

# Calls a block: enough for a 99th percentile that is not one call's bad luck.
CALLS = 300
# Between two calls: a neighbour that is in use, not one that fills a core by itself.
PAUSE_S = 0.001

# Shakes hands as morphir has it; asked for `spin`, it computes for ever.
SPINNER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    while asked["method"] == "spin":
        pass
    print(json.dumps({"id": asked["id"], "result": []}), flush=True)
"""


def _spinner() -> AbstractAsyncContextManager[subject.Extension]:
    return subject.connect((sys.executable, "-S", "-E", "-c", SPINNER), name="spinner")


async def _p99(extension: subject.Extension) -> float:
    times = []
    for _ in range(CALLS):
        before = time.perf_counter()
        await extension.call("echo", baselines.SMALL, timeout=subject.CALL_S)
        times.append(time.perf_counter() - before)
        await asyncio.sleep(PAUSE_S)
    times.sort()
    return times[CALLS * 99 // 100]


def beside_a_spinner(setting: Setting) -> Reading:
    """The 99th percentile of a neighbour's calls while another spins / while it is idle."""

    async def work() -> Reading:
        idle, spinning = [], []
        async with subject.connect(setting.child) as neighbour:
            for _ in range(setting.few):
                async with _spinner() as spinner:
                    idle.append(await _p99(neighbour))
                    spin = asyncio.ensure_future(spinner.call("spin", timeout=subject.CALL_S))
                    await asyncio.sleep(0)
                    spinning.append(await _p99(neighbour))
                    spin.cancel()
        absolute = (("beside", duration(spinning)), ("idle", duration(idle)))
        return read_values(ratios(spinning, idle), absolute)

    return subject.run(work())
