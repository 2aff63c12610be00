"""The queue of one stream: the events that its consumer has not read yet, and their limit.

A slow consumer must not delay others. While nothing else of the session is awaited, a full queue
pauses the reading of that child. While something else is awaited, the queue may grow to a larger
limit; beyond that, only this stream ends, as overrun.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any

from exthost.dialects.streams import StreamKind

# A full queue: at this length the child's output stays unread, if nothing else waits for it.
STREAM_EVENTS = 256

# If something else does wait, the queue may grow to this before its stream is ended.
STREAM_EVENTS_MOST = 4096
STREAM_BYTES_MOST = 16 * 2**20


class Room(Enum):
    """What to do with one more event of a stream."""

    KEEP = "keep it"
    PAUSE = "keep it, and pause reading"
    OVERRUN = "end this stream"


class StreamQueue:
    """The events of one stream, in the order in which they came."""

    __slots__ = (
        "acknowledged", "bytes", "call", "delivered", "ended", "ended_by", "events", "key", "kind",
        "params",
    )  # fmt: skip

    def __init__(self, kind: StreamKind, key: Any) -> None:
        self.kind = kind
        self.key = key
        self.params: Any = None  # of the request that opens it
        self.call: Any = None  # the call that opens it
        self.events: deque[tuple[Any, int]] = deque()
        self.bytes = 0
        self.acknowledged = False  # the reply came, and the stream goes on
        self.delivered = False  # the consumer has seen an event: the call cannot be sent again
        self.ended = False
        # The last event, if it came before the acknowledgement.
        self.ended_by: tuple[Any] | None = None

    @property
    def is_full(self) -> bool:
        return len(self.events) >= STREAM_EVENTS or self.bytes > STREAM_BYTES_MOST

    def room(self, size: int, others_wait: Callable[[], bool]) -> Room:
        """Return what to do with one more event of `size` bytes. The first event is always kept:
        it is within the size limit of messages."""
        count, weight = len(self.events), self.bytes + size
        if count + 1 < STREAM_EVENTS and (weight <= STREAM_BYTES_MOST or not count):
            return Room.KEEP
        if not others_wait():
            return Room.PAUSE
        if count < STREAM_EVENTS_MOST and weight <= STREAM_BYTES_MOST:
            return Room.KEEP
        return Room.OVERRUN
