"""The output of an extension that writes much is read in slices and logged at a limited rate.

Otherwise one extension that floods the host with noise would block the event loop, and with it all
other extensions. Stray lines are lines on stdout that are not messages.

Output that no call waits for has a cost, in units: one for each line or message of less than a KiB.
A pipe with more than 128 units at once, and then more than 4000 a second, is a flood: its
lines are read in turns, so that other work comes between them (`process/flood_budget.py`).
"""

import asyncio
import os
import sys
from typing import Any

import pytest

import exthost
from exthost.events import Bus, LogLine
from exthost.process.pipe_ends import FdReadEnd
from exthost.process.stdout_reader import StdoutReader
from exthost.session.diagnostics import DROPPED_LINES
from exthost.wire.framing import Item
from exthost.wire.lines import Lines
from tests.extensions.morphir_program import morphir_program

# An extension whose methods write n lines to stderr or n stray lines to stdout before the reply.
PROGRAM = morphir_program(
    r"""
    if method == "stderr":
        os.write(2, b"".join(b"line %d\n" % number for number in range(params)))
    if method == "junk":
        os.write(1, b"x\n" * params)
    """
)
COMMAND = [sys.executable, "-S", "-E", "-c", PROGRAM]


async def test_stray_output_is_passed_on_in_slices() -> None:
    read_end, write_end = os.pipe()
    slice_sizes: list[int] = []

    def on_items(items: list[Item]) -> None:
        slice_sizes.append(len(items))
        # In the product, the session does this: it reports what no call waited for.
        reader.unawaited_units += len(items)

    loop = asyncio.get_running_loop()
    pipe = FdReadEnd(read_end)
    framing = Lines(1000)  # lines of at most 1000 bytes
    reader = StdoutReader(
        pipe, framing, loop, on_items, on_end=lambda: None, may_serve_call=lambda head: True
    )
    try:
        reader.resume()
        for _ in range(3):  # the first 500 lines make it a flood, and it remains one
            before = sum(slice_sizes)
            os.write(write_end, b"x\n" * 500)
            async with asyncio.timeout(30):
                while sum(slice_sizes) < before + 500:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        # The reader passes on at most 128 items before it charges their cost. The first slice uses
        # up the budget, or almost, since it leaks. After the second the output is a flood, whose
        # items are passed on one by one.
        assert max(slice_sizes) <= 128 and set(slice_sizes[2:]) == {1}, slice_sizes
    finally:
        reader.close()
        os.close(read_end)
        os.close(write_end)


@pytest.mark.more
async def test_many_stray_lines_do_not_prevent_a_reply() -> None:
    async with exthost.connect(COMMAND, dialect="morphir") as ext:
        # 5,000 stray lines come before the reply to `junk`.
        assert await ext.call("junk", 5_000, timeout=60) == {}
        assert await ext.call("echo", 1, timeout=60) == {}


async def test_lines_over_the_rate_are_counted_and_the_last_lines_are_kept() -> None:
    bus, lines = Bus(), list[str]()
    bus.subscribe(LogLine, lambda line: lines.append(line.text))
    line_count: Any = 20_000  # a thousand lines a second are logged
    async with exthost.connect(COMMAND, dialect="morphir", events=bus) as ext:
        await ext.call("stderr", line_count, timeout=60)
        session = ext.internals.queue.sessions[0]
    dropped = session.diagnostics.counts[DROPPED_LINES]
    logged_lines = [text for text in lines if text.startswith("line ")]
    assert dropped > 0 and len(logged_lines) + dropped == line_count
    assert logged_lines[:3] == ["line 0", "line 1", "line 2"]
    assert session.diagnostics.evidence().stderr[-1] == f"line {line_count - 1}"


async def test_a_burst_of_lines_below_the_limit_is_passed_on_in_order_without_a_loss() -> None:
    bus, lines = Bus(), list[str]()
    bus.subscribe(LogLine, lambda line: lines.append(line.text))
    async with exthost.connect(COMMAND, dialect="morphir", events=bus) as ext:
        await ext.call("stderr", 300, timeout=60)
    assert lines == [f"line {n}" for n in range(300)]
