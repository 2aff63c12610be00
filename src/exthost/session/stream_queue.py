"""The queue of one stream: the events that its consumer has not read yet, with a limit.

A slow consumer must not delay other callers of the same process. If no other call or stream waits
for the child, a full queue pauses the reading of its output (back-pressure). Otherwise the queue
may grow to a larger limit; beyond that limit this stream fails, and no other one.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any

from exthost.dialects.streams import StreamKind

# At this length the queue is full: reading pauses, if nothing else waits for the child's output.
STREAM_EVENTS = 256

# If something else waits, the queue may grow to this before its stream fails.
MAX_STREAM_EVENTS = 4096
MAX_STREAM_BYTES = 16 * 2**20

# When all streams of one process together would hold more, each may hold an equal part of this.
MAX_SESSION_BYTES = 64 * 2**20


class Room(Enum):
    """The action for one more event of a stream, depending on the room in its queue."""

    KEEP = "keep it"
    PAUSE = "keep it, and pause reading"
    OVERRUN = "end this stream"


class StreamQueue:
    """The events of one stream, in the order of their arrival. `kind` describes the streams of
    this method, and `key` is the name of this stream, or None."""

    __slots__ = (
        "acknowledged", "bytes", "call", "delivered", "early_last_event", "ended", "events", "key",
        "kind", "max_bytes", "params",
    )  # fmt: skip

    def __init__(self, kind: StreamKind, key: Any) -> None:
        self.kind = kind
        self.key = key
        self.params: Any = None  # the params of the request that opens the stream
        self.call: Any = None  # the call that opens the stream
        self.events: deque[tuple[Any, int]] = deque()  # each with the size of its frame in bytes
        self.bytes = 0  # the sum of these sizes
        self.max_bytes = MAX_STREAM_BYTES  # less while many streams are open
        self.acknowledged = False  # the reply has arrived, and more events follow
        self.delivered = False  # the consumer has got an event, so the call must not be sent again
        self.ended = False
        # A tuple of the last event, if that event arrived before the acknowledgement. A tuple,
        # because the event itself may be None.
        self.early_last_event: tuple[Any] | None = None

    @property
    def is_full(self) -> bool:
        return len(self.events) >= STREAM_EVENTS or self.bytes > self.max_bytes

    def room(self, size: int, others_wait: Callable[[], bool]) -> Room:
        """Return what to do with one more event of `size` bytes. A first event is kept whatever its
        size is, because the size limit of messages applies to it already. `others_wait` returns
        whether another call or stream waits for the child."""
        count, new_bytes = len(self.events), self.bytes + size
        if count + 1 < STREAM_EVENTS and (new_bytes <= self.max_bytes or not count):
            return Room.KEEP
        if not others_wait():
            return Room.PAUSE
        if count < MAX_STREAM_EVENTS and new_bytes <= self.max_bytes:
            return Room.KEEP
        return Room.OVERRUN
