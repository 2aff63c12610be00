"""Ctrl-C in a program that uses the library: once ends politely, twice at once; nothing is left."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extensions.looking import gone

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, sys
from dataclasses import replace
import exthost
from exthost.dialects.morphir.dialect import DIALECT
from exthost.events import StateChanged
from exthost.shutdown_steps import CloseStdin, Terminate
from tests.extensions.driving import command

# One that is stubborn would keep the program for longer than the test waits.
steps = (CloseStdin(wait=300), Terminate(wait=300))
object.__setattr__(DIALECT, "traits", replace(DIALECT.traits, shutdown_steps=steps))

def tell(change):
    if change.after == "draining":
        print("leaving", flush=True)

async def main():
    program, *args = command(*sys.argv[1:])
    source = {"type": "process", "command": program, "args": args}
    entries = [{"name": "h", "source": source}]
    async with exthost.Host.from_config({"extensions": entries}) as host:
        host.events.subscribe(StateChanged, tell)
        print(host["h"].stats.pid, flush=True)
        await host["h"].call("keep", timeout=300)

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
        assert process.stdout.readline() == "leaving\n"
        if times == 2:
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=40) != 0
    assert gone(pid)
