"""Ctrl-C in a program that uses the library: once ends politely, twice at once; nothing is left."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.extensions.proc import gone

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, sys
from dataclasses import replace
import exthost
from exthost.dialects.morphir.dialect import DIALECT
from exthost.events import StateChanged
from exthost.model.shutdown_steps import CloseStdin, Terminate
from tests.extensions.harness import command

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
        assert process.wait(timeout=150) != 0
    assert gone(pid)


STARTING = """
import sys
import exthost

source = {"type": "process", "command": sys.executable, "args": ["-c", sys.argv[1]]}
entries = [{"name": name, "dialect": "mcp", "source": source} for name in ("one", "two")]
with exthost.SyncHost.from_config({"extensions": entries}):
    raise SystemExit("it shook hands")
"""


def wait_until(happened: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def test_ctrl_c_while_a_blocking_host_starts_leaves_one_traceback_and_nothing_else(
    tmp_path: Path,
) -> None:
    report = tmp_path / "pids"
    mute = f"open({str(report)!r}, 'a').write('started\\n'); import signal; signal.pause()"
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", STARTING, mute],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: report.exists() and report.read_text().count("\n") == 2)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=150)
    assert process.returncode == -signal.SIGINT
    assert stderr.count("Traceback") == 1 and stderr.rstrip().endswith("KeyboardInterrupt"), stderr
    for noise in ("Task was destroyed", "never retrieved", "SpawnFailed", "Exception ignored"):
        assert noise not in stderr
