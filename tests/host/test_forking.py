"""A program forks while its host is open: the child process ("copy") cannot use the host.

Each test runs the program with_fork.py, which describes its modes and its output: a line of the
copy, and a line "ours" of the parent with the result of a later call, here 2.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import exthost
from tests.extensions.proc import is_running

PROGRAM = Path(__file__).parent / "with_fork.py"
SECONDS = 150  # the limit of each wait, generous for a busy machine

USED_AFTER_FORK = "X1317"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def run_program(mode: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, str(PROGRAM), mode],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "Traceback" not in result.stderr, result.stderr
    return result.stdout.splitlines()


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["call", "tool", "pool", "restart"])
def test_a_blocking_host_cannot_be_used_in_the_child(mode: str) -> None:
    assert run_program(mode) == [f"copy: UsageError {USED_AFTER_FORK}", "ours: 2"]


@pytest.mark.more
@pytest.mark.parametrize("mode", ["loop", "attached"])
def test_an_asynchronous_or_attached_host_cannot_be_used_in_the_child(mode: str) -> None:
    assert run_program(mode) == [f"copy: UsageError {USED_AFTER_FORK}", "ours: 2"]


@pytest.mark.more
@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["unwind", "exit", "close"])
def test_the_end_of_the_child_does_not_end_the_extensions(mode: str) -> None:
    assert run_program(mode) == ["copy: ended with 0", "ours: 2"]


@pytest.mark.more
def test_a_child_that_outlives_the_program_keeps_neither_extensions_nor_the_config_lock(
    tmp_path: Path,
) -> None:
    config = tmp_path / "exthost.toml"
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), "outlive", str(config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None and program.stdout is not None
    with program, program.stdin, program.stdout:
        copy, *extensions = map(int, program.stdout.readline().split())
        try:
            program.send_signal(signal.SIGKILL)
            program.wait(SECONDS)
            deadline = time.monotonic() + SECONDS
            while any(map(is_running, extensions)) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert not any(map(is_running, extensions))
            # Another host of this config can be opened: the copy does not keep the lock.
            with exthost.SyncHost.from_config(config, control=True) as host:
                assert host["a"].call("echo", 2) == 2
            assert is_running(copy)
        finally:
            os.kill(copy, signal.SIGKILL)
