"""A chatty extension is read in slices and logged at a bounded rate; no reply is lost."""

import asyncio
import os
import sys
from typing import Any

import exthost
from exthost.events import Bus, LogLine
from exthost.process.stdout_reader import StdoutReader
from exthost.session.diagnostics import DROPPED_LINES
from exthost.wire.framing import Item
from exthost.wire.lines import Lines

CHILD = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    n = asked.get("params")
    if asked["method"] == "stderr":
        os.write(2, b"".join(b"line %d\\n" % i for i in range(n)))
    if asked["method"] == "junk":
        os.write(1, b"x\\n" * n)
    print(json.dumps({"id": asked["id"], "result": []}), flush=True)
"""
COMMAND = [sys.executable, "-S", "-E", "-c", CHILD]


async def test_a_noisy_read_is_passed_on_in_slices() -> None:
    read_end, write_end = os.pipe()
    calls: list[int] = []

    def on_items(items: list[Item]) -> None:
        calls.append(len(items))
        reader.unawaited_units += len(items)

    loop = asyncio.get_running_loop()
    reader = StdoutReader(read_end, Lines(1000), loop, on_items, lambda: None, lambda head: True)
    try:
        reader.resume()
        for _ in range(3):
            before = sum(calls)
            os.write(write_end, b"x\n" * 500)
            async with asyncio.timeout(30):
                while sum(calls) < before + 500:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        assert max(calls) <= 128 and set(calls[2:]) == {1}, calls
    finally:
        reader.close()
        os.close(read_end)
        os.close(write_end)


async def test_junk_without_end_delays_no_reply_for_good() -> None:
    async with exthost.connect(COMMAND, dialect="morphir") as ext:
        assert await ext.call("junk", 5_000, timeout=60) == []
        assert await ext.call("echo", 1, timeout=60) == []


async def test_lines_beyond_the_rate_are_counted_and_the_tail_is_complete() -> None:
    bus, lines = Bus(), list[str]()
    bus.subscribe(LogLine, lambda line: lines.append(line.text))
    many: Any = 20_000
    async with exthost.connect(COMMAND, dialect="morphir", events=bus) as ext:
        await ext.call("stderr", many, timeout=60)
        session = ext.internals.queue.sessions[0]
    dropped = session.diagnostics.counts[DROPPED_LINES]
    kept = [text for text in lines if text.startswith("line ")]
    assert dropped and len(kept) + dropped == many and kept[:3] == ["line 0", "line 1", "line 2"]
    assert session.diagnostics.evidence().stderr[-1] == f"line {many - 1}"


async def test_a_burst_of_lines_is_passed_on_in_order() -> None:
    bus, lines = Bus(), list[str]()
    bus.subscribe(LogLine, lambda line: lines.append(line.text))
    async with exthost.connect(COMMAND, dialect="morphir", events=bus) as ext:
        await ext.call("stderr", 300, timeout=60)
    assert lines == [f"line {n}" for n in range(300)]
