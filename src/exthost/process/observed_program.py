"""Runs a program under a seccomp filter that reports its system calls to an observer.

    python -I -S observed_program.py SOCKET PROGRAM [ARGUMENT]...

`AccessObserver` (`access_observer.py`) starts this file as a script, in the place of the program.
It connects to the Unix socket at SOCKET, reads the filter from there, applies it to itself, sends
the file descriptor of the observer's end, waits for an answer, and executes the program. It imports
only the standard library.

With the filter applied, a call in the table of the filter waits for the observer. So nothing is
opened or imported between `seccomp` and the transfer of the file descriptor.
"""

import ctypes
import os
import platform
import socket
import struct
import sys

# The number of the system call seccomp(2), and its operation and flags: apply a filter, and return
# the descriptor of the observer's end.
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
# Only a fatal signal interrupts a call that waits for the observer (Linux 5.19). Otherwise each
# signal would restart the call: Go sends itself a hundred in a second.
_WAIT_KILLABLE = 1 << 5
# The operation of prctl(2) without which an ordinary user cannot apply a filter.
_PR_SET_NO_NEW_PRIVS = 38
_INSTRUCTION_BYTES = 8
# The exit code if the program was not executed.
_NOT_EXECUTED = 125


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def main(path: str, argv: list[str]) -> None:
    """Apply the filter, and execute the program."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = _SECCOMP[platform.machine()]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    (length,) = struct.unpack("=I", _receive(connection, 4))
    code = _receive(connection, length)
    program = _Program(len(code) // _INSTRUCTION_BYTES, code)
    environment = dict(os.environ)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    listener = -1
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        listener = libc.syscall(number, _SET_MODE_FILTER, flags, ctypes.byref(program))
        if listener >= 0:  # else the kernel may lack the first flag
            break
    if listener < 0:
        connection.sendall(struct.pack("=i", ctypes.get_errno()))
        sys.exit(_NOT_EXECUTED)
    # `socket.send_fds` imports the module array, and nothing may be imported here.
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("=i", listener))
    connection.sendmsg([struct.pack("=i", 0)], [rights])
    connection.recv(1)
    os.close(listener)
    connection.close()
    os.execve(argv[0], argv, environment)


def _receive(connection: socket.socket, length: int) -> bytes:
    """Return this many bytes. Exit if the observer has closed the connection."""
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            sys.exit(_NOT_EXECUTED)
        data += part
    return data


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
