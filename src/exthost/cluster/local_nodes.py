"""Nodes that are simulated on this machine, so that a host can be used as on a cluster.

`LocalNodes` is a `Placer` (see `exthost.cluster.placer`): it chooses the nodes for processes and
starts an agent on each node, which runs the processes there. The agent of a simulated node is a
child process of the host. This is for tests, and to try an extension as it would run on a cluster.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from exthost.cluster.placer import AgentStart, HeldPlace, Node, PlaceRequest
from exthost.process.after_fork import disown_after_fork, replace_by_null

# How long an agent may take to end before it is killed.
_END_SECONDS = 4.0

# The capacity of a pipe on Linux.
_PIPE_BYTES = 65536

# How much of the stderr of an agent is reported: its end, because a traceback ends with the error.
_MAX_OUTPUT_BYTES = 4096

# The variables that an agent needs, and that its processes inherit from their node.
_INHERITED = ("HOME", "PATH", "LANG", "LC_ALL", "TMPDIR", "XDG_STATE_HOME", "EXTHOST_HOME")


def package_root() -> str:
    """Return the folder that must be in PYTHONPATH to import exthost."""
    return str(Path(__file__).parents[2])  # this file is <folder>/exthost/cluster/local_nodes.py


class LocalNodes:
    """A placer with `count` simulated nodes. Each has the resources `resources`, or an unlimited
    amount if None. `Placer` documents the methods without a docstring; `join`, `drain` and `leave`
    change the nodes in a test. All agents run without an image, so `image` is not used."""

    has_ended = False  # it works until it is closed
    can_grow = False  # no node is added when all are full

    def __init__(self, count: int = 3, resources: Mapping[str, float] | None = None) -> None:
        self._resources = resources
        self._nodes: dict[str, Node] = {}
        # The places that are in use: id of the request → (id of the node, its resources there).
        self._held: dict[int, tuple[str, Mapping[str, float]]] = {}
        self._changed = asyncio.Event()  # nodes or free resources may have changed: wakes `hold`
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        for number in range(1, count + 1):
            self.join(f"local-{number}")
        disown_after_fork(self)

    def join(self, name: str) -> None:
        """Add a node."""
        self._nodes[name] = Node(
            id=name, name=name, resources=self._resources, free=self._resources
        )
        self._changed.set()

    def drain(self, name: str) -> None:
        """Mark a node as being drained."""
        self._nodes[name] = replace(self._nodes[name], is_draining=True)

    def leave(self, name: str) -> None:
        """Remove a node from the list. Its agent continues to run."""
        del self._nodes[name]

    async def nodes(self) -> list[Node]:
        return [self._with_free(node) for node in self._nodes.values()]

    def _with_free(self, node: Node) -> Node:
        """Return the node with the resources that no place on it holds as `free`."""
        if node.resources is None:
            return node
        free = dict(node.resources)
        for node_id, amounts in self._held.values():
            if node_id == node.id:
                for name, amount in amounts.items():
                    free[name] = free.get(name, 0) - amount
        return replace(node, free=free)

    async def hold(self, request: PlaceRequest) -> HeldPlace:
        preferred = request.preferred.id if request.preferred is not None else ""
        async with asyncio.timeout(request.seconds):
            while True:
                self._changed.clear()
                nodes = [self._with_free(node) for node in self._nodes.values()]
                nodes.sort(key=lambda node: node.id != preferred)  # the preferred one comes first
                for node in nodes:
                    if node.id not in request.excluded and _has_free(node, request):
                        self._held[request.id] = node.id, dict(request.resources)
                        return HeldPlace(id=request.id, node=node)
                await self._changed.wait()

    async def release(self, place: HeldPlace) -> None:
        if self._held.pop(place.id, None) is not None:
            self._changed.set()

    async def start_agent(self, node: Node, start: AgentStart) -> None:
        self.agents[node.id] = _start(start)

    async def wait_agent_ended(self, node: Node, image: str) -> str:
        process = self.agents[node.id]
        loop, exited = asyncio.get_running_loop(), asyncio.Event()
        pidfd = os.pidfd_open(process.pid)
        loop.add_reader(pidfd, exited.set)
        try:
            await exited.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
        assert process.stderr is not None
        # The agent has ended, so all of its output is in the pipe, and one read is enough.
        output = os.read(process.stderr.fileno(), _PIPE_BYTES)
        return output[-_MAX_OUTPUT_BYTES:].decode(errors="replace").strip()

    async def stop_agent(self, node: Node, image: str) -> None:
        process = self.agents.pop(node.id, None)
        if process is not None:
            await asyncio.to_thread(_end, process)

    async def close(self) -> None:
        processes, self.agents = list(self.agents.values()), {}
        await asyncio.gather(*(asyncio.to_thread(_end, process) for process in processes))

    def disown(self) -> None:
        """Give up the agents in a forked copy of the host: they belong to the original."""
        for process in self.agents.values():
            replace_by_null(pipe.fileno() for pipe in (process.stdin, process.stderr) if pipe)
            # The agent is not a child of this process. With a return code, Popen does not try to
            # wait for it.
            process.returncode = 0
        self.agents = {}


def _has_free(node: Node, request: PlaceRequest) -> bool:
    if node.is_draining:
        return False
    return node.free is None or all(
        node.free.get(name, 0) >= amount for name, amount in request.resources.items()
    )


def agent_command(start: AgentStart, *options: str) -> list[str]:
    """Return the command of an agent. The nonce, by which the host recognises the agent, is not in
    it, because every user of a machine can read the arguments of a process."""
    arguments = [start.address, *([start.certificates] if start.certificates else []), *options]
    return [sys.executable, "-P", "-m", "exthost.cluster.agent", *arguments]


def _start(start: AgentStart) -> "subprocess.Popen[bytes]":
    """Start an agent as a child process, and pass it the nonce on stdin."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    process = subprocess.Popen(
        agent_command(start),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**inherited, "PYTHONPATH": package_root()},
        start_new_session=True,  # Ctrl-C in the terminal of the host does not end the agent
    )
    assert process.stdin is not None
    try:
        process.stdin.write(f"{start.nonce}\n".encode())
        process.stdin.flush()
    except OSError:
        pass  # it has ended already; `wait_agent_ended` returns the reason
    return process


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End an agent and its processes, by closing its stdin, and reap it."""
    assert process.stdin is not None and process.stderr is not None
    process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stderr.close()
