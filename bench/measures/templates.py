"""Starts of an unmodified FastMCP server in the strict sandbox, from a template and executed."""

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench import memory, subject
from bench.measures.sdk import SERVERS
from bench.rounds import duration, ratios, read_values, take_turns_async
from bench.row import NotHere, Reading, Setting

# `make fastmcp` installs it there.
PYTHON = Path(sys.prefix, "fastmcp", "bin", "python")
ROUNDS = 5
POOL_SIZE = 16
# A program that imports 1,300 modules, on a machine that is busy.
START_S = 60.0


@asynccontextmanager
async def _server(start_method: str, **options: Any) -> AsyncIterator[Any]:
    argv = (str(PYTHON), str(SERVERS / "of_fastmcp_package.py"))
    limits = {"start": START_S, "handshake": START_S}
    async with subject.connect(
        argv,
        dialect="mcp",
        permissions={},
        start_method=start_method,
        limits=limits,
        **options,
    ) as extension:
        yield extension


async def _call(extension: Any) -> None:
    await extension.call_tool("echo", {"text": "hi"}, timeout=START_S)


async def _learn(extension: Any) -> None:
    """Restart the server until its processes are forked from a template with its modules."""
    async with asyncio.timeout(4 * START_S):
        while not subject.template_modules(extension):
            await _call(extension)
            await asyncio.sleep(1)  # its modules are recorded one second after it is ready
            await extension.restart()


async def restart(extension: Any) -> float:
    """Return the time from a restart to the first result. The end of the old process is not
    measured, and does not slow down the next measurement."""
    began_at = time.perf_counter()
    await extension.restart()
    await _call(extension)
    took = time.perf_counter() - began_at
    await subject.replaced_processes_ended(extension)
    return took


async def _restart_pool(extension: Any) -> None:
    await extension.restart()
    await subject.processes(extension, POOL_SIZE)


def _check_installed() -> None:
    if not PYTHON.exists():
        raise NotHere("FastMCP is not installed (make fastmcp)")
    if shutil.which("bwrap") is None:
        raise NotHere("bubblewrap is not installed")


def first_result(setting: Setting) -> Reading:
    """From a restart to the first result, without a template / with one."""

    async def measure() -> Reading:
        async with _server("execute") as cold, _server("template") as warm:
            await _learn(warm)
            took = await take_turns_async(
                {"cold": lambda: restart(cold), "warm": lambda: restart(warm)}, ROUNDS
            )
        absolute = (("cold", duration(took["cold"])), ("warm", duration(took["warm"])))
        return read_values(ratios(took["cold"], took["warm"]), absolute)

    _check_installed()
    return subject.run(measure())


def pool(setting: Setting) -> Reading:
    """A pool of 16 restarted from a template and ready / one process restarted without one."""

    async def measure() -> Reading:
        async with _server("execute") as cold, _server("template", pool={"min": POOL_SIZE}) as warm:
            await _learn(warm)
            await subject.processes(warm, POOL_SIZE)
            took = await take_turns_async(
                {"cold": lambda: restart(cold), "pool": lambda: _restart_pool(warm)}, ROUNDS
            )
        absolute = (
            (f"pool of {POOL_SIZE}", duration(took["pool"])),
            ("cold", duration(took["cold"])),
        )
        return read_values(ratios(took["pool"], took["cold"]), absolute)

    _check_installed()
    memory.allow_files(POOL_SIZE * 16 + 100)
    return subject.run(measure())
