"""The steps by which a dialect asks a process to exit, in order. If it is still running after the
last step, the host sends SIGKILL.

A dialect with a request `shutdown`, for example, has the steps

    (Say(Request("shutdown"), wait=2.0), CloseStdin(wait=1.0), Terminate(wait=1.0))
"""

from typing import NamedTuple, TypeAlias

from exthost.model.messages import Notification, Request


class Say(NamedTuple):
    """Send this message, and wait up to `wait` seconds for a reply or the exit of the process."""

    message: Request | Notification
    wait: float


class Write(NamedTuple):
    """Write these bytes to stdin, without framing."""

    data: bytes


class CloseStdin(NamedTuple):
    """Close the stdin of the process, and wait up to `wait` seconds for its exit."""

    wait: float


class Terminate(NamedTuple):
    """Send SIGTERM to the process group, and wait up to `wait` seconds for the exit."""

    wait: float


ShutdownStep: TypeAlias = Say | Write | CloseStdin | Terminate


def total_seconds(steps: tuple[ShutdownStep, ...]) -> float:
    """Return how long these steps wait together."""
    return sum(step.wait for step in steps if not isinstance(step, Write))
