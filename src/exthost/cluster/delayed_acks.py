"""Lets the kernel delay the acknowledgements of a TCP connection that only receives.

The kernel acknowledges each small message on such a connection as soon as it is read, which costs
as much as a message. (It delays acknowledgements by itself on a connection that also sends.)
Delayed, there is one for two messages, and a call of a process on a node takes a tenth less time.
"""

import socket


def delay_acknowledgements(fd: int) -> None:
    """Delay the acknowledgements of this connection. To be repeated: when one has been delayed for
    40 ms, the kernel returns to immediate ones."""
    try:
        connection = socket.socket(fileno=fd)
    except OSError:
        return  # no socket: a forked copy of the host has replaced it by /dev/null
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    except OSError:
        pass  # no TCP connection: with TLS, it leads to the thread that encrypts
    finally:
        connection.detach()
