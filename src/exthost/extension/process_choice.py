"""Which process of a pool gets the next call.

The choice costs the same among 2 processes and among 64: an idle process if there is one, else the
less loaded of two taken at random. Only when both of these are full is every process looked at.

Calls that are answered faster than the host can send them are kept together: several of them go to
one process in one write, and their replies come back in one read. Spread over many processes, each
would cost a write and a read of its own, and a pool of 16 would have half the throughput of one
process. How fast a method is answered shows in the number of its replies in one read. A method
whose replies come one by one, or late, is never queued behind another call while a process is idle.
"""

import random
from collections import OrderedDict

from exthost.session.session import Session

# The largest number of calls that are sent to one process in a row. Fewer cost throughput; more
# only make the first reply later. As many as one write has (`stdin_writer.BATCH_FRAMES`).
_BATCH_CALLS = 32

# A reply that takes longer than this is late: its method is not batched from then on.
_LATE_SECONDS = 0.005

# Each read moves the average of replies per read by this share of the difference.
_SHARE = 0.25

# Methods whose speed is remembered: more than any extension has.
_MOST_METHODS = 1024


class ProcessChoice:
    """The processes of one pool that accept calls: `sessions` is the list of the call queue."""

    __slots__ = (
        "_batch_left",
        "_batch_session",
        "_idle",
        "_members",
        "_replies_per_read",
        "_sessions",
        "found_none_idle",
    )

    def __init__(self, sessions: list[Session]) -> None:
        self._sessions = sessions
        self._members: set[Session] = set()  # the same, to look one up at the same cost
        # Sessions that were idle when they were put here, each once, the longest idle first.
        self._idle: OrderedDict[Session, None] = OrderedDict()
        self._replies_per_read: dict[str, float] = {}
        self._batch_session: Session | None = None
        self._batch_left = 0
        # Whether the last choice looked for an idle process in vain: another one might help.
        self.found_none_idle = False

    def add(self, session: Session) -> None:
        self._members.add(session)
        self._idle[session] = None

    def remove(self, session: Session) -> None:
        self._members.discard(session)
        if self._batch_session is session:
            self._batch_session = None
        self._idle.pop(session, None)

    def clear(self) -> None:
        self._members.clear()
        self._idle.clear()
        self._batch_session = None

    def choose(self, method: str, max_in_flight: int) -> Session | None:
        """Return the process for a call of this method; None if every process is full."""
        if max_in_flight < 1:  # calls are held back
            return None
        batched = self._batch_session
        is_fast = self._replies_per_read.get(method, 1.0) >= 2.0
        has_batch = is_fast and batched is not None and self._batch_left > 0
        if has_batch and batched is not None and len(batched.pending) < max_in_flight:
            self._batch_left -= 1
            self.found_none_idle = False
            return batched
        session = self._idle_session()
        self.found_none_idle = session is None
        if session is None:
            session = self._less_loaded(max_in_flight)
        if session is not None:
            session.is_batched = is_fast
            if is_fast:
                self._batch_session, self._batch_left = session, _BATCH_CALLS - 1
        return session

    def _idle_session(self) -> Session | None:
        while self._idle:
            session, _ = self._idle.popitem(last=False)
            if not len(session.pending):
                return session
        return None

    def _less_loaded(self, max_in_flight: int) -> Session | None:
        sessions = self._sessions
        if not sessions or max_in_flight == 1:  # with one call each, only an idle one has room
            return None
        first, second = random.choice(sessions), random.choice(sessions)
        chosen = first if len(first.pending) <= len(second.pending) else second
        if len(chosen.pending) >= max_in_flight:  # nearly all are full: look at each
            chosen = min(sessions, key=_in_flight)
        return chosen if len(chosen.pending) < max_in_flight else None

    def replied(self, session: Session, method: str, replies: int, seconds: float) -> None:
        """Note that one read of this process had this many replies; the first took `seconds`."""
        average = self._replies_per_read.get(method, 1.0)
        if seconds > _LATE_SECONDS and replies == 1:
            average = 1.0
        else:
            average += (replies - average) * _SHARE
        if len(self._replies_per_read) >= _MOST_METHODS:
            self._replies_per_read.clear()
        self._replies_per_read[method] = average
        self.freed(session)

    def freed(self, session: Session) -> None:
        """Note that a call of this process ended, with or without a reply."""
        if not len(session.pending) and session in self._members:
            self._idle[session] = None


def _in_flight(session: Session) -> int:
    return len(session.pending)
