"""Finds and ends the processes that are left after a process under check has exited.

The program is started with a special variable, the mark, which its descendants inherit. A process
with the mark, or in the session of the program, belongs to it. A descendant that removes the
variable and also leaves the session is not found. No other process is signalled.
"""

import asyncio
import os
import secrets
import signal
import time
from pathlib import Path
from typing import NamedTuple

# The variable whose value marks the descendants of one process under check.
MARK_NAME = "EXTHOST_CHECK_MARK"

# A process that was asked to end may take a moment. After this time it counts as left.
_END_SECONDS = 2.0
_POLL_SECONDS = 0.02

_PROC = Path("/proc")


class Survivor(NamedTuple):
    """A process that is left: its pid and its command line."""

    pid: int
    command: str


def make_mark() -> str:
    """Return a mark that no other process has."""
    return secrets.token_hex(16)


def can_look() -> bool:
    """Return whether this system shows the variables of processes, and can signal one safely."""
    return (_PROC / "self" / "environ").exists() and hasattr(os, "pidfd_open")


def find_survivors(leader: int, mark: str) -> list[Survivor]:
    """Return the running processes of the program `leader`, without itself. It must not have been
    reaped, so that its pid is that of its session only."""
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [
        Survivor(pid, _read_command(pid))
        for pid in pids
        if pid not in (leader, os.getpid()) and _belongs(pid, leader, mark)
    ]


async def wait_for_survivors(leader: int, mark: str) -> list[Survivor]:
    """Return the processes of the program that do not end within a short time."""
    deadline = time.monotonic() + _END_SECONDS
    # They are not children of this process, so no event reports their end.
    while (survivors := find_survivors(leader, mark)) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(_POLL_SECONDS)
    return survivors


def kill_survivors(leader: int, mark: str) -> None:
    """Send SIGKILL to the processes of the program, also to those that they start meanwhile. For a
    program that has been reaped, `leader` is -1."""
    deadline = time.monotonic() + _END_SECONDS
    while (survivors := find_survivors(leader, mark)) and time.monotonic() < deadline:
        for survivor in survivors:
            _kill(survivor.pid, leader, mark)
        time.sleep(_POLL_SECONDS)


def _belongs(pid: int, leader: int, mark: str) -> bool:
    """Return whether a process that runs belongs to the program."""
    try:
        # The second field is a name in brackets, which may contain spaces and brackets.
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        state, session = fields[0], int(fields[3])
    except (OSError, IndexError, ValueError):  # it has ended
        return False
    if state in (b"Z", b"X"):
        return False
    if session == leader:
        return True
    try:
        variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or belongs to another user
        return False
    return f"{MARK_NAME}={mark}".encode() in variables


def _read_command(pid: int) -> str:
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode("utf-8", "backslashreplace").strip()


def _kill(pid: int, leader: int, mark: str) -> None:
    """Kill a process if it still belongs to the program. With the descriptor open, the pid that is
    looked at is the one that is signalled."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _belongs(pid, leader, mark):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        pass  # it has exited meanwhile
    finally:
        os.close(descriptor)
