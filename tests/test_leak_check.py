"""The guard that every test is under would notice what it promises to notice."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

ROOT = Path(__file__).parents[1]

LEAKY = """
import glob, os, subprocess, threading, time
from tests import conftest

HELD = []
conftest.GRACE_SECONDS = 0.0  # nothing of this is on its way out

def test_that_leaks():
    HELD.append(open("/dev/null"))
    threading.Thread(target=time.sleep, args=(99,), name="forgotten", daemon=True).start()
    child = subprocess.Popen(["/bin/sleep", "99.25"])
    zombie = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    child.returncode = zombie.returncode = 0
    # And one that is nobody's child any more, in a session of its own.
    subprocess.run(["/bin/sh", "-c", "setsid sleep 99.125 & exit 0"], check=True)
    while not is_running("99.125"):  # the shell may end before it has become what it is to be
        time.sleep(0.01)

def is_running(word):
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if file.read().split(bytes(1))[:2] == [b"sleep", word.encode()]:
                    return True
        except OSError:
            pass  # it has ended meanwhile
    return False
"""


def test_the_guard_names_every_kind_of_leak(tmp_path: Path) -> None:
    (tmp_path / "test_leaky.py").write_text(LEAKY)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider",
         "--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path / "test_leaky.py")],
        cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    lines = [line for line in ran.stdout.splitlines() if line.startswith("E ")]
    report = next((line for line in lines if "left behind" in line), "")
    for pid in re.findall(r"process (\d+) \(state S", report):
        os.kill(int(pid), signal.SIGKILL)  # what is left of a leak that was made on purpose
    assert ran.returncode == 1, ran.stdout
    for what in ("/dev/null", "'forgotten'", "sleep 99.25", "sleep 99.125", "state Z"):
        assert what in report


@pytest.mark.both_loops
async def test_both_loops_are_of_the_named_kind(loop_kind: str) -> None:
    is_uvloop = isinstance(asyncio.get_running_loop(), uvloop.Loop)
    assert is_uvloop == (loop_kind == "uvloop")
