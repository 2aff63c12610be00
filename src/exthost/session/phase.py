"""The phases of a conversation, and the table of the changes between them."""

from enum import Enum


class Phase(Enum):
    """The phase of a conversation."""

    HANDSHAKE = "handshake"
    OPEN = "open"
    DRAINING = "draining"
    CLOSED = "closed"


# The next phase, by the present phase and an event.
PHASES = {
    (Phase.HANDSHAKE, "open"): Phase.OPEN,
    (Phase.HANDSHAKE, "drain"): Phase.DRAINING,
    (Phase.HANDSHAKE, "end"): Phase.CLOSED,
    (Phase.OPEN, "drain"): Phase.DRAINING,
    (Phase.OPEN, "end"): Phase.CLOSED,
    (Phase.DRAINING, "end"): Phase.CLOSED,
}
