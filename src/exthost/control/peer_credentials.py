"""Checks which user is at the other end of a Unix socket.

Linux reports the user by SO_PEERCRED. On other systems the modes of the folder (0700) and of the
socket (0600) are the only protection against other users.
"""

import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_SO_PEERCRED = getattr(socket, "SO_PEERCRED", None)


def is_same_user(connected: socket.socket) -> bool:
    """Return whether the process at the other end runs as the same user as this one. Return True if
    the system cannot report that."""
    if _SO_PEERCRED is None:
        return True
    credentials = connected.getsockopt(socket.SOL_SOCKET, _SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    return bool(uid == os.geteuid())
