"""Chooses the process of a pool that gets the next call. A pool is the processes of one extension,
each of which can handle any call.

An idle process is taken if there is one. Of the `_ROTATED` processes that were used last, it is the
one that has been idle longest, so that every process of a usual pool gets calls. Otherwise the call
gets a busy process, or waits.

**Calls that wait.** A call that was sent cannot move to another process. So a busy process gets no
more calls than it is expected to answer within `_AHEAD_SECONDS`, by the times that earlier calls of
the method took. It gets no more calls if it has worked on one call for longer than that. Calls of a
method that takes longer, or that has not been answered yet, are sent to idle processes only; if
there is none, they wait for the first process that becomes free. A program that handles several
calls at once (`read_ahead.py`) gets as many as `max_in_flight` allows; the process with the fewest
calls is taken.

For a quick method, two busy processes are picked at random, and the less loaded of them is taken,
which takes constant time. All processes are compared only if that one has no room.

**Batches.** Calls whose replies come faster than the host can send calls go to the same process, so
that one write sends several of them and one read brings several replies. Spread over many
processes, each call would need a separate write and a separate read, and a pool of 16 would have
half the throughput of one process. A method counts as fast if one read brings several of its
replies on average. A method whose replies come one by one, or late, is not batched: its calls go to
idle processes.

A batch is bounded. The next batch goes to the process that became idle last, because a process that
has slept answers later. While a process keeps up, its batch does not end. A process keeps up if the
host took longer to send the calls whose replies came in one read than it then waited for that read;
further processes would not help then. A pool of 64 on nodes (other machines) then has 0.96 of the
throughput of one process there. If every batch were bounded, it would have 0.88, and 0.8 if the
batches went to all processes in turn.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exthost.session.call import Call
    from exthost.session.session import Session

# Calls go to this many idle processes in turn, and to others only if these are busy. If calls went
# to 10,000 processes in turn, each call would cost the host a fifth more, because the data of the
# processes would not be in the caches of the processor.
_ROTATED = 64

# The maximum number of calls in a batch, unless its process keeps up. If a process suddenly becomes
# slow, at most this many calls wait for it.
_BATCH_CALLS = 128

# After a reply that took longer than this, the method is not batched any more.
_LATE_SECONDS = 0.005

# A busy process gets further calls if it is expected to answer them within this time. A caller
# hardly notices such a delay, and a quick reply on a busy machine rarely takes longer.
_AHEAD_SECONDS = 0.05

# From this many replies per read on average, the calls of a method are batched.
_FAST_REPLIES = 2.0

# The weight of the newest read in the moving averages.
_NEWEST_WEIGHT = 0.25

# The number of methods whose averages are kept; real extensions have fewer. Beyond it all are
# forgotten, so that a caller who makes up method names cannot fill the memory.
_MAX_METHODS = 1024


class _MethodTimes:
    """Moving averages of one method: how many replies a read brings, and how long a process takes
    for one of them."""

    __slots__ = ("replies_per_read", "seconds_per_reply")

    def __init__(self, seconds_per_reply: float) -> None:
        self.replies_per_read = 1.0
        self.seconds_per_reply = seconds_per_reply


class ProcessChoice:
    """The processes of one pool that accept calls. `sessions` is the call queue's own list.
    `on_busy` is called when a call gets a process that has other calls, so that one more process
    would help. `reads_ahead` is whether a process reads further calls while it works on one."""

    __slots__ = (
        "_batch_calls_left",
        "_batch_method",
        "_batch_session",
        "_idle",
        "_members",
        "_now",
        "_on_busy",
        "_sessions",
        "_spare",
        "_times",
        "reads_ahead",
    )

    def __init__(
        self,
        sessions: list[Session],
        on_busy: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._sessions = sessions
        self._on_busy = on_busy
        self._now = now
        self.reads_ahead = False
        self._members: set[Session] = set()  # the same sessions, for membership tests
        # An ordered set of the sessions that were idle when they were added, the oldest first. A
        # session may have got a call since then, so it is checked when it is taken out.
        self._idle: OrderedDict[Session, None] = OrderedDict()
        self._spare: OrderedDict[Session, None] = OrderedDict()  # the same, beyond `_ROTATED`
        self._times: dict[str, _MethodTimes] = {}
        # The batch that calls are added to: its process, the method of its calls, and how many more
        # calls it may have; None and 0 if there is no batch.
        self._batch_session: Session | None = None
        self._batch_method = ""
        self._batch_calls_left = 0

    def add(self, session: Session) -> None:
        self._members.add(session)
        idle = self._idle if len(self._idle) < _ROTATED else self._spare
        idle[session] = None

    def remove(self, session: Session) -> None:
        self._members.discard(session)
        self._end_batch()
        self._idle.pop(session, None)
        self._spare.pop(session, None)

    def clear(self) -> None:
        self._members.clear()
        self._idle.clear()
        self._spare.clear()
        self._end_batch()

    def choose(self, method: str, max_in_flight: int) -> Session | None:
        """Return the process for a call of this method; None if the call has to wait."""
        if self._batch_calls_left and method == self._batch_method:  # continue the batch
            session = self._batch_session
            if (
                session is not None
                and len(session.pending) < max_in_flight
                and not session.lifetime.child.is_node_silent
            ):
                self._batch_calls_left -= 1
                return session
        if max_in_flight < 1:  # the queue holds all calls back for now
            return None
        times = self._times.get(method)
        is_fast = times is not None and times.replies_per_read >= _FAST_REPLIES
        chosen = self._take_idle(is_fast)
        if chosen is None:
            chosen = self._pick_busy(times, max_in_flight)
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
        """Return an idle process; for a fast method, the one that became idle last. A process on a
        silent node (a machine that has not reported lately) is taken only if every process is on
        one."""
        silent: list[Session] = []
        chosen: Session | None = None
        while chosen is None and (idle := self._idle or self._spare):
            session, _ = idle.popitem(last=is_fast)
            if len(session.pending):
                continue
            if session.lifetime.child.is_node_silent:
                silent.append(session)
            else:
                chosen = session
        if chosen is None and silent and not self._has_answering():
            chosen = silent.pop()
        for session in silent:
            self._idle[session] = None
        if chosen is not None:
            chosen.busy_since = self._now()
        return chosen

    def _has_answering(self) -> bool:
        """Return whether any process is not on a silent node."""
        return any(not session.lifetime.child.is_node_silent for session in self._sessions)

    def _pick_busy(self, times: _MethodTimes | None, max_in_flight: int) -> Session | None:
        """Return a busy process that may get a further call."""
        seconds = math.inf if times is None else times.seconds_per_reply
        if not self.reads_ahead and seconds * max_in_flight > _AHEAD_SECONDS:
            # As many calls as the process is expected to answer in time.
            max_in_flight = min(max_in_flight, int(_AHEAD_SECONDS / seconds))
        sessions = self._sessions
        if not sessions or max_in_flight <= 1:  # with one call at a time, only an idle one has room
            return None
        if seconds <= _AHEAD_SECONDS:
            import random

            first, second = random.choice(sessions), random.choice(sessions)
            chosen = first if len(first.pending) <= len(second.pending) else second
            is_answering = self._answers(chosen) and not chosen.lifetime.child.is_node_silent
            if len(chosen.pending) < max_in_flight and is_answering:
                return chosen
        candidates = [session for session in sessions if self._answers(session)]
        candidates = [
            session for session in candidates if not session.lifetime.child.is_node_silent
        ] or candidates
        least_loaded = min(candidates, key=_count_in_flight, default=None)
        has_room = least_loaded is not None and len(least_loaded.pending) < max_in_flight
        return least_loaded if has_room else None

    def _answers(self, session: Session) -> bool:
        """Return whether a busy process has answered lately, or reads ahead."""
        return self.reads_ahead or self._now() - session.busy_since <= _AHEAD_SECONDS

    def record_replies(self, first: Call, last: Call, replies: int, now: float) -> None:
        """Record that one read brought this many replies of one process. The earliest reply is to
        the call `first`, and the latest to `last`."""
        session, method = first.session, first.method
        seconds = now - first.started_at
        # The host sent `last` this long after `first`, and then waited for the read.
        sending_seconds = last.started_at - first.started_at
        waiting_seconds = now - last.started_at
        # The process has worked on `first` since it got the call, or since its previous reply.
        seconds_each = min(seconds, now - session.busy_since) / replies
        session.busy_since = now
        times = self._times.get(method)
        if times is None:
            if len(self._times) >= _MAX_METHODS:
                self._times.clear()
            times = self._times[method] = _MethodTimes(seconds_each)
        else:
            times.seconds_per_reply += (seconds_each - times.seconds_per_reply) * _NEWEST_WEIGHT
        if seconds > _LATE_SECONDS and replies == 1:  # late and alone: stop batching at once
            times.replies_per_read = 1.0
        else:
            times.replies_per_read += (replies - times.replies_per_read) * _NEWEST_WEIGHT
        if method == self._batch_method:
            if times.replies_per_read < _FAST_REPLIES:
                self._end_batch()
            elif session is self._batch_session and waiting_seconds <= sending_seconds:
                self._batch_calls_left = _BATCH_CALLS  # the process keeps up
        self.record_end(session)

    def record_end(self, session: Session) -> None:
        """Record that a call of this process ended, with or without a reply."""
        if not len(session.pending) and session in self._members:
            self._idle[session] = None
            if len(self._idle) > _ROTATED:
                oldest, _ = self._idle.popitem(last=False)
                self._spare[oldest] = None


def _count_in_flight(session: Session) -> int:
    return len(session.pending)
