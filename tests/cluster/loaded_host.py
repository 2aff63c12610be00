"""A program that runs a host with an extension on nodes under load, until a test kills it.

    python -m tests.cluster.loaded_host CONFIG

CONFIG is JSON with one extension, which has a pool (several processes that share its calls). The
program prints the pids of the pool when all processes are ready and calls have been answered.
`kill_loaded_host` starts this program from a test.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import exthost
from exthost.config import spec_from_mapping
from tests.cluster.load import under_load
from tests.extensions.harness import wait_until
from tests.extensions.proc import descendants_of, is_running

ROOT = Path(__file__).parents[2]

# After this number of answers, the pool is under load.
ANSWERS_UNDER_LOAD = 100


async def serve(config: Any) -> None:
    """Make calls until killed."""
    size = spec_from_mapping(config["extensions"][0]).pool.min
    async with exthost.Host.from_config(config) as host:
        extension = host[config["extensions"][0]["name"]]
        await extension.start()
        await wait_until(lambda: extension.stats.processes == size, 150)
        async with under_load(extension) as load:
            await wait_until(lambda: load.ends["result"] > ANSWERS_UNDER_LOAD)
            sessions = extension._supervisor.processes.sessions
            print(*(session.lifetime.child.pid for session in sessions), flush=True)
            await asyncio.Event().wait()


def kill_loaded_host(
    config: dict[str, Any],
    size: int,
    is_empty: Callable[[], bool] | None = None,
    **variables: str,
) -> float:
    """Start a host, kill it under load, and wait until all of its processes have ended, also on
    nodes, and until `is_empty` returns true. Return how many seconds that took."""
    host = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.loaded_host", json.dumps(config)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **variables},
    )
    assert host.stdout is not None
    try:
        pids = [int(word) for word in host.stdout.readline().split()]
        assert len(pids) == size and all(map(is_running, pids))
        assert is_empty is None or not is_empty()
        pids += descendants_of(host.pid)
    finally:
        host.kill()
        began = time.monotonic()
        host.wait()
        host.stdout.close()
    asyncio.run(
        wait_until(lambda: not any(map(is_running, pids)) and (is_empty is None or is_empty()))
    )
    return time.monotonic() - began


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
