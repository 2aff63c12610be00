"""Whether a call costs the same later, and beside many extensions. Reported, not judged: 1.00 is
constant.
"""

import asyncio
import statistics
from collections.abc import Awaitable, Callable

from bench import baselines, cores, memory, subject
from bench.children import bare
from bench.crowd import crowd
from bench.measures import tools
from bench.measures.calls import BLOCK_CALLS, MORE_ROUNDS, one_by_one, small_call
from bench.rounds import Samples, duration, held, ratios, read_values, take_turns_async
from bench.row import Reading, Setting

OLD_CALLS = 100_000
COMPANY = 200
AT_ONCE = 100


async def _block(extension: subject.Extension) -> None:
    call = small_call(extension)
    for _ in range(BLOCK_CALLS):
        await call()


async def _age(extension: subject.Extension) -> None:
    call = small_call(extension)

    async def call_once() -> None:
        for _ in range(OLD_CALLS // AT_ONCE):
            await call()

    await asyncio.gather(*(call_once() for _ in range(AT_ONCE)))


def old_session(setting: Setting) -> Reading:
    """A call in a session that has served 100,000 calls / a call in a new one, in turn."""

    async def work() -> Reading:
        pair = cores.apart()
        async with (
            subject.connect(setting.child) as old,
            subject.connect(setting.child) as young,
        ):
            note = cores.pin(pair)
            await _age(old)
            blocks = {"old": lambda: _block(old), "young": lambda: _block(young)}
            took = await take_turns_async(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)
        absolute = (("old", duration(took["old"])), ("young", duration(took["young"])))
        return read_values(ratios(took["old"], took["young"]), absolute, note)

    return subject.run(work())


def in_company(setting: Setting) -> Reading:
    """A call with 200 extensions loaded / with one. Each is first divided by raw Python, since the
    two cannot take turns."""
    memory.allow_files(COMPANY * 8 + 100)

    async def work() -> Reading:
        pair = cores.apart()
        with bare(setting.child) as raw:
            async with crowd(setting.child) as people:
                [extension] = await people.grow(1)
                note = cores.pin(pair)
                blocks = {
                    "raw": held(baselines.ping_pong(raw, BLOCK_CALLS)),
                    "exthost": lambda: _block(extension),
                }
                alone = await take_turns_async(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)
                await people.grow(COMPANY - 1)
                cores.pin(pair)
                crowded = await take_turns_async(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)

        def relative(took: Samples) -> float:
            return statistics.median(ratios(took["exthost"], took["raw"]))

        absolute = (
            ("1", duration(alone["exthost"])),
            (str(COMPANY), duration(crowded["exthost"])),
        )
        return Reading(relative(crowded) / relative(alone), absolute, note)

    return subject.run(work())


def call_tool_in_company(setting: Setting) -> Reading:
    """`host.call_tool` in a host of 200 extensions / in a host of one, in turn."""
    memory.allow_files(COMPANY * 8 + 100)

    async def work() -> Reading:
        pair = cores.apart()
        many = [tools.entry(setting, f"x{number}") for number in range(COMPANY)]
        async with subject.host(*many) as crowded, subject.host(tools.entry(setting)) as alone:
            note = cores.pin(pair)

            def run(host: subject.Host, extension: str) -> Callable[[], Awaitable[object]]:
                name = subject.registered(extension)
                return lambda: host.call_tool(name, tools.ARGUMENTS, timeout=subject.CALL_S)

            blocks = {
                str(COMPANY): one_by_one(run(crowded, "x0")),
                "1": one_by_one(run(alone, "x")),
            }
            took = await take_turns_async(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)
        absolute = tuple((name, duration(took[name])) for name in took)
        return read_values(ratios(took[str(COMPANY)], took["1"]), absolute, note)

    return subject.run(work())
