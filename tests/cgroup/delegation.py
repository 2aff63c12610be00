"""Helpers that delegate a cgroup to a user, and run a program in it.

A cgroup is a group of processes that the kernel can limit. It is a folder; a user to whom it is
delegated owns its files, and can make cgroups in it.
"""

import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from exthost.process.cgroup_rules import locate
from tests.sandbox.trial_users import command

_NOBODY = 65534

# The files that a user must own in a delegated cgroup, by the documentation of the kernel.
_OWNED_FILES = ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads")

# How long killed processes may take to exit.
_GONE_SECONDS = 10.0


def tree() -> Path | None:
    """Return the cgroup of this process, or None if it is not writable."""
    texts = (Path(f"/proc/self/{name}").read_text() for name in ("cgroup", "mountinfo"))
    folder, _ = locate(*texts)
    return Path(folder) if folder and os.geteuid() == 0 and os.access(folder, os.W_OK) else None


@contextmanager
def delegated(user: str) -> Iterator[Path]:
    """Yield a new cgroup that this user owns. Remove it at the end, with all processes in it."""
    parent = tree()
    assert parent is not None
    group = parent / f"trial-{uuid.uuid4().hex}"
    group.mkdir()
    try:
        if user == "root":
            os.setxattr(group, "trusted.delegate", b"1")  # as systemd does
        else:
            for name in _OWNED_FILES:
                os.chown(group / name, _NOBODY, _NOBODY)
        yield group
    finally:
        (group / "cgroup.kill").write_text("1")
        deadline = time.monotonic() + _GONE_SECONDS
        while "populated 1" in (group / "cgroup.events").read_text():
            assert time.monotonic() < deadline, "killed processes are still in the cgroup"
            time.sleep(0.01)
        for path in sorted(group.rglob("*/"), reverse=True):
            path.rmdir()
        group.rmdir()


def run_in(
    group: Path, user: str, arguments: Sequence[str], seconds: float
) -> "subprocess.CompletedProcess[str]":
    """Run Python with these arguments as this user, alone in this cgroup."""
    with command(user, arguments) as (command_line, variables):
        # The shell enters the cgroup and becomes the program, so no other process is in it.
        enter = ("/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs"))
        return subprocess.run(
            [*enter, *command_line],
            env=variables,
            cwd="/",
            stdout=subprocess.PIPE,
            text=True,
            timeout=seconds,
            check=False,
        )
