"""A Ray cluster of several nodes on this machine, in a process of its own.

    python ray_cluster.py FOLDER

Prints the address, then a line of JSON for each command that it reads: `add NAME` starts a node,
which prints its id and the pid of its raylet, `drain ID` has one emptied. Ends with its stdin, and
the cluster with it.
"""

import json
import os
import sys
from typing import Any


def main() -> None:
    # On a busy machine its processes take longer to start than Ray allows.
    os.environ["RAY_agent_register_timeout_ms"] = "120000"  # noqa: SIM112 - Ray's own spelling
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    head: Any = cluster.add_node(num_cpus=0, include_dashboard=False, temp_dir=sys.argv[1])
    show(address=cluster.address, version=ray.__version__, pids=pids_of(head))
    for line in sys.stdin:
        verb, _, word = line.strip().partition(" ")
        if verb == "add":
            node = add(cluster, word)
            show(id=node.node_id, pids=pids_of(node))
        elif verb == "drain":
            show(drained=drain(cluster.address, word))
    cluster.shutdown()


def add(cluster: Any, name: str) -> Any:
    """Start a node; Ray gives up after 30 s, which is not enough beside other work."""
    for _ in range(2):
        try:
            return cluster.add_node(num_cpus=2, labels={"name": name})
        except Exception as error:
            print(error, file=sys.stderr)
    return cluster.add_node(num_cpus=2, labels={"name": name})


def pids_of(node: Any) -> dict[str, int]:
    """Return the pids of a node's own processes."""
    return {
        kind: process.process.pid
        for kind, processes in node.all_processes.items()
        for process in processes
    }


def drain(address: str, id: str) -> bool:
    from ray._raylet import GcsClient
    from ray.core.generated import autoscaler_pb2

    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    deadline = 2**62
    accepted, _ = GcsClient(address=address).drain_node(id, reason, "test", deadline)
    return bool(accepted)


def show(**message: object) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
