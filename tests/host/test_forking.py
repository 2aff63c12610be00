"""A program that forks while its host is open: the copy has none of the host's extensions.

Each claim is about processes, so a program of its own makes it; `with_fork.py` is that program.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import exthost
from tests.extensions.proc import runs

PROGRAM = Path(__file__).parent / "with_fork.py"
SECONDS = 150

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def run(what: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), what],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.sampled
@pytest.mark.parametrize("face", ["call", "tool", "pool", "restart"])
def test_in_the_copy_a_call_fails_at_once_since_the_host_is_not_its_own(face: str) -> None:
    assert run(face) == ["copy: UsageError X1317", "ours: 2"]


@pytest.mark.parametrize("face", ["loop", "attached"])
def test_in_the_copy_of_a_loop_a_call_fails_at_once_as_well(face: str) -> None:
    assert run(face) == ["copy: UsageError X1317", "ours: 2"]


@pytest.mark.sampled
@pytest.mark.parametrize("way", ["unwind", "exit", "close"])
def test_the_end_of_the_copy_is_not_the_end_of_the_extensions(way: str) -> None:
    assert run(way) == ["copy: ended with 0", "ours: 2"]


def test_a_copy_that_lives_on_keeps_neither_an_extension_nor_the_config(tmp_path: Path) -> None:
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
            while any(map(runs, extensions)) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert not any(map(runs, extensions))
            with exthost.SyncHost.from_config(config, control=True) as host:
                assert host["a"].call("echo", 2) == 2
            assert runs(copy)
        finally:
            os.kill(copy, signal.SIGKILL)
