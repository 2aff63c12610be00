"""The steps by which a dialect shuts a process down. If all of them fail, the host sends
SIGKILL."""

from typing import NamedTuple, TypeAlias

from exthost.messages import Notification, Request


class Say(NamedTuple):
    """Send this message, and give the child `wait` seconds to reply or to exit."""

    message: Request | Notification
    wait: float


class Write(NamedTuple):
    """Write these bytes as they are."""

    data: bytes


class CloseStdin(NamedTuple):
    """Close the child's stdin, and give it `wait` seconds to exit."""

    wait: float


class Terminate(NamedTuple):
    """Send SIGTERM to the child's process group, and give it `wait` seconds to exit."""

    wait: float


ShutdownStep: TypeAlias = Say | Write | CloseStdin | Terminate
