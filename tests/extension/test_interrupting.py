"""Ctrl-C in a program that uses the library: once ends politely, twice at once; nothing is left."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.extensions.looking import gone

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, sys
import exthost
from tests.extensions.driving import command

async def main():
    program, *args = command(*sys.argv[1:])
    source = {"type": "process", "command": program, "args": args}
    entries = [{"name": "h", "source": source}]
    async with exthost.Host.from_config({"extensions": entries}) as host:
        print(host["h"].stats["pid"], flush=True)
        try:
            await host["h"].call("keep")
        finally:  # said when it waits for the end of the extension
            asyncio.get_running_loop().call_later(0.2, lambda: print("leaving", flush=True))

asyncio.run(main())
"""


@pytest.mark.parametrize(("flag", "times"), [("polite", 1), ("stubborn", 2)])
def test_once_ends_politely_and_twice_at_once(flag: str, times: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, flag],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        if times == 2:
            assert process.stdout.readline() == "leaving\n"
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) != 0
        assert time.monotonic() - began < 3.5  # a stubborn one would have 5 s of its ladder
    assert gone(pid)
