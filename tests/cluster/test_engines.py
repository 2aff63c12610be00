"""Which extensions run on other nodes: those whose `pool` names an engine, such as "ray", or
"local", which simulates nodes on this machine.
"""

import asyncio
from pathlib import Path

import pytest

from exthost.cluster import ray_nodes
from exthost.cluster.engines import Engines
from exthost.config import config_from_mapping, spec_from_mapping
from tests.extensions.harness import wait_until


def test_only_an_extension_with_an_engine_runs_on_a_cluster() -> None:
    source = {"type": "process", "command": "true"}
    engines = Engines(config_from_mapping({}).cluster)
    local = spec_from_mapping({"name": "a", "source": source, "pool": {"min": 2, "max": 2}})
    on_nodes = spec_from_mapping({"name": "b", "source": source, "pool": {"engine": "local"}})
    assert engines.spawner(local) is None
    assert engines.spawner(on_nodes) is not None


async def test_the_engine_local_lists_the_simulated_nodes_of_the_config() -> None:
    engines = Engines(config_from_mapping({"cluster": {"nodes": 2}}).cluster)
    assert [node.name for node in await engines.nodes("local")] == ["local-1", "local-2"]
    await engines.close()


async def test_a_host_that_is_closed_does_not_wait_for_ray_to_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, started_file = tmp_path / "exthost" / "cluster", tmp_path / "started"
    folder.mkdir(parents=True)
    for path in (folder.parent / "__init__.py", folder / "__init__.py"):
        path.touch()
    program = f"import pathlib, sys; pathlib.Path({str(started_file)!r}).touch(); sys.stdin.read()"
    (folder / "ray_driver.py").write_text(program)
    monkeypatch.setattr(ray_nodes, "package_root", lambda: str(tmp_path))
    engines = Engines(config_from_mapping({"cluster": {"address": "10.0.0.1:6379"}}).cluster)
    listing = asyncio.create_task(engines.nodes("ray"))
    await wait_until(started_file.exists)
    listing.cancel()
    async with asyncio.timeout(60):  # Ray may take twice as long to connect
        await engines.close()
