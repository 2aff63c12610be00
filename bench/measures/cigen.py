"""The figures in the documentation of cigen: spawn < 50 ms, handshake < 100 ms, < 1 ms per message.
Each target is a tenth of that, in absolute numbers, because the figures of cigen are absolute.
"""

import time
from collections.abc import Callable
from typing import Any

from bench import subject
from bench.rounds import read_values
from bench.row import NotHere, Reading, Setting

BLOCK_CALLS = 100
# Plan and its result, Generate and its result.
MESSAGES_A_CALL = 4
REQUEST = {"schema": {"version": "1", "jobs": [{"id": "a", "image": "x"}]}}


def _plugin(setting: Setting) -> tuple[str, ...]:
    if not setting.child_is_c:
        raise NotHere("a C compiler: the plugin is a C child")
    return (*setting.child, "--cigen")


def starting(step: str) -> Callable[[Setting], Reading]:
    """One step of a start, `spawn` or `handshake`, in milliseconds."""

    async def work(setting: Setting) -> Reading:
        took: list[float] = []
        for turn in range(-1, setting.rounds):
            async with subject.connect(_plugin(setting), dialect="cigen") as extension:
                target: Any = extension
                if turn >= 0:
                    took.append(target.stats.timings_ms[step])
        return read_values(took)

    return lambda setting: subject.run(work(setting))


def message(setting: Setting) -> Reading:
    """`generate`, which is four messages, in milliseconds a message; JSON in and out."""

    async def work() -> Reading:
        took: list[float] = []
        async with subject.connect(_plugin(setting), dialect="cigen") as extension:
            for turn in range(-1, setting.rounds):
                before = time.perf_counter()
                for _ in range(BLOCK_CALLS):
                    await extension.call("generate", REQUEST, timeout=subject.CALL_S)
                if turn >= 0:
                    spent = time.perf_counter() - before
                    took.append(spent * 1e3 / BLOCK_CALLS / MESSAGES_A_CALL)
        return read_values(took)

    return subject.run(work())
