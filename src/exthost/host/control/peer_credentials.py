"""Checks which process is at the other end of a Unix socket: its user, and whether it is sandboxed.

Linux reports the user and the pid by SO_PEERCRED. On other systems the modes of the folder (0700)
and of the socket (0600) are the only protection against other users, and there is no sandbox.

The user alone is not enough, because a sandboxed extension may run as the user of its host. If it
may use the network, it can connect to a socket even in a folder that it may only read, because a
read-only mount does not prevent that. Through the control socket of the host it could call the
tools of extensions that have no sandbox.

The relay of `exthost gateway` (`faces/relay`) imports this module, and must start as fast as
possible. So `_socket` is imported in place of `socket`.
"""

import _socket
import os
from _struct import Struct

_CREDENTIALS = Struct("3i")  # pid, uid, gid
_SO_PEERCRED = getattr(_socket, "SO_PEERCRED", None)

# The value of Seccomp in /proc/PID/status for a process with a filter of system calls.
_FILTERED = "2"


def is_same_user(connected: "_socket.socket") -> bool:
    """Return whether the process at the other end runs as the same user as this one. Return True if
    the system cannot report that."""
    if _SO_PEERCRED is None:
        return True
    _, uid, _ = _read_credentials(connected, _SO_PEERCRED)
    return bool(uid == os.geteuid())


def peer_pid(connected: "_socket.socket") -> int | None:
    """Return the pid of the process at the other end: for a client, the one that listens on the
    socket. Return None if the system cannot report it."""
    if _SO_PEERCRED is None:
        return None
    pid, _, _ = _read_credentials(connected, _SO_PEERCRED)
    return pid or None  # 0 is a process outside of this PID namespace


def is_sandboxed(connected: "_socket.socket") -> bool:
    """Return whether the process at the other end is in the sandbox of an extension: in an inner
    PID namespace, without a way to get new privileges (NoNewPrivs), and with a filter of system
    calls (Seccomp). Return True if the process has ended, since nothing is known about it then."""
    if _SO_PEERCRED is None:
        return False
    pid, _, _ = _read_credentials(connected, _SO_PEERCRED)
    if pid == 0:  # a process outside of this PID namespace, so no extension of a host in it
        return False
    try:
        peer, own = _read_status(str(pid)), _read_status("self")
    except OSError:
        return True
    # NSpid has the pid of the process in each PID namespace that contains it, the outermost first.
    is_inner = len(peer.get("NSpid", "").split()) > len(own.get("NSpid", "").split())
    return is_inner and peer.get("NoNewPrivs") == "1" and peer.get("Seccomp") == _FILTERED


def _read_credentials(connected: "_socket.socket", option: int) -> tuple[int, int, int]:
    """Return the pid, the user id and the group id of the process at the other end."""
    credentials = connected.getsockopt(_socket.SOL_SOCKET, option, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(credentials)
    return pid, uid, gid


def _read_status(pid: str) -> dict[str, str]:
    """Return the fields of /proc/PID/status. Raises OSError."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        fields = [line.partition(":") for line in file]
    return {name: value.strip() for name, _, value in fields}
