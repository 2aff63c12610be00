"""A cgroup that is delegated to a user, and a host that is started in it."""

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

# What a user needs to own, by the kernel's own description of a delegation.
_MADE_OVER = ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads")

# How long killed processes may take to exit.
_GONE_SECONDS = 10.0


def tree() -> Path | None:
    """Return our own cgroup, if we may create others in it; else None."""
    texts = (Path(f"/proc/self/{name}").read_text() for name in ("cgroup", "mountinfo"))
    folder, _ = locate(*texts)
    return Path(folder) if folder and os.geteuid() == 0 and os.access(folder, os.W_OK) else None


@contextmanager
def delegated(user: str) -> Iterator[Path]:
    """Yield a new cgroup that this user owns. Remove it at the end, with all processes in it."""
    above = tree()
    assert above is not None
    group = above / f"trial-{uuid.uuid4().hex}"
    group.mkdir()
    try:
        if user == "root":
            os.setxattr(group, "trusted.delegate", b"1")  # as systemd does
        else:
            for name in _MADE_OVER:
                os.chown(group / name, _NOBODY, _NOBODY)
        yield group
    finally:
        (group / "cgroup.kill").write_text("1")
        until = time.monotonic() + _GONE_SECONDS
        while "populated 1" in (group / "cgroup.events").read_text():
            assert time.monotonic() < until, "what was killed is still there"
            time.sleep(0.01)
        for path in sorted(group.rglob("*/"), reverse=True):
            path.rmdir()
        group.rmdir()


def run_in(
    group: Path, user: str, words: Sequence[str], seconds: float
) -> "subprocess.CompletedProcess[str]":
    """Run Python with these arguments as this user, alone in this cgroup."""
    with command(user, words) as (started, variables):
        # Its shell has no other child: whoever it becomes is the only one in there.
        enter = ("/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs"))
        return subprocess.run(
            [*enter, *started],
            env=variables,
            cwd="/",
            stdout=subprocess.PIPE,
            text=True,
            timeout=seconds,
            check=False,
        )
