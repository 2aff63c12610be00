"""The Ray cluster of the tests that need one."""

from collections.abc import Iterator

import pytest

from tests.cluster.ray_loss import RayCluster


@pytest.fixture(scope="session")
def ray() -> Iterator[RayCluster]:
    """Yield a cluster of three nodes for all tests of a pytest worker."""
    cluster = RayCluster()  # Ray is installed, so a cluster that does not start is a failure
    yield cluster
    cluster.close()
