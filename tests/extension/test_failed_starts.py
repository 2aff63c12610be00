"""An extension with a pool of two processes, whose starts end at the same moment.

The extension is ready if one of the starts succeeds, and has failed once if both fail. A function
`spawn` replaces the start of a process, so that the test decides when and how each start ends.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from exthost.config import spec_from_mapping
from exthost.dialects.morphir.dialect import DIALECT
from exthost.errors import SpawnFailed
from exthost.extension.extension import Extension
from exthost.model.launch_plan import LaunchPlan
from exthost.process.child import Child
from exthost.process.child_process import ChildProcess
from tests.extensions.harness import closed_at_end, error_of, hostile_command, wait_until

PROGRAM_MISSING = "X0401"


def make_extension(spawn: Callable[..., Awaitable[ChildProcess]]) -> Extension:
    """Return an extension with two processes, which `spawn` starts, and without restarts."""
    program, *args = hostile_command()
    entry = {
        "name": "a",
        "source": {"type": "process", "command": program, "args": args},
        "pool": {"min": 2, "max": 2},
        "restart": {"strategy": "never"},
    }
    return Extension(spec_from_mapping(entry), DIALECT, spawn=spawn)


async def test_two_starts_that_fail_at_the_same_moment_are_one_failure() -> None:
    both_are_starting = asyncio.Barrier(2)

    async def spawn(plan: LaunchPlan, name: str) -> ChildProcess:
        await both_are_starting.wait()
        raise SpawnFailed(PROGRAM_MISSING, "there is no such program")

    async with closed_at_end(make_extension(spawn)) as extension:
        assert (await error_of(extension.start())).code == PROGRAM_MISSING
        assert extension.state == "failed" and extension.stats.processes == 0


async def test_an_extension_is_ready_if_one_of_two_starts_succeeds() -> None:
    both_are_starting = asyncio.Barrier(2)
    attempts = iter(range(2))

    async def spawn(plan: LaunchPlan, name: str) -> ChildProcess:
        if next(attempts) == 0:
            await both_are_starting.wait()
            raise SpawnFailed(PROGRAM_MISSING, "there is no such program")
        child = Child(plan, name)  # a real process
        await both_are_starting.wait()
        return child

    async with closed_at_end(make_extension(spawn)) as extension:
        await extension.start()
        assert await extension.call("echo", 1) == 1
        assert extension.state == "ready"


async def test_a_start_that_a_cancelled_future_ends_has_failed() -> None:
    async def spawn(plan: LaunchPlan, name: str) -> ChildProcess:
        raise asyncio.CancelledError

    async with closed_at_end(make_extension(spawn)) as extension:
        error = await asyncio.wait_for(error_of(extension.start()), 150)
        assert error.code == "X0406" and "CancelledError" in error.message
        assert extension.state == "failed"


@pytest.mark.parametrize("is_ready", [False, True])
async def test_an_extension_whose_tasks_were_cancelled_is_stopped(is_ready: bool) -> None:
    is_starting = asyncio.Event()

    async def spawn(plan: LaunchPlan, name: str) -> ChildProcess:
        is_starting.set()
        if is_ready:
            return Child(plan, name)
        await asyncio.Event().wait()
        raise AssertionError

    async with closed_at_end(make_extension(spawn)) as extension:
        starting = asyncio.ensure_future(error_of(extension.start()))
        await is_starting.wait()
        if is_ready:
            await wait_until(lambda: extension.stats.processes == 2)
        starting.cancel()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=150)
        assert extension.state == "stopped" and extension.stats.processes == 0
        assert (await asyncio.wait_for(error_of(extension.start()), 150)).code == "X1006"
