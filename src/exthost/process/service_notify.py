"""Reports the state of the host to the service manager that started it, by systemd's sd_notify
protocol.

Each message is one datagram to the socket that the variable `NOTIFY_SOCKET` names. Without the
variable, nothing is sent. The variable is removed when it is read, so that extensions do not
inherit it and cannot send messages in the host's name. A message that cannot be sent is dropped,
because the host must keep running without its service manager.
"""

import contextlib
import socket
import time
from collections.abc import MutableMapping

VARIABLE = "NOTIFY_SOCKET"


class ServiceNotifier:
    """Sends the state of this process to its service manager, if it has one."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        address = environ.pop(VARIABLE, "")
        # An address that begins with @ is in the abstract namespace of sockets, where the first
        # byte is zero.
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def ready(self, status: str) -> None:
        """Report that the host has opened, or that a reload is done."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def reloading(self) -> None:
        """Report that the config is being read again."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report that the host is shutting down."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        with (
            contextlib.suppress(OSError, ValueError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.setblocking(False)
            sender.sendto(message.encode("utf-8", "replace"), self._address)


def _one_line(text: str) -> str:
    return " ".join(text.split())
