"""Which extensions run on other nodes: those whose `pool` names an engine, such as "ray", or
"local", which simulates nodes on this machine.
"""

from exthost.cluster.engines import Engines
from exthost.config import config_from_mapping, spec_from_mapping


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
