"""Tests of conftest.py: its leak check finds processes, descriptors and threads that a test leaves,
and the marker `both_loops` runs a test on both event loops.

A leak is named with the state of a process as the kernel's letter: S sleeps, Z is a zombie.
"""

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

# A test that leaves an open file, a thread, a child, a zombie and a process in another session.
LEAKY_TEST = """
import glob, os, subprocess, threading, time
from tests import conftest

OPEN_FILES = []
conftest.GRACE_SECONDS = 0.0  # nothing that this test leaves is about to end

def test_that_leaks():
    OPEN_FILES.append(open("/dev/null"))
    threading.Thread(target=time.sleep, args=(99,), name="forgotten", daemon=True).start()
    child = subprocess.Popen(["/bin/sleep", "99.25"])
    zombie = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    child.returncode = zombie.returncode = 0
    # A process in another session, whose parent has ended.
    subprocess.run(["/bin/sh", "-c", "setsid sleep 99.125 & exit 0"], check=True)
    while not is_running("99.125"):  # the shell can end before setsid has executed sleep
        time.sleep(0.01)

def is_running(seconds):
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if file.read().split(bytes(1))[:2] == [b"sleep", seconds.encode()]:
                    return True
        except OSError:
            pass  # the process has ended
    return False
"""


def test_the_leak_check_names_every_kind_of_leak(tmp_path: Path) -> None:
    (tmp_path / "test_leaky.py").write_text(LEAKY_TEST)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider",
         "--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path / "test_leaky.py")],
        cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    lines = [line for line in result.stdout.splitlines() if line.startswith("E ")]
    report = next((line for line in lines if "left behind" in line), "")
    for pid in re.findall(r"process (\d+) \(state S", report):
        os.kill(int(pid), signal.SIGKILL)  # end the processes that the test above has left
    assert result.returncode == 1, result.stdout
    for leak in ("/dev/null", "'forgotten'", "sleep 99.25", "sleep 99.125", "state Z"):
        assert leak in report


@pytest.mark.both_loops
async def test_the_both_loops_marker_runs_the_test_on_the_named_loop(loop_kind: str) -> None:
    is_uvloop = isinstance(asyncio.get_running_loop(), uvloop.Loop)
    assert is_uvloop == (loop_kind == "uvloop")
