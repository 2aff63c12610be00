"""Switches of the whole process that keep its children from reading it.

A child has our uid, and the kernel lets equals read each other: /proc/PID/environ, memory, trace.
So a host whose children are not in a namespace of their own makes itself unreadable. That holds
for the whole process, debuggers and core dumps included, so a library does it only when it is
asked to (`Host(harden=True)`); the command line always does.
"""

import ctypes
import sys

__all__ = ["harden"]

_PR_SET_DUMPABLE = 4


def harden() -> bool:
    """Let no other process of this user read or trace this one. False where there is no way."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0  # type: ignore[no-any-return]
    except (OSError, AttributeError):
        return False
