"""The phases of a conversation with one process, and the table of the changes between them.

A conversation begins with the handshake. It is then open for calls. It is draining while the host
shuts the process down: no new call is sent, and calls in flight may still end. When it is closed,
nothing is sent or received any more.
"""

from enum import Enum


class Phase(Enum):
    """The current phase of a conversation."""

    HANDSHAKE = "handshake"
    OPEN = "open"
    DRAINING = "draining"
    CLOSED = "closed"


# The next phase, by the present phase and an event: "open" (the handshake is done), "drain" (the
# shutdown begins) or "end". A pair that is missing here is not allowed.
PHASES = {
    (Phase.HANDSHAKE, "open"): Phase.OPEN,
    (Phase.HANDSHAKE, "drain"): Phase.DRAINING,
    (Phase.HANDSHAKE, "end"): Phase.CLOSED,
    (Phase.OPEN, "drain"): Phase.DRAINING,
    (Phase.OPEN, "end"): Phase.CLOSED,
    (Phase.DRAINING, "end"): Phase.CLOSED,
}
