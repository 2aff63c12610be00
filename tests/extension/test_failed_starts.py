"""Processes of a pool whose starts end at the same moment: one success makes the extension
ready."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from exthost.config import spec_from_mapping
from exthost.dialects.morphir.dialect import DIALECT
from exthost.errors import SpawnFailed
from exthost.extension.extension import Extension
from exthost.model.launch_plan import LaunchPlan
from exthost.process.child import Child
from exthost.process.child_process import ChildProcess
from tests.extensions.harness import closed_at_end, error_of, hostile_command

NO_RESTART = {"strategy": "never"}


def pool_of(size: int, spawn: Callable[..., Awaitable[ChildProcess]], **settings: Any) -> Extension:
    program, *args = hostile_command()
    entry = {
        "name": "a",
        "source": {"type": "process", "command": program, "args": args},
        "pool": {"min": size, "max": size},
        **settings,
    }
    return Extension(spec_from_mapping(entry), DIALECT, spawn=spawn)


async def test_two_starts_that_fail_at_the_same_moment_are_one_failure() -> None:
    both_are_starting = asyncio.Barrier(2)

    async def spawn(plan: LaunchPlan, name: str) -> ChildProcess:
        await both_are_starting.wait()
        raise SpawnFailed("X0401", "there is no such program")

    async with closed_at_end(pool_of(2, spawn, restart=NO_RESTART)) as extension:
        assert (await error_of(extension.start())).code == "X0401"
        assert extension.state == "failed" and extension.stats.processes == 0


async def test_an_extension_is_ready_if_one_of_two_starts_succeeds() -> None:
    both_are_starting = asyncio.Barrier(2)
    attempts = iter(range(2))

    async def spawn(plan: LaunchPlan, name: str) -> ChildProcess:
        if next(attempts) == 0:
            await both_are_starting.wait()
            raise SpawnFailed("X0401", "there is no such program")
        child = Child(plan, name)
        await both_are_starting.wait()
        return child

    async with closed_at_end(pool_of(2, spawn, restart=NO_RESTART)) as extension:
        await extension.start()
        assert await extension.call("echo", 1) == 1
        assert extension.state == "ready"
