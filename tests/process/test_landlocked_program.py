"""The script that restricts itself with Landlock and a system call filter, and executes a program.

The host starts the script in place of an extension on a machine without namespaces. Its argument is
JSON with the paths that the program may read and the filter. Landlock is the kernel's way for a
process to give up access to files. The tests in `tests/sandbox` run it together with the host.
"""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.process import landlocked_program

# The only instruction of a filter that allows every system call: BPF_RET with SECCOMP_RET_ALLOW.
ALLOW_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)

pytestmark = pytest.mark.skipif(
    landlocked_program.landlock_version() < 3, reason="the kernel has no Landlock of version 3"
)


def run(folder: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    """Run a program that can read the system, and this folder."""
    # The script compares the device and inode of a path, unless they are 0.
    paths = [[path, "read", 0, 0] for path in ("/usr", "/lib", "/lib64", "/bin", "/proc")]
    status = folder.stat()
    paths.append([str(folder), "read", status.st_dev, status.st_ino])
    rules: dict[str, Any] = {"paths": paths, "env": {}, "filter": ALLOW_ALL.hex(), "uid": None}
    return subprocess.run(
        [sys.executable, "-I", "-S", landlocked_program.__file__, json.dumps(rules), *argv],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_program_runs_with_rules_and_filter(tmp_path: Path) -> None:
    (tmp_path / "granted").mkdir()
    (tmp_path / "granted" / "file").write_text("granted")
    (tmp_path / "other").write_text("other")
    granted = run(tmp_path / "granted", "/bin/cat", str(tmp_path / "granted" / "file"))
    assert (granted.returncode, granted.stdout) == (0, "granted"), granted.stderr
    other = run(tmp_path / "granted", "/bin/cat", str(tmp_path / "other"))
    assert other.returncode != 0 and other.stdout == ""
    status = run(tmp_path / "granted", "/bin/cat", "/proc/self/status").stdout
    assert "NoNewPrivs:\t1\n" in status and "Seccomp:\t2\n" in status  # 2: a filter is active


def test_a_program_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    ended = run(tmp_path, os.fspath(tmp_path / "nothing"))
    assert ended.returncode == 127 and "nothing" in ended.stderr
