"""Which node a process is started on, and what is refused."""

import asyncio
from collections.abc import Sequence

import pytest

import exthost
from exthost.cluster.cluster import Cluster
from exthost.cluster.placer import Node, Placement
from exthost.config.cluster import ClusterSettings
from exthost.config.extension_settings import PoolSettings
from exthost.errors import ConfigError, Refused, SpawnFailed
from exthost.launch_plan import LaunchPlan
from exthost.process.environment import Variables
from exthost.spec import Pool, Spec
from tests.cluster.remote import remote
from tests.extensions.driving import command, failing, until

PLAN = LaunchPlan(argv=("true",), env=Variables({}))


class DeafNodes:
    """A placer whose node processes never connect."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.released: list[Placement] = []

    async def nodes(self) -> list[Node]:
        return [Node(id=name, name=name) for name in self.names]

    async def place(self, placement: Placement) -> None:
        pass

    has_ended = False

    async def wait_ended(self, placement: Placement) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    async def release(self, placement: Placement) -> None:
        self.released.append(placement)

    async def close(self) -> None:
        pass


async def test_a_node_that_never_connects_is_an_error_that_names_what_was_asked_for() -> None:
    placer = DeafNodes("far")
    cluster = Cluster(ClusterSettings(place=0.05), lambda: placer)
    pool = Pool(engine="local", resources=(("CPU", 2), ("tape", 1)))
    spawn = cluster.spawner(Spec(id="a", dialect="morphir", argv=("true",), pool=pool))
    error = await failing(spawn(PLAN, "a"))
    await cluster.close()
    assert isinstance(error, SpawnFailed) and error.code == "X0422"
    assert "node far" in error.message and "asked for: CPU 2, tape 1" in error.message
    assert len(placer.released) == 1


@pytest.mark.more
@pytest.mark.parametrize(
    ("pool", "expected"),
    [(Pool(per_node=1), 2), (Pool(engine="local"), 3), (Pool(spread=False), 1)],
)
async def test_processes_are_spread_over_the_nodes_unless_told_otherwise(
    pool: Pool, expected: int
) -> None:
    marks: Sequence[str] = ("a", "b", "c") if expected == 3 else ("a", "b")
    async with remote(nodes=len(marks), pool=_pool_settings(pool)) as r:
        await r.extension.start()
        wanted = expected if pool.per_node else 3
        await until(lambda: r.extension.stats.processes == wanted)
        assert len(r.extension.stats.nodes) == expected
        assert sum(r.extension.stats.nodes.values()) == wanted


def _pool_settings(pool: Pool) -> dict[str, object]:
    settings: dict[str, object] = {"engine": "local", "min": 2 if pool.per_node else 3, "max": 3}
    if pool.per_node is not None:
        settings["per_node"] = pool.per_node
    if pool.spread is not None:
        settings["spread"] = pool.spread
    return settings


@pytest.mark.more
async def test_a_pool_without_room_on_any_node_is_refused() -> None:
    async with remote(nodes=1, pool={"engine": "local", "per_node": 1, "max": 2}) as r:
        await r.extension.start()
        (node,) = await r.nodes.nodes()
        spawn = r.extension._starter.spawn
        error = await failing(spawn(PLAN, "hostile"))  # type: ignore[arg-type]
        assert error.code == "X0421" and "1 alive" in error.message
        assert node.name == "local-1"


def entry(**settings: object) -> dict[str, object]:
    program, *args = command()
    source = {"type": "process", "command": program, "args": args}
    return {"name": "a", "dialect": "morphir", "source": source, **settings}


@pytest.mark.more
async def test_a_host_starts_a_pool_that_asks_for_resources_on_a_node() -> None:
    pool = {"engine": "local", "resources": {"CPU": 1}}
    config = {"extensions": [entry(pool=pool)], "defaults": {"pool": {"max": 2}}}
    async with exthost.Host.from_config(config) as host:
        assert await host["a"].call("echo", 1) == 1
        assert sum(host["a"].stats.nodes.values()) == 1


@pytest.mark.more
async def test_pins_are_checked_on_the_node() -> None:
    pinned = entry(pool={"engine": "local"}, sha256={"interpreter": "0" * 64})
    async with exthost.Host.from_config({"extensions": [pinned]}) as host:
        error = await failing(host["a"].call("echo", 1))
        cause = host["a"].cause
        assert isinstance(cause, Refused) and cause.code == "X0386"
        assert "on node local-" in cause.message and "interpreter" in str(error)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"listen": "10.0.0.5:7700"}, "insecure = true"),
        ({"listen": "0.0.0.0:0", "insecure": False}, "insecure = true"),
        ({"listen": "localhost"}, "HOST:PORT"),
        ({"listen": "127.0.0.1:70000"}, "HOST:PORT"),
        ({"silence": "0s"}, "silence"),
        ({"nodes": 0}, "nodes"),
        ({"adress": "auto"}, "adress"),
    ],
)
def test_mistakes_in_the_section_are_reported(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        exthost.Host.from_config({"extensions": [], "cluster": settings})
    assert reason in str(caught.value)


@pytest.mark.more
async def test_a_connection_without_a_host_has_its_processes_on_nodes_too() -> None:
    words = command()
    pool: PoolSettings = {"engine": "local"}
    async with exthost.connect(words, dialect="morphir", pool=pool) as ext:
        assert await ext.call("echo", 1) == 1
        assert sum(ext.stats.nodes.values()) == 1
