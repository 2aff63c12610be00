"""A host whose state folder is on a real file system without room: no verb fails in silence, and no
line of a log is lost in silence. Only root can mount such a file system."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import run_exthost

# Room for the control socket and a few lines of logs.
DISK_BYTES = 256 * 1024

# A morphir extension with a tool that writes as many lines to stderr as its argument says.
STDERR_WRITER = """
import json, sys
schema = {"type": "object", "properties": {"lines": {"type": "integer"}}}
for line in sys.stdin:
    request = json.loads(line)
    result = None
    if request["method"] == "capabilities":
        result = [{"name": "talk", "description": "x", "params_schema": schema}]
    elif request["method"] == "talk":
        for number in range(request["params"]["lines"]):
            print(f"line {number} " + "x" * 100, file=sys.stderr, flush=True)
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or os.geteuid() != 0, reason="only root can mount"
    ),
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system in memory, which is unmounted after the test."""
    folder = tmp_path / "state"
    folder.mkdir()
    options = f"size={DISK_BYTES},mode=0755"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False, timeout=60)
    if mounted.returncode != 0:
        pytest.skip(f"this root user cannot mount: {mounted.stderr}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=60)


def fill(disk: Path) -> None:
    """Write a file until the file system has no room."""
    try:
        with (disk / "fill").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1024))
    except OSError:
        assert os.statvfs(disk).f_bavail == 0


@pytest.fixture
def folder(tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a config."""
    monkeypatch.setenv("EXTHOST_HOME", str(disk))
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "talker.py").write_text(STDERR_WRITER)
    source = f'{{ type = "process", command = "{sys.executable}", args = ["-S", "talker.py"] }}'
    entry = f'[[extensions]]\nname = "talker"\nsource = {source}\n'
    (folder / "exthost.toml").write_text(entry)
    return folder


def start_host(folder: Path, request: pytest.FixtureRequest) -> "subprocess.CompletedProcess[str]":
    """Start a host in the background. It is a child of this process, which reaps it at the end."""
    started = run_exthost(folder, "up", "-d", "--json")
    pid = json.loads(started.stdout)["pid"]

    def end_host() -> None:
        run_exthost(folder, "down")
        os.waitpid(pid, 0)

    request.addfinalizer(end_host)
    return started


def test_a_host_that_is_started_on_a_full_disk_warns(
    folder: Path, disk: Path, request: pytest.FixtureRequest
) -> None:
    fill(disk)
    started = start_host(folder, request)
    assert "is full: the messages of the host" in started.stderr
    status = run_exthost(folder, "status")
    assert "talker" in status.stdout and status.returncode == 0
    assert "Traceback" not in started.stderr + status.stderr


def read_log_until(
    folder: Path, condition: Callable[["subprocess.CompletedProcess[str]"], bool]
) -> "subprocess.CompletedProcess[str]":
    """Read the log until the host has written what came by stderr: the reply to the call comes by
    another pipe, and may be read first."""
    deadline = time.monotonic() + 60
    while not condition(log := run_exthost(folder, "logs", "talker")):
        assert time.monotonic() < deadline, log
    return log


def test_the_log_of_a_full_disk_says_that_lines_were_lost(
    folder: Path, disk: Path, request: pytest.FixtureRequest
) -> None:
    assert start_host(folder, request).returncode == 0
    fill(disk)
    assert run_exthost(folder, "call", "ext_talker_talk", "lines=200").returncode == 0
    log = read_log_until(folder, lambda log: "lost" in log.stderr)
    assert "is full" in log.stderr, log.stderr
    assert "line 199" not in log.stdout
    (disk / "fill").unlink()
    assert run_exthost(folder, "call", "ext_talker_talk", "lines=1").returncode == 0
    log = read_log_until(folder, lambda log: "lines before this one were lost (" in log.stdout)
    assert "is full" not in log.stderr
    # A line that did not fit as a whole is not there at all.
    for text in log.stdout.splitlines():
        assert " line " not in text or text.endswith("x" * 100), text
