"""The error of a failed start names the mount that is the cause: one with the option noexec, from
which nothing can be executed, or a missing /proc.
"""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from exthost.model.launch_plan import LaunchPlan
from exthost.process.spawn_errors import spawn_error


def test_a_program_on_a_noexec_mount_needs_no_chmod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "x"
    program.touch()
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    error = spawn_error(OSError(errno.EACCES, ""), LaunchPlan(argv=(str(program),)), "x")
    assert "noexec" in error.message and "chmod" not in error.help


def test_a_missing_proc_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path != Path("/proc/self") and exists(path))
    error = spawn_error(OSError(errno.ENOENT, ""), LaunchPlan(argv=("/bin/true",)), "x")
    assert "/proc is not mounted" in error.message and "mount -t proc" in error.help
