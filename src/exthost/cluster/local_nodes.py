"""A placer without a cluster: nodes are simulated by node processes on this machine.

For tests, and to try an extension as it would run on a cluster.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from exthost.cluster.placer import Node, Placement

__all__ = ["LocalNodes", "package_root"]

# How long a node process may take to end. One that is frozen takes for ever.
_END_SECONDS = 2.0


def package_root() -> str:
    """Return the folder that a Python needs on its path to import this package."""
    return str(Path(__file__).parents[2])


class LocalNodes:
    """Simulates `count` nodes."""

    def __init__(self, count: int = 3) -> None:
        self._nodes = [Node(id=f"local-{n}", name=f"local-{n}") for n in range(1, count + 1)]
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    async def nodes(self) -> list[Node]:
        return list(self._nodes)

    async def place(self, placement: Placement) -> None:
        self.running[placement.id] = _start(placement)

    async def release(self, placement: Placement) -> None:
        process = self.running.pop(placement.id, None)
        if process is not None:
            await asyncio.to_thread(_end, process)

    async def close(self) -> None:
        processes, self.running = list(self.running.values()), {}
        await asyncio.gather(*(asyncio.to_thread(_end, process) for process in processes))


def _start(placement: Placement) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "exthost.cluster.node_process", placement.gate],
        stdin=subprocess.PIPE,
        env={"PYTHONPATH": package_root(), "PATH": os.defpath},
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(placement.nonce.encode() + b"\n")  # not an argument: those are public
    process.stdin.flush()
    return process


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Close its stdin, which ends it together with its extension, and reap it."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
