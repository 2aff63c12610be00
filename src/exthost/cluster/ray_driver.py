"""The only process that imports Ray: it places node processes for a host, by one actor each.

    python -m exthost.cluster.ray_driver ADDRESS

Reads requests from stdin and answers on stdout, a line of JSON each; see `ray_nodes`. It ends at
the end of its stdin, and Ray ends its actors then. An actor starts the node process as a child and
holds its stdin, so the node process ends with its actor.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Serve one host until the end of stdin. Return the exit code."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever Ray prints goes to stderr

    def answer(number: int, **message: Any) -> None:
        answers.write(json.dumps({"number": number, **message}).encode() + b"\n")

    try:
        driver = Driver(sys.argv[1])
    except ModuleNotFoundError:
        answer(0, error="it is not installed: pip install 'exthost[ray]'")
        return 1
    except Exception as error:
        answer(0, error=f"no cluster at {sys.argv[1]!r}: {str(error)[:500]}")
        return 1
    answer(0, result=None)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(request["number"], result=driver.serve(request))
        except Exception as error:
            answer(request["number"], error=str(error)[:500])
    driver.close()
    return 0


class Driver:
    """One connection to a Ray cluster, and the actors of this host."""

    def __init__(self, address: str) -> None:
        import ray

        package = str(Path(__file__).parents[1])
        ray.init(
            address=None if address == "local" else address,
            runtime_env={"py_modules": [package]},
            log_to_driver=False,
            logging_level="ERROR",
            include_dashboard=False,
        )
        self._ray = ray
        # An actor needs no processor of its own: what it starts is asked for in `resources`.
        self._actor_class = ray.remote(num_cpus=0, max_restarts=0)(NodeActor)
        self._actors: dict[int, Any] = {}

    def serve(self, request: dict[str, Any]) -> Any:
        """Return the answer to one request."""
        match request["do"]:
            case "nodes":
                return [
                    {"id": node["NodeID"], "name": node["NodeManagerHostname"]}
                    for node in self._ray.nodes()
                    if node["Alive"]
                ]
            case "place":
                return self._place(request)
            case "release":
                actor = self._actors.pop(request["id"], None)
                if actor is not None:
                    self._ray.kill(actor)
                return None
        raise ValueError(f"unknown request {request['do']!r}")

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
        actor.start.remote(request["gate"], request["nonce"])
        self._actors[request["id"]] = actor

    def close(self) -> None:
        """End the actors and leave the cluster."""
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._ray.shutdown()


class NodeActor:
    """Runs on a node, in a worker of Ray."""

    def start(self, gate: str, nonce: str) -> None:
        """Start the node process. It lives as long as this actor, which holds its stdin."""
        from exthost import _version

        root = str(Path(_version.__file__).parents[1])
        environ = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "exthost.cluster.node_process", gate],
            stdin=subprocess.PIPE,
            env={**environ, "PYTHONPATH": root},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(nonce.encode() + b"\n")
        self._process.stdin.flush()


if __name__ == "__main__":
    sys.exit(main())
