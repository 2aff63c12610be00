"""The memory of the host. Each of these rows needs a process that has done nothing else."""

import asyncio

from bench import baselines, memory, subject
from bench.crowd import crowd
from bench.measures.bulk import LONG_LINE_BYTES
from bench.memory import KIB, MIB
from bench.row import Reading, Setting

ECHO_BYTES = 16 * MIB
# The default of `limits.max_message` in the dialects with lines.
DEFAULT_CAP_BYTES = 64 * MIB
# Enough calls to fill every lazy import, cache and buffer of small calls.
WARM_CALLS = 500
# Two points of a line: the one-time cost of the first extensions is in both.
FEW_EXTENSIONS, MANY_EXTENSIONS = 100, 300
# Three pipes, a pidfd and one to spare.
FILES_EACH = 8


async def _warm(extension: subject.Extension) -> None:
    for _ in range(WARM_CALLS):
        await extension.call("echo", baselines.SMALL, timeout=subject.CALL_S)


def peak_of_large_echo(setting: Setting) -> Reading:
    """Peak memory while 16 MiB go out and come back / 16 MiB; the caller's own text counts."""

    async def work() -> Reading:
        async with subject.connect(setting.child) as extension:
            await _warm(extension)
            before = memory.forget_peak()
            params = {"text": "x" * ECHO_BYTES}
            echoed = await extension.call("echo", params, timeout=subject.CALL_S)
            grown = memory.peak() - before
            assert echoed == params
        absolute = (("peak", f"+{grown / MIB:.1f} MiB"), ("before", f"{before / MIB:.1f} MiB"))
        return Reading(grown / ECHO_BYTES, absolute, "text sent and text received included")

    return subject.run(work())


def idle_extension(setting: Setting) -> Reading:
    """KiB of host memory for one more extension that was started and is idle."""
    memory.allow_files(MANY_EXTENSIONS * FILES_EACH)

    async def work() -> Reading:
        async with crowd(setting.child) as people:
            await people.grow(FEW_EXTENSIONS)
            before = memory.resident()
            await people.grow(MANY_EXTENSIONS - FEW_EXTENSIONS)
            # One turn of the loop, so that it has done what the starts scheduled.
            await asyncio.sleep(0.1)
            many = memory.resident()
        each = (many - before) / (MANY_EXTENSIONS - FEW_EXTENSIONS) / KIB
        absolute = (
            (f"{FEW_EXTENSIONS} extensions", f"{before / MIB:.1f} MiB"),
            (f"{MANY_EXTENSIONS} extensions", f"{many / MIB:.1f} MiB"),
        )
        return Reading(each, absolute)

    return subject.run(work())


def long_line_refused(setting: Setting) -> Reading:
    """MiB that a line of 128 MB costs if 64 MiB are allowed: above the limit, or kept afterwards.

    Up to the limit the line must be kept, because it could still end in time. Everything beyond
    must be constant: the rest of the line, and the memory after the line was refused.
    """

    async def work() -> Reading:
        errors = subject.public("errors")
        async with subject.connect(setting.child) as extension:
            await _warm(extension)
            before = memory.forget_peak()
            try:
                await extension.call("big", LONG_LINE_BYTES, timeout=subject.CALL_S)
            except errors.CallTimeout:
                raise
            except errors.ExthostError as error:
                refusal = type(error).__name__
            else:
                raise AssertionError("128 MB on one line were accepted under the default limits")
            # The reply comes only after the rest of the long line was read and dropped.
            echoed = await extension.call("echo", baselines.SMALL, timeout=subject.CALL_S)
            assert echoed == baselines.SMALL
            grown = memory.peak() - before
            retained = memory.resident() - before
        absolute = (
            ("refused with", refusal),
            ("peak", f"+{grown / MIB:.1f} MiB under a cap of {DEFAULT_CAP_BYTES // MIB}"),
            ("kept", f"{retained / MIB:+.1f} MiB"),
        )
        return Reading(max(grown - DEFAULT_CAP_BYTES, retained, 0) / MIB, absolute)

    return subject.run(work())
