"""The process that talks to Ray, played by a program without Ray."""

import asyncio
from pathlib import Path

import pytest

from exthost.cluster import ray_nodes
from exthost.cluster.placer import Node, Placement
from exthost.cluster.ray_nodes import RayNodes
from tests.extensions.driving import failing

# Answers every request, and ends with the second.
DRIVER = """
import json, sys
print(json.dumps({"number": 0, "result": None}), flush=True)
for n in range(2):
    request = json.loads(sys.stdin.readline())
    print(json.dumps({"number": request["number"], "result": None}), flush=True)
"""


def make_nodes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> RayNodes:
    package = folder / "exthost" / "cluster"
    package.mkdir(parents=True)
    for path in (package.parent / "__init__.py", package / "__init__.py"):
        path.touch()
    (package / "ray_driver.py").write_text(DRIVER)
    monkeypatch.setattr(ray_nodes, "package_root", lambda: str(folder))
    return RayNodes("local")


async def test_a_start_does_not_wait_for_a_process_that_talks_to_ray_and_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = make_nodes(tmp_path, monkeypatch)
    try:
        first, second = (
            Placement(id=n, node=Node(id="a", name="a"), gate="127.0.0.1:1", nonce="n")
            for n in (1, 2)
        )
        await nodes.place(first)
        waiting = asyncio.ensure_future(nodes.ended(first))
        await nodes.place(second)
        assert "has ended" in await waiting and "has ended" in await nodes.ended(second)
        nodes._process.wait()
        assert nodes.is_over
        error = await failing(nodes.nodes())
        assert error.code == "X0424" and "has ended" in error.message
    finally:
        await nodes.close()
