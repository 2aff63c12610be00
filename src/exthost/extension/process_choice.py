"""Chooses the process of a pool that gets the next call.

The choice takes constant time. An idle process is taken if there is one: the one that has been idle
longest, so that every process gets calls. Otherwise two processes are picked at random, and the
less loaded of them is taken. Only if both are full, all processes are compared.

**Batches.** Calls whose replies come faster than the host can send calls go to the same process, so
that one write sends several of them and one read brings several replies. Spread over many
processes, each call would need a separate write and a separate read, and a pool of 16 would have
half the throughput of one process. A method counts as fast if one read brings several of its
replies on average. A method whose replies come one by one, or late, is not batched: its calls go to
idle processes.

A batch is bounded, and the next one goes to the process that became idle last, because a process
that has slept answers later. While a process keeps up, its batch does not end: the host took longer
to send the calls of one read than it waited after the last of them, so further processes would not
help. A pool of 64 on nodes then has 0.96 of the throughput of one process there; with bounded
batches only it has 0.88, and 0.8 if they go to all processes in turn.
"""

import random
from collections import OrderedDict
from collections.abc import Callable

from exthost.session.call import Call
from exthost.session.session import Session

# The maximum number of calls in a batch, unless its process keeps up. More would wait for a process
# that has suddenly become slow.
_BATCH_CALLS = 128

# After a reply that took longer than this, the method is not batched any more.
_LATE_SECONDS = 0.005

# From this many replies per read on average, the calls of a method are batched.
_FAST_REPLIES = 2.0

# The weight of the newest read in the moving average of replies per read.
_NEWEST_WEIGHT = 0.25

# The number of methods whose average is kept; real extensions have fewer. Beyond it all are
# forgotten, so that a caller who makes up method names cannot fill the memory.
_MAX_METHODS = 1024


class ProcessChoice:
    """The processes of one pool that accept calls. `sessions` is the call queue's own list.
    `on_busy` is called when a call gets a process that has other calls, so that one more process
    would help."""

    __slots__ = (
        "_batch_calls_left",
        "_batch_method",
        "_batch_session",
        "_idle",
        "_members",
        "_on_busy",
        "_replies_per_read",
        "_sessions",
    )

    def __init__(self, sessions: list[Session], on_busy: Callable[[], None]) -> None:
        self._sessions = sessions
        self._on_busy = on_busy
        self._members: set[Session] = set()  # the same sessions, for membership tests
        # An ordered set of the sessions that were idle when they were added, the oldest first. A
        # session may have got a call since then, so it is checked when it is taken out.
        self._idle: OrderedDict[Session, None] = OrderedDict()
        self._replies_per_read: dict[str, float] = {}
        # The batch that calls are added to: its process, the method of its calls, and how many more
        # calls it may have; None and 0 if there is no batch.
        self._batch_session: Session | None = None
        self._batch_method = ""
        self._batch_calls_left = 0

    def add(self, session: Session) -> None:
        self._members.add(session)
        self._idle[session] = None

    def remove(self, session: Session) -> None:
        self._members.discard(session)
        self._end_batch()
        self._idle.pop(session, None)

    def clear(self) -> None:
        self._members.clear()
        self._idle.clear()
        self._end_batch()

    def choose(self, method: str, max_in_flight: int) -> Session | None:
        """Return the process for a call of this method; None if every process is full."""
        if self._batch_calls_left and method == self._batch_method:
            session = self._batch_session
            if session is not None and len(session.pending) < max_in_flight:
                self._batch_calls_left -= 1
                return session
        if max_in_flight < 1:  # calls are held back
            return None
        is_fast = self._replies_per_read.get(method, 1.0) >= _FAST_REPLIES
        chosen = self._take_idle(is_fast)
        if chosen is None:
            chosen = self._pick_less_loaded(max_in_flight)
            if chosen is not None:
                self._on_busy()
        if chosen is not None:
            chosen.is_batched = is_fast
            if is_fast:
                self._batch_session, self._batch_method = chosen, method
                self._batch_calls_left = _BATCH_CALLS - 1
        return chosen

    def _end_batch(self) -> None:
        self._batch_session, self._batch_calls_left = None, 0

    def _take_idle(self, is_fast: bool) -> Session | None:
        """Return an idle process: for a fast method the last that became idle."""
        while self._idle:
            session, _ = self._idle.popitem(last=is_fast)
            if not len(session.pending):
                return session
        return None

    def _pick_less_loaded(self, max_in_flight: int) -> Session | None:
        sessions = self._sessions
        if not sessions or max_in_flight == 1:  # with one call at a time, only an idle one has room
            return None
        first, second = random.choice(sessions), random.choice(sessions)
        chosen = first if len(first.pending) <= len(second.pending) else second
        if len(chosen.pending) >= max_in_flight:  # both are full, so all are compared
            chosen = min(sessions, key=_count_in_flight)
        return chosen if len(chosen.pending) < max_in_flight else None

    def record_replies(self, first: Call, last: Call, replies: int, now: float) -> None:
        """Record that one read had this many replies, from the one to `first` to that to `last`."""
        session, method = first.session, first.method
        seconds, seconds_of_last = now - first.started_at, now - last.started_at
        average = self._replies_per_read.get(method, 1.0)
        if seconds > _LATE_SECONDS and replies == 1:  # late and alone: stop batching at once
            average = 1.0
        else:
            average += (replies - average) * _NEWEST_WEIGHT
        if len(self._replies_per_read) >= _MAX_METHODS:
            self._replies_per_read.clear()
        self._replies_per_read[method] = average
        if method == self._batch_method:
            if average < _FAST_REPLIES:
                self._end_batch()
            elif session is self._batch_session and 2 * seconds_of_last <= seconds:
                self._batch_calls_left = _BATCH_CALLS  # the process keeps up
        self.record_end(session)

    def record_end(self, session: Session) -> None:
        """Record that a call of this process ended, with or without a reply."""
        if not len(session.pending) and session in self._members:
            self._idle[session] = None


def _count_in_flight(session: Session) -> int:
    return len(session.pending)
