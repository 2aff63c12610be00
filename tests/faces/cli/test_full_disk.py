"""Tests of a host whose state folder is on a full disk: the verbs warn about it, and the log of an
extension says how many lines it lost.

The disk is a small tmpfs that the test mounts and fills. Only root can mount it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.extensions.proc import all_pids, read_process
from tests.faces.cli.cli_process import run_exthost

# Room for the control socket and a few lines of logs.
DISK_BYTES = 256 * 1024

# An extension in the dialect morphir (JSON lines). Its tool `talk` writes as many lines to stderr
# as its argument says. Stderr and the reply are separate pipes, so the tool replies when its stderr
# is empty (FIONREAD): the host has then read all lines, and writes them to the log before it
# handles the reply.
STDERR_WRITER = """
import fcntl, json, sys, termios, time
schema = {"type": "object", "properties": {"lines": {"type": "integer"}}}
for line in sys.stdin:
    request = json.loads(line)
    result = None
    if request["method"] == "capabilities":
        result = [{"name": "talk", "description": "x", "params_schema": schema}]
    elif request["method"] == "talk":
        for number in range(request["params"]["lines"]):
            print(f"line {number} " + "x" * 100, file=sys.stderr, flush=True)
        while any(fcntl.ioctl(sys.stderr, termios.FIONREAD, bytes(4))):
            time.sleep(0.001)
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""

# How long a call may take: as long as pytest lets a test run, so that only a hang exceeds it.
CALL_LIMIT = "9m"

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or os.geteuid() != 0, reason="only root can mount"
    ),
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system in memory, which is unmounted after the test."""
    mount_point = tmp_path / "state"
    mount_point.mkdir()
    options = f"size={DISK_BYTES},mode=0755"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mount_point)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False, timeout=60)
    if mounted.returncode != 0:
        pytest.skip(f"this root user cannot mount: {mounted.stderr}")
    try:
        yield mount_point
    finally:
        subprocess.run(["umount", "--lazy", str(mount_point)], check=True, timeout=60)


def fill(disk: Path) -> None:
    """Write the file `fill` until the disk is full."""
    try:
        with (disk / "fill").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1024))
    except OSError:
        assert os.statvfs(disk).f_bavail == 0


@pytest.fixture
def folder(tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the config of a host that has the extension and writes its state to `disk`."""
    monkeypatch.setenv("EXTHOST_HOME", str(disk))
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "talker.py").write_text(STDERR_WRITER)
    source = f'{{ type = "process", command = "{sys.executable}", args = ["-S", "talker.py"] }}'
    entry = f'[[extensions]]\nname = "talker"\nsource = {source}\nlimits.call = "{CALL_LIMIT}"\n'
    (folder / "exthost.toml").write_text(entry)
    return folder


def child_pids() -> set[int]:
    """Return the pids of the children of this process."""
    processes = ((pid, read_process(pid)) for pid in all_pids())
    return {pid for pid, process in processes if process and process.parent == os.getpid()}


@contextmanager
def host_in_background(folder: Path) -> Iterator["subprocess.CompletedProcess[str]"]:
    """Start a host by `up -d`, yield the result of this verb, and end the host by `down`. Verbs run
    in this process, so the host is a child of it, and must be reaped."""
    pids_before = child_pids()
    try:
        yield run_exthost(folder, "up", "-d", "--json")
    finally:
        ended = run_exthost(folder, "down")
        for pid in child_pids() - pids_before:
            os.kill(pid, signal.SIGKILL)  # does nothing if `down` has succeeded
            os.waitpid(pid, 0)
    assert ended.returncode == 0, ended.stderr


def test_a_host_that_is_started_on_a_full_disk_warns(folder: Path, disk: Path) -> None:
    fill(disk)
    with host_in_background(folder) as started:
        assert started.returncode == 0
        assert "is full: the messages of the host" in started.stderr
        status = run_exthost(folder, "status")
        assert "talker" in status.stdout and status.returncode == 0
        assert "Traceback" not in started.stderr + status.stderr


def test_the_log_of_a_full_disk_says_that_lines_were_lost(folder: Path, disk: Path) -> None:
    with host_in_background(folder) as started:
        assert started.returncode == 0
        fill(disk)
        assert run_exthost(folder, "call", "ext_talker_talk", "lines=200").returncode == 0
        log = run_exthost(folder, "logs", "talker")
        assert "is full: newer lines are lost" in log.stderr, log.stderr
        assert "line 199" not in log.stdout
        (disk / "fill").unlink()
        # The next line that is written says how many were lost.
        assert run_exthost(folder, "call", "ext_talker_talk", "lines=1").returncode == 0
        log = run_exthost(folder, "logs", "talker")
        assert "lines before this one were lost (" in log.stdout, log.stdout
        assert "is full" not in log.stderr
        # A line that did not fit as a whole is not there at all.
        lines = [text for text in log.stdout.splitlines() if " line " in text]
        assert lines and all(text.endswith("x" * 100) for text in lines), lines
