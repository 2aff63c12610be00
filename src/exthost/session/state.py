"""What one session knows: its phase, the calls awaited, the streams, what was counted.

Pure: no clock, no I/O, no asyncio; it runs in any test as fast as the test does. The driver
(`session.py`) moves bytes and time, and asks here what they mean.

The rules that live here and nowhere else:
- a number is never used twice in a session, so whatever carries an old one is late, whatever
  carries one not given out yet is unknown; both are counted and dropped;
- a reply without an id answers the call that waited longest (dialects that answer by order), if
  that was asked before the reply was read;
- an event finds its streams by the notice's method and, where the dialect has one, by its key;
- how much a slow consumer may cost the others (`Room`).
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Protocol, Self

from exthost.dialects.dialect import Exchanges, Once, OnProgress, StreamKind
from exthost.messages import Id, Noise

# A stream's queue; beyond it the child's output is left unread, if nothing else waits for it.
STREAM_EVENTS = 256

# If something else does wait, the queue may grow to this before its stream alone is ended.
STREAM_EVENTS_MOST = 4096
STREAM_BYTES_MOST = 16 * 2**20


class Phase(Enum):
    """Where a session stands."""

    SHAKING = "shaking hands"
    OPEN = "open"
    DRAINING = "draining"
    CLOSED = "closed"


PHASES = {
    (Phase.SHAKING, "shook hands"): Phase.OPEN,
    (Phase.SHAKING, "drain"): Phase.DRAINING,
    (Phase.SHAKING, "end"): Phase.CLOSED,
    (Phase.OPEN, "drain"): Phase.DRAINING,
    (Phase.OPEN, "end"): Phase.CLOSED,
    (Phase.DRAINING, "end"): Phase.CLOSED,
}


class Sink(Protocol):
    """Where the outcome of a call goes: a future, or its counterpart in another thread."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class Call:
    """One accepted call. It ends exactly once: whoever sets `ended` delivers or spoils it.

    What most calls do not need stands on the class, so that making one is a few stores; there is
    no `__init__` since that would cost as much again. `Call.of` is the comfortable way.
    """

    method: str
    params: Any
    sink: Sink
    timeout: float
    deadline: float

    id: Id | None = None
    ended: bool
    plain = True  # nothing to do with its reply but to hand it over
    straight = False  # and its caller is a task: see `awaited`
    value: Any  # of one that went straight, once it has ended
    retried = False
    first: Any = None  # if it was sent again: why the first time came to nothing
    session: Any = None  # who it was sent through, for as long as it is under way
    steps: Exchanges | None = None  # an operation of several exchanges
    once: Once | None = None  # one that may turn out to be
    stream: "StreamQueue | None" = None
    map_result: Callable[[Any], Any] | None = None
    each = False  # the timeout is for each exchange, not for all of them
    tentative = False  # what it asked may stay unanswered: then it goes on without
    extended = 0.0  # by so many seconds progress has moved its deadline
    spent = False  # its process can serve no other call
    aside = False  # the host's own, not a user's: not counted, not told
    misread: tuple[Id, Noise] | None = None  # what came under its id of then, and was no message
    context: Any = None
    on_progress: OnProgress | None = None

    @classmethod
    def of(cls, method: str, params: Any, sink: Sink, timeout: float, began: float) -> Self:
        """A call that was accepted at the time `began`."""
        return cls.into_sink(sink).asks(method, params, timeout, began)

    @classmethod
    def into_sink(cls, sink: Sink) -> Self:
        """One whose outcome goes there, once it asks something."""
        call = cls()
        call.sink = sink
        return call

    def asks(self, method: str, params: Any, timeout: float, began: float) -> Self:
        """Make it ask this."""
        self.method = method
        self.params = params
        self.timeout = timeout
        self.deadline = began + timeout
        self.ended = False
        return self

    def deliver(self, result: Any) -> None:
        """Tell its caller, unless that has given up in this very tick."""
        if not self.sink.done():
            self.sink.set_result(result)

    def spoil(self, error: BaseException) -> None:
        """The same, of a call that will not be answered well."""
        if not self.sink.done():
            self.sink.set_exception(error)

    @property
    def began(self) -> float:
        """When it was accepted."""
        return self.deadline - self.timeout - self.extended

    def extend(self, now: float, most: float) -> None:
        """Give it its time limit anew, but not more than `most` seconds in all."""
        began = self.began
        later = max(self.deadline, min(now + self.timeout, began + most))
        self.extended += later - self.deadline
        self.deadline = later

    def through(self, steps: Exchanges) -> Self:
        """Make it an operation of several exchanges."""
        self.steps = steps
        self.plain = False
        return self

    def into(self, stream: "StreamQueue") -> Self:
        """Make it the opening of a stream."""
        self.stream = stream
        stream.params = self.params
        self.plain = False
        return self

    def mapped(self, map_result: Callable[[Any], Any] | None) -> Self:
        """Put a mapping between its reply and its caller."""
        if map_result is not None:
            self.map_result = map_result
            self.plain = False
        return self


class Room(Enum):
    """What to do with one more event for a stream."""

    KEEP = "keep it"
    PAUSE = "keep it, and read no more for now"
    OVERRUN = "end this stream"


