"""A program that starts node processes for a host on a Ray cluster, each by a Ray actor.

    python -m exthost.cluster.ray_driver ADDRESS

It is the only process that imports Ray (see `ray_nodes`). It reads requests from stdin and writes
answers to stdout, each a line of JSON. An answer has the number of its request. When a node process
has ended, the driver writes a message with the `id` of its placement. The driver ends when its
stdin is closed, and Ray then ends its actors. An actor starts the node process as a child process
and keeps its stdin open, so the node process ends with its actor.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

# How much of the stderr of a node process is reported: a line, or a traceback.
_MAX_OUTPUT_BYTES = 4096


def main() -> int:
    """Serve one host until the end of stdin. Return the exit code."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # Ray prints to stdout, which must have only answers: send that to stderr
    lock = threading.Lock()

    def send(**message: Any) -> None:
        with lock:
            answers.write(json.dumps(message).encode() + b"\n")

    try:
        driver = Driver(sys.argv[1], send)
    except ModuleNotFoundError:
        send(number=0, error="it is not installed: pip install 'exthost[ray]'")
        return 1
    except Exception as error:
        send(number=0, error=f"no cluster at {sys.argv[1]!r}: {str(error)[:500]}")
        return 1
    send(number=0, result=None)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            send(number=request["number"], result=driver.serve(request))
        except Exception as error:
            send(number=request["number"], error=str(error)[:500])
    driver.close()
    return 0


class Driver:
    """One connection to a Ray cluster, and the actors of this host."""

    def __init__(self, address: str, send: Any) -> None:
        import ray

        package = str(Path(__file__).parents[1])
        ray.init(
            address=address,
            runtime_env={"py_modules": [package]},
            log_to_driver=False,
            logging_level="ERROR",
            include_dashboard=False,
        )
        self._ray = ray
        self._send = send
        # The actor itself needs no CPU. What the extension needs is in the `resources` of a
        # request.
        self._actor_class = ray.remote(num_cpus=0, max_restarts=0)(NodeActor)
        self._actors: dict[int, Any] = {}

    def serve(self, request: dict[str, Any]) -> Any:
        """Return the answer to one request."""
        match request["do"]:
            case "nodes":
                return self._nodes()
            case "place":
                return self._place(request)
            case "release":
                actor = self._actors.pop(request["id"], None)
                if actor is not None:
                    self._ray.kill(actor)
                return None
        raise ValueError(f"unknown request {request['do']!r}")

    def _nodes(self) -> list[dict[str, Any]]:
        from ray._private import state

        alive = [node for node in self._ray.nodes() if node["Alive"]]
        hosts = [node["NodeManagerHostname"] for node in alive]
        try:
            free, draining = state.available_resources_per_node(), state.state.get_draining_nodes()
        except AttributeError:  # these functions are not part of Ray's public interface
            free, draining = {}, {}
        return [
            {
                "id": node["NodeID"],
                "name": host if hosts.count(host) == 1 else f"{host}/{node['NodeID'][:6]}",
                "labels": node.get("Labels", {}),
                "resources": node["Resources"],
                "free": free.get(node["NodeID"]),
                "is_draining": node["NodeID"] in draining,
            }
            for node, host in zip(alive, hosts, strict=True)
        ]

    def _place(self, request: dict[str, Any]) -> None:
        from ray.util.scheduling_strategies import (
            NodeAffinitySchedulingStrategy,
        )

        resources = dict(request["resources"])
        actor = self._actor_class.options(
            num_cpus=resources.pop("CPU", 0),
            num_gpus=resources.pop("GPU", 0),
            resources=resources or None,
            scheduling_strategy=NodeAffinitySchedulingStrategy(request["node"], soft=False),
        ).remote()
        ended = actor.run.remote(request["host_address"], request["nonce"], request["certificate"])
        self._actors[request["id"]] = actor
        ended.future().add_done_callback(lambda future: self._on_ended(request["id"], future))

    def _on_ended(self, id: int, future: Any) -> None:
        """Report the end of a node process, or of its actor."""
        try:
            output = future.result()
        except Exception as error:
            output = f"{type(error).__name__}: {str(error)[:300]}"
        try:
            self._send(id=id, ended=output)
        except (OSError, ValueError):
            pass  # the host is gone

    def close(self) -> None:
        """End the actors and leave the cluster."""
        for actor in list(self._actors.values()):
            self._ray.kill(actor)
        self._ray.shutdown()


class NodeActor:
    """Runs on a node, in a worker of Ray."""

    def run(self, host_address: str, nonce: str, certificate: str) -> str:
        """Run a node process, and return the beginning of its stderr. The node process ends with
        this actor at the latest, because the actor holds the other end of its stdin."""
        from exthost import _version

        root = str(Path(_version.__file__).parents[1])
        # Ray sets OMP_NUM_THREADS for its workers; it is not meant for the extension.
        environ = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "exthost.cluster.node_process", host_address],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environ, "PYTHONPATH": root},
            start_new_session=True,
        )
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(f"{nonce} {certificate}\n".encode())
        process.stdin.flush()
        output = process.stderr.read(_MAX_OUTPUT_BYTES).decode(errors="replace").strip()
        process.wait()
        return output


if __name__ == "__main__":
    sys.exit(main())
