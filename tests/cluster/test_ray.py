"""A pool on a Ray cluster of this machine."""

import importlib.util
import os
import signal

import pytest

import exthost
from tests.cluster.test_placement import entry
from tests.extensions.driving import failing, until

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: exthost[ray]"
    ),
]


async def test_calls_crashes_and_the_end_of_a_pool_on_ray() -> None:
    pool = {"engine": "ray", "min": 2, "max": 2, "resources": {"CPU": 0.5}}
    restart = {"strategy": "immediate", "max_retries": 50}
    config = {
        "extensions": [entry(pool=pool, restart=restart)],
        "cluster": {"address": "local", "place": "150s"},
    }
    async with exthost.Host.from_config(config) as host:
        extension = host["a"]
        assert await extension.call("echo", {"x": 1}) == {"x": 1}
        await until(lambda: extension.stats.processes == 2, 120)
        assert sum(extension.stats.nodes.values()) == 2
        error = await failing(extension.call("leave", {"code": 3}))
        assert error.evidence.exit == "exited with 3"
        os.kill(extension.stats.pid or 0, signal.SIGKILL)
        await until(lambda: extension.stats.crashes == 2)
        assert await extension.call("echo", 2) == 2
