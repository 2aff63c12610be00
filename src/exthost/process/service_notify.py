"""Messages to the service manager that started this process, as systemd's sd_notify sends them.

One datagram to the socket that `NOTIFY_SOCKET` names. Without the variable, nothing is sent. The
variable is removed when it is read, so no child can send messages in our name. A message that
cannot be sent is dropped: a service manager that went away must not end the host.
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
        # An address that begins with @ is in the abstract namespace.
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def ready(self, status: str) -> None:
        """Report that the host has opened, or that a reload is done."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def reloading(self) -> None:
        """Report that the config is being read again."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report that the host drains."""
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
