"""The fixtures of the fault tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.ray_loss import RayCluster
from tests.faults.harness import ENGINE_VARIABLE, RAY_ADDRESS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder in which a test writes its files, manifests and logs."""
    return tmp_path


@pytest.fixture(scope="session", autouse=True)
def ray_nodes() -> Iterator[None]:
    """Run a Ray cluster of one node, if the processes of the trials are to run on it."""
    if os.environ.get(ENGINE_VARIABLE) != "ray":
        yield
        return
    cluster = RayCluster(1)
    os.environ[RAY_ADDRESS] = cluster.address
    yield
    del os.environ[RAY_ADDRESS]
    cluster.close()
