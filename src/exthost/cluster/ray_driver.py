"""A program that uses a Ray cluster for a host.

    python -m exthost.cluster.ray_driver ADDRESS

It is the only process that imports Ray (see `ray_nodes`). It reads the runtime environment of the
agents and then requests from stdin, and writes answers to stdout, each a line of JSON. An answer
has the number of its request. The driver ends when its stdin is closed, and Ray then gives back the
resources that it held. An example of a request and its answer:

    {"number": 7, "do": "release", "id": 3}
    {"number": 7, "result": null}

**Resources.** Ray holds the resources of each process in a placement group of one bundle, which
needs no worker. So Ray's own scheduler decides on which node they are free, nothing is assigned
twice, and an autoscaler sees which resources are missing. The node that the host prefers is a hint.

**Agents.** A task on the node starts the agent as a process of its own and ends, so that no worker
of Ray is kept for it. The agent ends with the raylet, Ray's process on the node. If the agent runs
in a container, the task lasts as long as the agent, because the container ends with its worker.

**Ray's client.** With an address `ray://HOST:PORT` this machine need not be a node of the cluster:
Ray runs the requests in a process on the cluster's head node. Ray's client does not offer all of
Ray's functions: the list of nodes is therefore read by a task in the cluster.
"""

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

# The resources that Ray assigns as devices. Environment variables of a task name those that it got.
_DEVICES = ("GPU", "TPU", "HPU", "NPU", "neuron_cores")

# These environment variables.
_DEVICE_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ONEAPI_DEVICE_SELECTOR",
    "TPU_VISIBLE_CHIPS",
    "HABANA_VISIBLE_MODULES",
    "ASCEND_RT_VISIBLE_DEVICES",
    "NEURON_RT_VISIBLE_CORES",
)

# How much of the output of an agent that cannot connect is reported: a line, or a traceback.
_MAX_OUTPUT_BYTES = 4096

# How much of an error of Ray is reported.
_MAX_REASON = 500

# How long Ray may take to start a worker for a short task.
_TASK_SECONDS = 60.0

# How long the node of Ray on this machine may take to start, if it starts together with the host.
_NODE_SECONDS = 10.0

# Reasons why this machine cannot use the cluster at an address. `RayNodes` adds the next step.
NOT_A_NODE = "no node of Ray runs on this machine"
NO_CLIENT = "Ray's client is not installed"

# The beginning of an address for Ray's client.
CLIENT_SCHEME = "ray://"


def main() -> int:
    """Serve one host until the end of stdin. Return the exit code."""
    answers = AnswerWriter()
    lines: SimpleQueue[str] = SimpleQueue()
    is_connected = threading.Event()
    threading.Thread(target=_read_stdin, args=(lines, is_connected), daemon=True).start()
    driver = _connect(sys.argv[1], lines, answers)
    if driver is None:
        return 1
    is_connected.set()
    answers.send(number=0, result=None)  # the host's requests are numbered from 1
    for line in iter(lines.get, ""):
        request = json.loads(line)
        driver.register(request)
        # In a thread of its own, because it may wait for resources.
        threading.Thread(target=_serve, args=(driver, request, answers), daemon=True).start()
    driver.close()
    return 0


class AnswerWriter:
    """Writes answers to stdout, each as a line of JSON. Several threads may use it."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.dup(1), "wb", buffering=0)
        # Ray prints to stdout, which must have only answers: from now on, that goes to stderr.
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, **message: Any) -> None:
        """Write one answer."""
        with self._lock:
            try:
                self._file.write(json.dumps(message).encode() + b"\n")
            except OSError:
                pass  # the host is gone


def _read_stdin(lines: "SimpleQueue[str]", is_connected: threading.Event) -> None:
    """Put each line of stdin into the queue, and "" at the end of stdin."""
    for line in sys.stdin:
        lines.put(line)
    if not is_connected.is_set():
        os._exit(1)  # the host has ended, and Ray would go on trying to connect
    lines.put("")


def _connect(address: str, lines: "SimpleQueue[str]", answers: AnswerWriter) -> "Driver | None":
    """Connect to the cluster, with the runtime environment in the first line. If that fails, answer
    with the reason and return None."""
    try:
        return Driver(address, json.loads(lines.get()))
    except RuntimeEnvError as error:
        answers.send(number=0, runtime_env=error.reason)
    except ModuleNotFoundError:
        answers.send(number=0, error="it is not installed: pip install 'exthost[ray]'")
    except Exception as error:
        answers.send(number=0, error=f"no cluster at {address!r}: {str(error)[:_MAX_REASON]}")
    return None


def _serve(driver: "Driver", request: dict[str, Any], answers: AnswerWriter) -> None:
    """Answer one request."""
    number = request["number"]
    try:
        answers.send(number=number, result=driver.serve(request))
    except NotFreeInTime:
        answers.send(number=number, timeout=True)
    except RuntimeEnvError as error:
        answers.send(number=number, runtime_env=error.reason)
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error)[:_MAX_REASON]}"
        answers.send(number=number, error=reason)
        if not driver.is_connected():
            os._exit(1)  # the next start makes another driver


class NotFreeInTime(Exception):
    """The resources of a process were not free in time. It is not a TimeoutError, because Ray has
    errors of that class, which it raises if the head of the cluster does not answer."""


class RuntimeEnvError(Exception):
    """Ray refused the runtime environment, or could not make it on a node. `reason` has the last
    line of Ray's error, which may begin with a traceback; if it is long, its two ends."""

    def __init__(self, error: Exception) -> None:
        line = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        half = _MAX_REASON // 2
        self.reason = line if len(line) <= _MAX_REASON else f"{line[:half]} … {line[-half:]}"