class StreamQueue:
    """The events of one stream that nobody has taken yet."""

    __slots__ = ("bytes", "delivered", "ended", "events", "key", "kind", "params")

    def __init__(self, kind: StreamKind, key: Any) -> None:
        self.kind = kind
        self.key = key
        self.params: Any = None  # it was opened with these
        self.events: deque[tuple[Any, int]] = deque()
        self.bytes = 0
        self.delivered = False  # the consumer has seen something: the call cannot be sent again
        self.ended = False

    @property
    def full(self) -> bool:
        return len(self.events) >= STREAM_EVENTS or self.bytes > STREAM_BYTES_MOST

    def room(self, size: int, others_wait: Callable[[], bool]) -> Room:
        """What to do with one more event of `size` bytes. The first is always let in, however
        large: the cap on messages has let it pass."""
        crowd, weight = len(self.events), self.bytes + size
        if crowd + 1 < STREAM_EVENTS and (weight <= STREAM_BYTES_MOST or not crowd):
            return Room.KEEP
        if not others_wait():
            return Room.PAUSE
        if crowd < STREAM_EVENTS_MOST and weight <= STREAM_BYTES_MOST:
            return Room.KEEP
        return Room.OVERRUN


class Emptying(dict[Any, Any]):
    """A table that tells whenever nothing is left in it."""

    __slots__ = ("_told",)

    def __init__(self, entries: dict[Any, Any], told: Callable[[], None]) -> None:
        super().__init__(entries)
        self._told = told

    def pop(self, *entry: Any) -> Any:
        gone = super().pop(*entry)
        if not self:
            self._told()
        return gone

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        if not self:
            self._told()


class SessionState:
    """The tables of one session."""

    __slots__ = (
        "_by_order", "_routes", "_streams", "asked_so_far", "next_id", "pending", "phase",
    )  # fmt: skip

    def __init__(
        self, first_id: int, kinds: Iterable[StreamKind], *, by_order: bool = False
    ) -> None:
        self._by_order = by_order
        self.phase = Phase.SHAKING
        self.pending: dict[Id, Call] = {}
        self.next_id = first_id
        self.asked_so_far = first_id  # by order: when what is being read was read
        # Which notices are events of streams, and which member tells whose.
        self._routes: dict[str, str | None] = {}
        for kind in kinds:
            self._routes.update(kind.notices)
        self._streams: dict[tuple[str, Any], list[StreamQueue]] = {}

    def move(self, event: str) -> None:
        """Go to the next phase. A move that is not in the table is a bug of ours: KeyError."""
        self.phase = PHASES[self.phase, event]

    def watch(self, told: Callable[[], None]) -> None:
        """Tell from now on whenever no call, or no stream, is left. Tables that tell are slower,
        so only a session that gets no more calls has them."""
        self.pending = Emptying(self.pending, told)
        self._streams = Emptying(self._streams, told)

    def oldest(self) -> Call | None:
        """The call that an answer without an id belongs to, no longer pending. Where answers have
        ids it belongs to none: it is a complaint about something that could not be read. Nor does
        it belong to a call that was made after it was read."""
        id = next(iter(self.pending), None) if self._by_order else None
        if type(id) is not int or id >= self.asked_so_far:
            return None
        return self.pending.pop(id)

    def stray_reply(self, id: Id | None) -> str:
        """What to call an answer that matched nothing."""
        known = type(id) is int and id < self.next_id
        return "late or repeated replies" if known else "replies to no question"

    def forget(self, call: Call) -> bool:
        """Give a call up; True if it was pending."""
        return call.id is not None and self.pending.pop(call.id, None) is not None

    def open_stream(self, stream: StreamQueue) -> None:
        for method, member in stream.kind.notices.items():
            key = stream.key if member is not None else None
            self._streams.setdefault((method, key), []).append(stream)

    def close_stream(self, stream: StreamQueue) -> bool:
        """True if it was open."""
        was_open = False
        for method, member in stream.kind.notices.items():
            place = (method, stream.key if member is not None else None)
            queues = self._streams.get(place, [])
            if stream in queues:
                was_open = True
                queues.remove(stream)
                if not queues:
                    del self._streams[place]
        return was_open

    def is_event(self, method: str) -> bool:
        """Whether notices of this method are events of streams."""
        return method in self._routes

    def streams_for(self, method: str, params: Any) -> tuple[StreamQueue, ...]:
        """The open streams that this notice is for."""
        member = self._routes[method]
        key = None
        if member is not None:
            key = params.get(member) if isinstance(params, dict) else None
            if not isinstance(key, str | int):
                return ()
        return tuple(self._streams.get((method, key), ()))

    def streams(self) -> set[StreamQueue]:
        """Every open stream."""
        return {stream for queues in self._streams.values() for stream in queues}

    def others_wait(self, stream: StreamQueue) -> bool:
        """Whether anything but this stream, and streams as full as it, is awaited."""
        if any(call.stream is not stream for call in self.pending.values()):
            return True
        return any(not other.full for other in self.streams() if other is not stream)

    def end(self) -> tuple[list[Call], set[StreamQueue]]:
        """Close; returns who has to be told."""
        self.phase = Phase.CLOSED
        calls, streams = list(self.pending.values()), self.streams()
        self.pending.clear()
        self._streams.clear()
        return calls, streams
