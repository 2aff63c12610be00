"""Extensions that start at the same time spawn their processes one after another (`spawn_turn`),
and other callbacks of the event loop run in between.

A spawn blocks the event loop for a few milliseconds. Without turns, the spawns of many extensions
would block it for as long as all of them take.
"""

import asyncio
from typing import Any

from exthost.config import spec_from_mapping
from exthost.extension.extension import Extension
from exthost.extension.startup import spawn_turn
from exthost.process.child import Child
from tests.extensions.harness import SHORT_SHUTDOWN as MORPHIR_WITH_SHORT_SHUTDOWN
from tests.extensions.harness import hostile_command


async def test_other_callbacks_run_between_two_spawns() -> None:
    loop = asyncio.get_running_loop()
    iterations = 0  # of the event loop
    is_over = False
    iterations_at_spawn: list[int] = []

    def count_iteration() -> None:
        nonlocal iterations
        iterations += 1
        if not is_over:
            loop.call_soon(count_iteration)

    def spawn(plan: Any, name: str) -> Child:
        iterations_at_spawn.append(iterations)
        return Child(plan, name)

    loop.call_soon(count_iteration)
    program, *args = hostile_command()
    source = {"command": program, "args": args}
    extensions = [
        Extension(
            spec_from_mapping({"name": f"e{n}", "source": source}),
            MORPHIR_WITH_SHORT_SHUTDOWN,
            spawn=spawn,
        )
        for n in range(4)
    ]
    try:
        await asyncio.gather(*(extension.start() for extension in extensions))
        # No two processes were spawned in the same iteration of the loop.
        assert len(set(iterations_at_spawn)) == 4, iterations_at_spawn
    finally:
        is_over = True
        await asyncio.gather(*(extension.close() for extension in extensions))


async def test_a_start_that_is_cancelled_while_it_waits_spawns_no_process() -> None:
    spawned_names: list[str] = []

    def spawn(plan: Any, name: str) -> Child:
        spawned_names.append(name)
        return Child(plan, name)

    program, *args = hostile_command()
    spec = spec_from_mapping({"name": "e", "source": {"command": program, "args": args}})
    extension = Extension(spec, MORPHIR_WITH_SHORT_SHUTDOWN, spawn=spawn)
    async with spawn_turn(asyncio.get_running_loop()):  # no other start can spawn meanwhile
        starting = asyncio.ensure_future(extension.start())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not spawned_names
        await extension.close()
        await asyncio.wait([starting])
    assert not spawned_names
