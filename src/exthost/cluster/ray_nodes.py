"""A placer that uses a Ray cluster. A placer is the interface by which a host reserves resources on
other machines (nodes) and starts agents, the programs that run its processes there.

Ray runs in a separate process (`ray_driver`), because Ray ends its own process some time after the
head of the cluster is gone, and that must not be the host. The host and the driver exchange lines
of JSON over the driver's stdin and stdout. Their content may appear in Ray's logs, so it never
contains variables or secrets of an extension.
"""

import asyncio
import importlib.util
import itertools
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from exthost.cluster.local_nodes import package_root
from exthost.cluster.placement_errors import runtime_env_refused
from exthost.cluster.placer import AgentStart, HeldPlace, Node, PlaceRequest
from exthost.cluster.ray_driver import CLIENT_SCHEME, NO_CLIENT, NOT_A_NODE
from exthost.errors import PlacementFailed, SpawnFailed
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.process.after_fork import disown_after_fork, replace_by_null

# How long Ray may take to connect to its cluster, or to start one.
_INIT_SECONDS = 120.0

# How long Ray may take to answer any other request.
_ANSWER_SECONDS = 30.0

# How long Ray may take to list the nodes. If it takes longer, its head is gone or overloaded. Ray's
# client needs a worker for it, which may have to start.
_LIST_SECONDS = 10.0
_CLIENT_LIST_SECONDS = 60.0

# How long the task that starts an agent may wait for a worker of Ray.
_AGENT_SECONDS = 600.0

# How long the driver may take to leave the cluster, or to end a cluster that it has started.
_END_SECONDS = 15.0

_DRIVER_ENDED = "the process that talks to Ray has ended"


def missing_ray_error() -> SpawnFailed | None:
    """Return the error that a start on a Ray cluster would raise if Ray is not installed; None if
    it is. Nothing is imported or started."""
    ray = importlib.util.find_spec("ray")
    if ray is not None and ray.origin is not None:  # without an origin: a folder of this name
        return None
    return SpawnFailed(
        "X0424",
        'Ray cannot be used: it is not installed, and the pool has engine = "ray"',
        help="pip install 'exthost[ray]'",
    )


class _RuntimeEnvError(Exception):
    """Ray cannot make the runtime environment of the agents. The text is Ray's reason."""


