"""A program that runs a Ray cluster of several nodes on this machine, for tests.

    python ray_cluster.py FOLDER

`ray_loss.RayCluster` starts it. It prints a line of JSON at the start, with the address, the
address for Ray's client ("" if that is not installed) and the pids of the head's processes, and one
line for each command that it reads from stdin:

    add        starts a node, and prints its id and pids
    remove ID  ends a node
    drain ID   drains a node: it is about to be shut down, and gets no new processes
    groups     prints the number of placement groups, which are reserved resources
    kill_gcs   kills the process of the head that manages the cluster
    start_gcs  starts it again, which needs a Redis with its data (RAY_REDIS_ADDRESS)

The head is the node that manages the cluster. The cluster ends at the end of stdin.
"""

import importlib.util
import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

# On a busy machine the processes of Ray take longer to start than Ray allows.
os.environ["RAY_agent_register_timeout_ms"] = "120000"  # noqa: SIM112 - Ray's own spelling
# Each actor is a new process, so the workers that Ray starts in advance are not needed.
os.environ["RAY_prestart_worker_first_driver"] = "0"  # noqa: SIM112

# If this is on, the server of Ray's client sometimes crashes when it starts a process for a client.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# The smallest values that Ray accepts.
MINIMAL_NODE: dict[str, Any] = {
    "object_store_memory": 80 * 1024 * 1024,
    "include_log_monitor": False,
}

# Ray waits 30 s for a node to register, which is not enough on a busy machine.
TRIES = 3


class Nodes:
    """The cluster, and its nodes by their ids. The head has no processors, so only actors that need
    none are placed there."""

    def __init__(self, folder: str) -> None:
        from ray._common.utils import get_default_ray_temp_dir
        from ray.cluster_utils import Cluster

        # Ray writes the address of the cluster there, and fails if the folder does not exist.
        Path(get_default_ray_temp_dir()).mkdir(parents=True, exist_ok=True)
        self._cluster = Cluster()
        self._nodes: dict[str, Any] = {}
        port = find_free_port() if importlib.util.find_spec("grpc") is not None else None
        self.client_address = f"ray://127.0.0.1:{port}" if port is not None else ""
        head = self._cluster.add_node(
            num_cpus=0,
            include_dashboard=False,
            temp_dir=folder,
            ray_client_server_port=port,
            **MINIMAL_NODE,
        )
        self._head = head
        self.head = pids_of(head)
        self.address: str = self._cluster.address

    def add(self) -> dict[str, Any]:
        """Start a node of two processors, for which two GPUs are declared. Ray assigns GPUs by
        their numbers, and does not check that they exist."""
        for n in range(TRIES):
            try:
                node: Any = self._cluster.add_node(num_cpus=2, num_gpus=2, **MINIMAL_NODE)
                break
            except Exception:
                if n == TRIES - 1:
                    raise
        self._nodes[node.node_id] = node
        # The workers of Ray run until their dead raylet is reaped.
        for process in node.all_processes["raylet"]:
            threading.Thread(target=process.process.wait, daemon=True).start()
        return {"id": node.node_id, "pids": pids_of(node)}

    def remove(self, id: str) -> dict[str, Any]:
        """End the remaining processes of a node."""
        self._cluster.remove_node(self._nodes.pop(id), allow_graceful=False)
        return {}

    def drain(self, id: str) -> dict[str, Any]:
        """Drain a node, with a deadline so late that Ray itself ends no process."""
        from ray._raylet import GcsClient  # type: ignore[attr-defined,unused-ignore]
        from ray.core.generated import autoscaler_pb2

        reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
        client = GcsClient(address=self.address)
        accepted, _ = client.drain_node(id, reason, "test", 2**62)
        return {"accepted": bool(accepted)}

    def groups(self) -> dict[str, Any]:
        """Count the placement groups that Ray has not removed."""
        table = self._cluster.global_state.placement_group_table()
        return {"count": sum(group["state"] != "REMOVED" for group in table.values())}

    def kill_gcs(self) -> dict[str, Any]:
        """Kill the process of the head that manages the cluster."""
        self._head.kill_gcs_server()
        return {}

    def start_gcs(self) -> dict[str, Any]:
        """Start the process of the head that manages the cluster again."""
        self._head.start_gcs_server()
        return {}

    def close(self) -> None:
        self._cluster.shutdown()


def find_free_port() -> int:
    """Return a port that no process of this machine uses now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def pids_of(node: Any) -> dict[str, int]:
    """Return the pids of a node's own processes by their kinds."""
    return {
        kind: process.process.pid
        for kind, processes in node.all_processes.items()
        for process in processes
    }


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of Ray goes to stderr
    nodes = Nodes(sys.argv[1])
    first = {"address": nodes.address, "client": nodes.client_address, "head": nodes.head}
    print(json.dumps(first), file=answers)
    for line in sys.stdin:
        verb, *args = line.split()
        print(json.dumps(getattr(nodes, verb)(*args)), file=answers)
    nodes.close()


if __name__ == "__main__":
    main()
