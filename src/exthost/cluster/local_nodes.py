"""A placer without a cluster: nodes are simulated by node processes on this machine.

For tests, and to try an extension as it would run on a cluster.
"""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from exthost.cluster.placer import Node, Placement
from exthost.process.after_fork import disown_in_copies, replace_by_null

__all__ = ["LocalNodes", "package_root"]

# How long a node process may take to end. One that is frozen takes for ever.
_END_SECONDS = 2.0

# What a node process prints when it fails is a line, or a traceback.
_WORDS_BYTES = 4096


def package_root() -> str:
    """Return the folder that a Python needs on its path to import this package."""
    return str(Path(__file__).parents[2])


class LocalNodes:
    """Simulates `count` nodes."""

    is_over = False

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
        """Have a node emptied."""
        self._nodes[name] = replace(self._nodes[name], is_draining=True)

    async def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    async def place(self, placement: Placement) -> None:
        self.running[placement.id] = _start(placement)
        self.placements[placement.id] = placement

    async def ended(self, placement: Placement) -> str:
        process = self.running[placement.id]
        loop, is_over = asyncio.get_running_loop(), asyncio.Event()
        pidfd = os.pidfd_open(process.pid)
        loop.add_reader(pidfd, is_over.set)
        try:
            await is_over.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
        assert process.stderr is not None
        return os.read(process.stderr.fileno(), _WORDS_BYTES).decode(errors="replace").strip()

    async def release(self, placement: Placement) -> None:
        process = self.running.pop(placement.id, None)
        self.placements.pop(placement.id, None)
        if process is not None:
            await asyncio.to_thread(_end, process)

    async def close(self) -> None:
        processes, self.running = list(self.running.values()), {}
        await asyncio.gather(*(asyncio.to_thread(_end, process) for process in processes))

    def disown(self) -> None:
        """Let go of the node processes in a forked copy of the host."""
        for process in self.running.values():
            replace_by_null(pipe.fileno() for pipe in (process.stdin, process.stderr) if pipe)
            process.returncode = 0  # it is not a child of this process
        self.running = {}


def _start(placement: Placement) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "exthost.cluster.node_process", placement.gate],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environ(),
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        # Not as arguments: those are public.
        process.stdin.write(f"{placement.nonce} {placement.certificate}\n".encode())
        process.stdin.flush()
    except OSError:
        pass  # it has ended already, and `ended` says why
    return process


def _environ() -> dict[str, str]:
    """Return the variables of a node process: those that say where its state folder is."""
    names = ("HOME", "XDG_STATE_HOME", "EXTHOST_HOME")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, "PYTHONPATH": package_root(), "PATH": os.defpath}


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Close its stdin, which ends it together with its extension, and reap it."""
    assert process.stdin is not None and process.stderr is not None
    process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stderr.close()
