"""Finds the messages of a child that no call waits for, and their cost. Pure.

A child (the extension's process) that writes very many such messages would take the time of the
others. So the host counts what they cost, and reads the output of that child more slowly.

A message serves a call if it completes, fails or continues a call, or is an event of an open
stream. Everything else is unawaited: a notification, a report of progress, a request to the host, a
reply to no request, a line that is not a message. The effects of a message show which it is.
Progress is unawaited also if its call is in flight: one reply ends a call, but progress can be
reported without end. The cost is in units of `process/flood_budget.py`.
"""

from collections.abc import Sequence

from exthost.process.flood_budget import REQUEST_UNITS, message_units
from exthost.session.effects import (
    DeliverEvent,
    Effect,
    End,
    Failed,
    Interrupt,
    RunHandler,
    ServeRequest,
    SetDeadline,
    StreamAccepted,
    Subscribed,
    WriteFrame,
)

# The effects of messages that serve a call. A list is a run of completed calls.
_SERVING = frozenset(
    {
        list,
        Failed,
        WriteFrame,
        SetDeadline,
        DeliverEvent,
        StreamAccepted,
        RunHandler,
        Subscribed,
        End,
        Interrupt,
    }
)


def unawaited_units(effects: Sequence[Effect], size: int) -> int:
    """Return the cost of one message of `size` bytes that had these effects; 0 if it serves a
    call."""
    units = message_units(size)
    for effect in effects:
        kind = type(effect)
        if kind in _SERVING:
            return 0
        if kind is ServeRequest:
            units += REQUEST_UNITS - 1
    return units