class Driver:
    """One connection to a Ray cluster, and the placement groups of this host."""

    def __init__(self, address: str, runtime_env: dict[str, Any]) -> None:
        import ray

        self._is_client = address.startswith(CLIENT_SCHEME)
        _check_machine(address)
        modules = [str(Path(__file__).parents[1]), *runtime_env.get("py_modules", ())]
        try:
            ray.init(
                address=address,
                runtime_env={**runtime_env, "py_modules": modules},
                log_to_driver=False,
                logging_level="ERROR",
                **({} if self._is_client else {"include_dashboard": False}),
            )
        except (TypeError, ValueError, ray.exceptions.RuntimeEnvSetupError) as error:
            if not runtime_env:
                raise
            raise RuntimeEnvError(error) from None
        self._ray = ray
        self._start_agent_task = ray.remote(num_cpus=0, max_retries=0)(start_agent)
        self._read_devices_task = ray.remote(num_cpus=0, max_retries=0)(read_devices)
        self._read_nodes_task = ray.remote(num_cpus=0)(read_nodes)
        # By the id of the request; None until Ray knows the group.
        self._groups: dict[int, Any] = {}
        self._lock = threading.Lock()

    def is_connected(self) -> bool:
        """Return whether Ray can be used. Ray's client does not connect again after a while."""
        from ray.util.client import ray as client

        return not self._is_client or bool(client.is_connected())

    def register(self, request: dict[str, Any]) -> None:
        """Note a request in the order in which they come. The threads that serve them run in any
        order, so a "release" may be served before its "hold" has made a group."""
        if request["do"] == "hold":
            self._groups[request["id"]] = None

    def serve(self, request: dict[str, Any]) -> Any:
        """Return the answer to one registered request. Raises NotFreeInTime and RuntimeEnvError."""
        match request["do"]:
            case "nodes":
                return self._nodes()
            case "hold":
                return self._hold(request)
            case "release":
                return self._release(request["id"])
            case "start_agent":
                return self._start_agent(request)
        raise ValueError(f"unknown request {request['do']!r}")

    def _nodes(self) -> list[dict[str, Any]]:
        if not self._is_client:
            return read_nodes()
        nodes: list[dict[str, Any]]
        nodes = self._ray.get(self._read_nodes_task.remote(), timeout=_TASK_SECONDS)
        return nodes

    def _hold(self, request: dict[str, Any]) -> dict[str, Any]:
        """Wait until Ray has reserved the resources of a process. Return the node, and the
        variables of its devices. Raises NotFreeInTime."""
        from ray.util.placement_group import (
            placement_group,
            placement_group_table,
            remove_placement_group,
        )

        selector = dict(request["labels"])
        if request["excluded"]:
            selector["ray.io/node-id"] = f"!in({','.join(request['excluded'])})"
        group = placement_group(
            [request["resources"]],
            strategy="STRICT_PACK",
            _soft_target_node_id=request["preferred"] or None,
            # Older versions of Ray do not have this parameter, so it is passed only if needed.
            **({"bundle_label_selector": [selector]} if selector else {}),
        )
        with self._lock:
            is_released = request["id"] not in self._groups
            if not is_released:
                self._groups[request["id"]] = group
        if is_released:
            remove_placement_group(group)
            raise NotFreeInTime
        if not group.wait(request["seconds"]):
            self._release(request["id"])
            raise NotFreeInTime
        node = placement_group_table(group)["bundles_to_node_id"][0]
        return {"node": node, "variables": self._read_devices(group, request["resources"])}

    def _read_devices(self, group: Any, resources: dict[str, float]) -> dict[str, str]:
        """Return the variables of the devices that Ray has assigned to a group. A task in the group
        gets the devices of the group, and Ray assigns them to no other group while it exists."""
        devices = {name: amount for name, amount in resources.items() if name in _DEVICES}
        if not devices:
            return {}
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        gpus = devices.pop("GPU", 0)
        task = self._read_devices_task.options(
            num_gpus=gpus,
            resources=devices or None,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group),
        )
        variables: dict[str, str] = self._ray.get(task.remote(), timeout=_TASK_SECONDS)
        return variables

    def _release(self, id: int) -> None:
        from ray.util.placement_group import remove_placement_group

        with self._lock:
            group = self._groups.pop(id, None)
        if group is not None:
            remove_placement_group(group)

    def _start_agent(self, request: dict[str, Any]) -> str:
        """Start an agent. Return "" when it has connected, otherwise why it could not. If it has a
        container, return when it has ended. Raises RuntimeEnvError."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(request["node"], soft=False)
        image = request["image"]
        try:
            task = self._start_agent_task.options(
                scheduling_strategy=strategy,
                # The other fields, such as the package of exthost, are those of `init`.
                **({"runtime_env": {"image_uri": image}} if image else {}),
            )
            arguments = request["address"], request["nonce"], request["certificates"]
            output: str = self._ray.get(task.remote(*arguments, bool(image)))
        except self._ray.exceptions.RuntimeEnvSetupError as error:
            raise RuntimeEnvError(error) from None
        return output

    def close(self) -> None:
        """Give back the resources, and leave the cluster."""
        for id in list(self._groups):
            self._release(id)
        self._ray.shutdown()


def _check_machine(address: str) -> None:
    """Raise ConnectionError if this machine cannot use the cluster at this address. Ray itself
    would try for a minute without a reason in its error."""
    if address.startswith(CLIENT_SCHEME):
        if importlib.util.find_spec("grpc") is None:
            raise ConnectionError(NO_CLIENT)
        return
    if address in ("auto", "local"):
        return
    try:
        from ray._private.services import find_node_ids
    except ImportError:  # not part of Ray's public interface; older versions do not have it
        return
    give_up_at = time.monotonic() + _NODE_SECONDS
    while not find_node_ids():
        if time.monotonic() > give_up_at:
            raise ConnectionError(NOT_A_NODE)
        time.sleep(0.5)


def read_nodes() -> list[dict[str, Any]]:
    """Return the fields of the `Node`s that are alive."""
    import ray
    from ray._private import state

    alive = [node for node in ray.nodes() if node["Alive"]]
    hosts = [node["NodeManagerHostname"] for node in alive]
    try:
        free, draining = state.available_resources_per_node(), state.state.get_draining_nodes()
    except Exception:  # not part of Ray's public interface
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


def start_agent(address: str, nonce: str, certificates: str, is_in_container: bool) -> str:
    """Start an agent on this node, in a worker of Ray. Return the beginning of its output if it
    could not connect, otherwise "". In a container, return when the agent has ended."""
    from exthost import _version

    root = str(Path(_version.__file__).parents[1])
    # Ray sets OMP_NUM_THREADS and the variables of devices for its workers: the agent has none of
    # its own, so they are not meant for its processes.
    dropped = ("OMP_NUM_THREADS", *_DEVICE_VARIABLES)
    environ = {name: value for name, value in os.environ.items() if name not in dropped}
    raylet = os.environ.get("RAY_RAYLET_PID") or str(os.getppid())
    command = [sys.executable, "-P", "-m", "exthost.cluster.agent", "--with", raylet, address]
    if certificates:
        command.append(certificates)
    if not is_in_container:
        # The shell starts the agent in the background and exits at once, so that the agent is not a
        # child of the worker: a worker ends its children. A background command would get /dev/null
        # as its stdin, so the shell passes its own by way of descriptor 3.
        command = ["/bin/sh", "-c", 'exec 3<&0; "$@" <&3 3<&- &', "sh", *command]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**environ, "PYTHONPATH": root},
        start_new_session=True,
    )
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(f"{nonce}\n".encode())
    process.stdin.close()
    # The agent closes its stderr when it is connected.
    output = process.stderr.read(_MAX_OUTPUT_BYTES).decode(errors="replace").strip()
    process.stderr.close()
    process.wait()
    return output


def read_devices() -> dict[str, str]:
    """Return the variables of the devices that Ray has assigned to this task."""
    return {name: os.environ[name] for name in _DEVICE_VARIABLES if name in os.environ}


if __name__ == "__main__":
    sys.exit(main())
