"""Starts the splicer: the small compiled program (`splicer.c`) that moves large transfers for the
proxy of an extension. `splicer` describes it; the host starts it with each proxy."""

import os
import socket
import subprocess

from exthost.process.memory_file import memory_file
from exthost.process.splicercode import SPLICER


def start_splicer() -> "tuple[subprocess.Popen[bytes], int] | None":
    """Start a splicer. Return it, and the descriptor of the proxy's end of the socket to it; None
    if it cannot be started. It exits when that end is closed."""
    code = SPLICER.get(os.uname().machine)
    if code is None:
        return None
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError:
        return None
    with ours, theirs:
        try:
            process = _execute(code, theirs)
        except (OSError, ValueError):
            return None
        return process, ours.detach()


def _execute(code: bytes, channel: socket.socket) -> "subprocess.Popen[bytes]":
    """Execute a program from a file in memory. Its stdin is the socket. Raises OSError."""
    program = memory_file("exthost-splicer", code)
    try:
        return subprocess.Popen(
            ("exthost-splicer",),
            executable=f"/proc/self/fd/{program}",
            stdin=channel.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
            pass_fds=(program,),
        )
    finally:
        os.close(program)
