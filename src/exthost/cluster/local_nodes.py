"""A placer (what starts node processes) that needs no cluster: it starts them on this machine.

It is for tests, and to try an extension in the way in which it would run on a cluster.
"""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from exthost.cluster.placer import Node, Placement
from exthost.process.after_fork import disown_in_copies, replace_by_null

# How long a node process may take to end before it is killed.
_END_SECONDS = 2.0

# How much of the stderr of a node process is reported: a line, or a traceback.
_MAX_OUTPUT_BYTES = 4096


def package_root() -> str:
    """Return the folder that must be in PYTHONPATH to import exthost."""
    return str(Path(__file__).parents[2])


class LocalNodes:
    """Simulates `count` nodes."""

    has_ended = False

    def __init__(self, count: int = 3) -> None:
        names = [f"local-{n}" for n in range(1, count + 1)]
        self._nodes = {name: Node(id=name, name=name) for name in names}
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.placements: dict[int, Placement] = {}
        disown_in_copies(self)

    def join(self, name: str) -> None:
        """Add a node."""
        self._nodes[name] = Node(id=name, name=name)

    def drain(self, name: str) -> None:
        """Mark a node as being drained."""
        self._nodes[name] = replace(self._nodes[name], is_draining=True)

    async def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    async def place(self, placement: Placement) -> None:
        self.running[placement.id] = _start(placement)
        self.placements[placement.id] = placement

    async def wait_ended(self, placement: Placement) -> str:
        process = self.running[placement.id]
        loop, exited = asyncio.get_running_loop(), asyncio.Event()
        pidfd = os.pidfd_open(process.pid)
        loop.add_reader(pidfd, exited.set)
        try:
            await exited.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
        assert process.stderr is not None
        return os.read(process.stderr.fileno(), _MAX_OUTPUT_BYTES).decode(errors="replace").strip()

    async def release(self, placement: Placement) -> None:
        process = self.running.pop(placement.id, None)
        self.placements.pop(placement.id, None)
        if process is not None:
            await asyncio.to_thread(_end, process)

    async def close(self) -> None:
        processes, self.running = list(self.running.values()), {}
        await asyncio.gather(*(asyncio.to_thread(_end, process) for process in processes))

    def disown(self) -> None:
        """Give up the node processes in a forked copy of the host: they belong to the original."""
        for process in self.running.values():
            replace_by_null(pipe.fileno() for pipe in (process.stdin, process.stderr) if pipe)
            process.returncode = 0  # it is not a child of this process
        self.running = {}


def _start(placement: Placement) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "exthost.cluster.node_process", placement.host_address],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environ(),
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        # Not as arguments, which every user of the machine can read.
        process.stdin.write(f"{placement.nonce} {placement.certificate}\n".encode())
        process.stdin.flush()
    except OSError:
        pass  # it has ended already; `wait_ended` returns the reason
    return process


def _environ() -> dict[str, str]:
    """Return the environment of a node process: what it needs to import exthost, and to find its
    state folder."""
    names = ("HOME", "XDG_STATE_HOME", "EXTHOST_HOME")
    inherited = {name: os.environ[name] for name in names if name in os.environ}
    return {**inherited, "PYTHONPATH": package_root(), "PATH": os.defpath}


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a node process and its extension, by closing its stdin, and reap it."""
    assert process.stdin is not None and process.stderr is not None
    process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stderr.close()
