"""The phases of a conversation, and the table of moves between them."""

from enum import Enum


class Phase(Enum):
    """The phase of a conversation."""

    HANDSHAKE = "handshake"
    OPEN = "open"
    DRAINING = "draining"
    CLOSED = "closed"


PHASES = {
    (Phase.HANDSHAKE, "open"): Phase.OPEN,
    (Phase.HANDSHAKE, "drain"): Phase.DRAINING,
    (Phase.HANDSHAKE, "end"): Phase.CLOSED,
    (Phase.OPEN, "drain"): Phase.DRAINING,
    (Phase.OPEN, "end"): Phase.CLOSED,
    (Phase.DRAINING, "end"): Phase.CLOSED,
}