class RayNodes:
    """The nodes of one Ray cluster. The constructor starts the driver and blocks until the driver
    is connected to the cluster, or until `closing` is done. `runtime_env` is Ray's runtime
    environment of the agents."""

    def __init__(
        self,
        address: str,
        runtime_env: Mapping[str, Any] = EMPTY_MAPPING,
        closing: Future[None] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "exthost.cluster.ray_driver", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_driver_environ(),
            start_new_session=True,
        )
        self._list_seconds = (
            _CLIENT_LIST_SECONDS if address.startswith(CLIENT_SCHEME) else _LIST_SECONDS
        )
        self._numbers = itertools.count(1)
        self._answers: dict[int, Future[Any]] = {}
        # The starts of agents, by the id of the node and the container image.
        self._agents: dict[tuple[str, str], asyncio.Future[Any]] = {}
        self._write_lock = threading.Lock()
        self._last_lines: list[str] = []
        disown_after_fork(self)
        self._threads = [
            threading.Thread(target=work, name=f"exthost-ray-{work.__name__}", daemon=True)
            for work in (self._read_answers, self._read_stderr)
        ]
        ready: Future[Any] = Future()
        self._answers[0] = ready
        for thread in self._threads:
            thread.start()
        try:
            # Not as an argument, because every user of a machine can read the arguments.
            self._write(dict(runtime_env))
        except OSError:
            pass  # it has ended; the reason is its answer
        awaited = [ready] if closing is None else [ready, closing]
        wait(awaited, _INIT_SECONDS, return_when=FIRST_COMPLETED)
        if not ready.done():
            self._end()
            is_closing = closing is not None and closing.done()
            limit = "before the host was closed" if is_closing else f"within {_INIT_SECONDS:g} s"
            raise self._ray_error(f"there is no answer from {address!r} {limit}")
        try:
            ready.result()
        except _RuntimeEnvError as error:
            self._end()
            raise runtime_env_refused(str(error)) from None
        except SpawnFailed as error:
            self._end()
            # The error is made again, because its help quotes the last output of the driver, which
            # was read to the end only by `_end`.
            raise self._ray_error(error.message.removeprefix(_UNUSABLE)) from None

    @property
    def has_ended(self) -> bool:
        """Whether the driver has ended."""
        return self._process.poll() is not None

    can_grow = True  # an autoscaler of Ray may add nodes

    async def nodes(self) -> list[Node]:
        return [Node(**node) for node in await self._ask({"do": "nodes"}, self._list_seconds)]

    async def hold(self, request: PlaceRequest) -> HeldPlace:
        nodes = {node.id: node for node in await self.nodes()}
        if not request.resources:
            if request.preferred is None:
                raise TimeoutError
            return HeldPlace(id=request.id, node=request.preferred)
        try:
            answer = await self._ask(
                {
                    "do": "hold",
                    "id": request.id,
                    "preferred": request.preferred.id if request.preferred is not None else "",
                    "excluded": sorted(request.excluded),
                    "resources": dict(request.resources),
                    "labels": dict(request.labels),
                    "seconds": request.seconds,
                },
                request.seconds + _ANSWER_SECONDS,
            )
            id = answer["node"]
            if id not in nodes:  # it has joined the cluster since the list was read
                nodes = {node.id: node for node in await self.nodes()}
        except BaseException:
            self._release_without_waiting(request.id)
            raise
        # If it has left again, its agent cannot be started, and the start tries another node.
        node = nodes.get(id) or Node(id=id, name=id)
        return HeldPlace(id=request.id, node=node, variables=answer["variables"])

    def _release_without_waiting(self, id: int) -> None:
        """Give back the resources of a request, without waiting for the answer of the driver."""
        try:
            # No request has the number -1, so the answer is dropped.
            self._write({"number": -1, "do": "release", "id": id})
        except (OSError, ValueError):
            pass  # the driver has ended, and Ray has given back its resources

    async def release(self, place: HeldPlace) -> None:
        self._release_without_waiting(place.id)

    async def start_agent(self, node: Node, start: AgentStart) -> None:
        self._agents[node.id, start.image] = asyncio.ensure_future(
            self._ask(
                {
                    "do": "start_agent",
                    "node": node.id,
                    "address": start.address,
                    "nonce": start.nonce,
                    "certificates": start.certificates,
                    "image": start.image,
                },
                # In a container, Ray's task lasts as long as the agent.
                math.inf if start.image else _AGENT_SECONDS,
            )
        )

    async def wait_agent_ended(self, node: Node, image: str) -> str:
        try:
            output = str(await asyncio.shield(self._agents[node.id, image]))
        except _RuntimeEnvError as error:
            raise runtime_env_refused(str(error), node) from None
        except SpawnFailed as error:
            return error.message
        if not output:
            # The agent is connected. Ray does not report its end, so wait until the caller gives
            # up: it notices the end by the connection.
            await asyncio.get_running_loop().create_future()
        return output

    async def stop_agent(self, node: Node, image: str) -> None:
        """Stop waiting for the start of the agent. The agent itself ends when its connection is
        closed."""
        starting = self._agents.pop((node.id, image), None)
        if starting is not None:
            starting.cancel()
            await asyncio.wait([starting])

    async def close(self) -> None:
        for starting in self._agents.values():
            starting.cancel()
        await asyncio.to_thread(self._end)

    # -- the driver --------------------------------------------------------------------------

    async def _ask(self, request: dict[str, Any], seconds: float | None = None) -> Any:
        """Send a request to the driver, and return the result in its answer. Raises SpawnFailed,
        and TimeoutError if the resources were not free in time."""
        number = next(self._numbers)
        answer: Future[Any] = Future()
        self._answers[number] = answer
        limit = _ANSWER_SECONDS if seconds is None else seconds
        try:
            self._write({"number": number, **request})
            # Not `wait_for`, which in Python 3.11 ignores a cancellation while the answer comes.
            async with asyncio.timeout(limit):
                reply = await asyncio.wrap_future(answer)
        except TimeoutError:  # a class of OSError, so it comes first
            who = "its head" if request["do"] == "nodes" else "Ray"
            raise self._ray_error(f"{who} did not answer within {limit:g} s") from None
        except SpawnFailed:  # the answer; a class of OSError, too
            raise
        except (OSError, ValueError):
            raise self._ray_error(_DRIVER_ENDED) from None
        finally:
            self._answers.pop(number, None)
        if "timeout" in reply:
            raise TimeoutError
        return reply["result"]

    def _write(self, request: dict[str, Any]) -> None:
        """Send a request. Raises OSError or ValueError if the driver has ended."""
        assert self._process.stdin is not None
        with self._write_lock:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def _read_answers(self) -> None:
        """Read answers until the driver ends, and pass each on to its request. Runs in a thread."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            answer = self._answers.pop(message["number"], None)
            if answer is None or not answer.set_running_or_notify_cancel():
                continue
            if "runtime_env" in message:
                answer.set_exception(_RuntimeEnvError(message["runtime_env"]))
            elif "error" in message:
                answer.set_exception(self._ray_error(message["error"]))
            else:
                answer.set_result(message)
        for answer in list(self._answers.values()):
            if answer.set_running_or_notify_cancel():
                answer.set_exception(self._ray_error(_DRIVER_ENDED))

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._last_lines = [*self._last_lines[-4:], line.decode(errors="replace").rstrip()]

    def _ray_error(self, reason: str) -> PlacementFailed:
        """Return the error for this reason, with the advice that fits it."""
        last = "; ".join(self._last_lines)
        help = f"its last output: {last}" if last else "check the cluster with `ray status`"
        for known_reason, next_step in _NEXT_STEPS.items():
            if known_reason in reason:
                help = next_step
        refusals = [line for line in self._last_lines if "InvalidAuthToken" in line]
        if refusals:  # Ray repeats the line
            help = (
                "the cluster needs a token: start the host with RAY_AUTH_MODE=token; its last "
                f"output: {refusals[-1]}"
            )
        return PlacementFailed("X0424", _UNUSABLE + reason, help=help)

    def disown(self) -> None:
        """Give up the driver in a forked copy of the host: it belongs to the original."""
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        replace_by_null(pipe.fileno() for pipe in pipes if pipe is not None and not pipe.closed)
        # The driver is not a child of this process. With a return code, Popen does not try to wait
        # for it.
        self._process.returncode = 0

    def _end(self) -> None:
        """End the driver by closing its stdin, and reap it. Blocks."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None and self._process.stderr is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass  # it has exited, and could not read the rest
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(10)
        self._process.stdout.close()
        self._process.stderr.close()


# The help for reasons that are known.
_NEXT_STEPS = {
    NOT_A_NODE: "start one with `ray start --address HEAD:6379`, or use Ray's client: set "
    'cluster.address to "ray://HEAD:10001"',
    NO_CLIENT: "pip install 'ray[client]', here and on the head before `ray start --head`",
    "Starting Ray client server failed": "try again; if it fails again, start the head with "
    "GRPC_ENABLE_FORK_SUPPORT=0",
    "ray client connection timeout": "check the address, and that port 10001 of the head can be "
    "reached; before `ray start --head`, the head needs `pip install 'ray[client]'`",
}

# The beginning of every error of Ray.
_UNUSABLE = "Ray cannot be used: "


def _driver_environ() -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    for name in ("PATH", "HOME", "LANG", "TMPDIR"):
        if name in os.environ:
            variables[name] = os.environ[name]
    return {**variables, "PYTHONPATH": package_root()}
