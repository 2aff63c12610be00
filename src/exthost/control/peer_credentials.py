"""Checks which user is at the other end of a local socket.

Linux reports that by SO_PEERCRED. On other systems only the modes of the folder (0700) and of the
socket (0600) keep other users out.
"""

import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_SO_PEERCRED = getattr(socket, "SO_PEERCRED", None)


def is_same_user(connected: socket.socket) -> bool:
    """Return whether the other end is a process of our own user."""
    if _SO_PEERCRED is None:
        return True
    credentials = connected.getsockopt(socket.SOL_SOCKET, _SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    return bool(uid == os.geteuid())
