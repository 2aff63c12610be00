"""Prevents other processes of the same user from reading the host's memory.

A child without a sandbox has the host's uid, and the kernel lets processes of one uid read each
other: /proc/PID/environ, memory, ptrace. `harden` forbids that for the whole process, debuggers and
core dumps included. A library therefore does it only on request (`Host(harden=True)`); the command
line does it before each verb, also before those that only talk to a running host.

The relay of `exthost gateway` (`faces/relay`) imports this module, and must start as fast as
possible.
"""

import sys

_PR_SET_DUMPABLE = 4


def harden() -> bool:
    """Forbid other processes of this user to read or trace this one. Return False if the platform
    cannot."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes  # imported lazily: few programs that use the library need it

    try:
        return ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0  # type: ignore[no-any-return]
    except (OSError, AttributeError):
        return False
