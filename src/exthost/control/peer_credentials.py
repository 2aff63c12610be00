"""Who is at the other end of a local socket: the same user, or somebody else.

Linux tells by SO_PEERCRED. Elsewhere the folder (0700) and the socket (0600) alone keep others
out.
"""

import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_SO_PEERCRED = getattr(socket, "SO_PEERCRED", None)


def is_same_user(connected: socket.socket) -> bool:
    """Whether the other end is a process of our own user's."""
    if _SO_PEERCRED is None:
        return True
    credentials = connected.getsockopt(socket.SOL_SOCKET, _SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    return bool(uid == os.geteuid())
