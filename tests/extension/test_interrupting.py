"""Ctrl-C in a program that uses the library. The first one ends extensions by the shutdown steps,
the second one ends them immediately. No process remains.

The shutdown steps are to close stdin and wait, to send SIGTERM and wait, and then to send SIGKILL.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.extensions.proc import is_gone

ROOT = Path(__file__).parents[2]

# A program with one hostile extension. It prints the pid of the extension, makes a call that is
# never answered, and prints "draining" when the extension is stopped.
HOST_PROGRAM = """
import asyncio, sys
from dataclasses import replace
import exthost
from exthost.dialects.morphir.dialect import DIALECT
from exthost.events import StateChanged
from exthost.model.shutdown_steps import CloseStdin, Terminate
from tests.extensions.harness import hostile_command

# A stubborn extension would keep the program for longer than the test waits.
steps = (CloseStdin(wait=300), Terminate(wait=300))
object.__setattr__(DIALECT, "traits", replace(DIALECT.traits, shutdown_steps=steps))

def print_draining(change):
    if change.after == "draining":
        print("draining", flush=True)

async def main():
    program, *args = hostile_command(*sys.argv[1:])
    source = {"type": "process", "command": program, "args": args}
    entries = [{"name": "h", "source": source}]
    async with exthost.Host.from_config({"extensions": entries}) as host:
        host.events.subscribe(StateChanged, print_draining)
        print(host["h"].stats.pid, flush=True)
        await host["h"].call("keep", timeout=300)

asyncio.run(main())
"""


# A "stubborn" extension ignores the end of stdin and SIGTERM, so that only SIGKILL ends it.
@pytest.mark.parametrize(("flag", "interrupts"), [("polite", 1), ("stubborn", 2)])
def test_the_second_ctrl_c_ends_a_stubborn_extension(flag: str, interrupts: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOST_PROGRAM, flag],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())  # of the extension
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "draining\n"
        if interrupts == 2:
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=150) != 0
    assert is_gone(pid)


# A program that starts two extensions. Each of them is the code in the first argument.
TWO_STARTS = """
import sys
import exthost

source = {"type": "process", "command": sys.executable, "args": ["-c", sys.argv[1]]}
entries = [{"name": name, "dialect": "mcp", "source": source} for name in ("one", "two")]
with exthost.SyncHost.from_config({"extensions": entries}):
    raise SystemExit("an extension became ready")
"""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ctrl_c_while_a_blocking_host_starts_leaves_one_traceback_and_nothing_else(
    tmp_path: Path,
) -> None:
    starts_file = tmp_path / "starts"
    never_ready_program = (
        f"open({str(starts_file)!r}, 'a').write('started\\n'); import signal; signal.pause()"
    )
    # With `-X dev`, Python also prints warnings about objects that were not closed.
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", TWO_STARTS, never_ready_program],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: starts_file.exists() and starts_file.read_text().count("\n") == 2)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=150)
    assert process.returncode == -signal.SIGINT
    assert stderr.count("Traceback") == 1 and stderr.rstrip().endswith("KeyboardInterrupt"), stderr
    for noise in ("Task was destroyed", "never retrieved", "SpawnFailed", "Exception ignored"):
        assert noise not in stderr
