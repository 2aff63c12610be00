"""Finds out whether the processes of a pool read further calls while they work on one.

A call that was written to a pipe cannot move to another process. So a process of a pool that works
on a slow call gets no second one, because most programs handle one call after the other. But some
programs handle several calls at once, and read their stdin while they work. A trial finds that out:
if a call waits because every process is busy, it is sent to a busy process. If the process reads
this trial call before its earlier call has ended, the program reads ahead, and from then on its
processes get as many calls as `max_in_flight` allows. Otherwise the process handles the trial call
next, and the other calls continue to wait for the first free process.

While a process is starting, calls wait for it, and a trial begins only after `PATIENCE_SECONDS`.
There is one trial at a time. A pipe tells the host how many bytes in it are unread. Where the host
cannot see that (on some systems, and on another machine), a call counts as read.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from exthost.extension.process_choice import ProcessChoice
from exthost.session.call import Call
from exthost.session.session import Session

# How long calls wait before the first trial, and how long the process has to read the trial call.
# A program that reads its stdin while it works does so at once. Calls that take less than five
# times as long need no trial (`process_choice.py`).
TRIAL_SECONDS = 0.01

# How long calls wait for a process that is starting. After a process did not read a trial call,
# this is also the time between further trials: a program may read ahead in some of its calls only.
PATIENCE_SECONDS = 1.0


class PoolQueue(Protocol):
    """The part of the call queue that the trials use."""

    loop: asyncio.AbstractEventLoop
    max_in_flight: int
    sessions: list[Session]

    @property
    def has_waiting(self) -> bool: ...

    def send_first_waiting(self, session: Session) -> None: ...

    def pump(self) -> None: ...


class ReadAheadTrial:
    """The trials of one pool."""

    __slots__ = (
        "_choice", "_interval", "_queue", "_timer", "_trial", "_waiting_since",
        "is_process_expected",
    )  # fmt: skip

    def __init__(self, queue: PoolQueue, choice: ProcessChoice) -> None:
        self._queue = queue
        self._choice = choice
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_since = 0.0  # loop time
        self._interval = TRIAL_SECONDS
        # The process that got the trial call, and the call that it was working on.
        self._trial: tuple[Session, Call] | None = None
        # Returns whether a process is starting; the supervisor replaces it.
        self.is_process_expected: Callable[[], bool] = lambda: False

    def begin(self) -> None:
        """Begin a trial in a moment, because a call waits although processes are ready."""
        if self._timer is None and not self._choice.reads_ahead:
            self._waiting_since = self._queue.loop.time()
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer = self._queue.loop.call_later(self._interval, self._check)

    def _check(self) -> None:
        """Begin a trial, or look at the result of the one in progress."""
        self._timer = None
        if self._choice.reads_ahead or not self._queue.has_waiting:
            self._trial = None
            return
        if self._trial is not None and self._was_read(*self._trial):
            self._choice.reads_ahead = True
            self._trial = None
            self._queue.pump()
            return
        if self._trial is None:
            self._trial = self._start()
        self._set_timer()

    def _was_read(self, session: Session, earlier: Call) -> bool:
        """Return whether the process has read the trial call while it works on the earlier one. If
        the earlier one has ended, the trial is over without a verdict."""
        if earlier.ended or session not in self._queue.sessions:
            self._trial = None
            return False
        if session.unread_bytes():
            self._interval = PATIENCE_SECONDS
            return False
        return True

    def _start(self) -> tuple[Session, Call] | None:
        """Send a waiting call to a process that works on another one, and return the process and
        that other call. Return None if no trial is possible now."""
        waited = self._queue.loop.time() - self._waiting_since
        if self.is_process_expected() and waited < PATIENCE_SECONDS:
            return None
        for session in sorted(self._queue.sessions, key=_count_in_flight):
            earlier = next(iter(list(session.pending.values())), None)
            has_room = len(session.pending) < self._queue.max_in_flight
            if earlier is not None and has_room and not session.unread_bytes():
                self._queue.send_first_waiting(session)
                return session, earlier
        return None


def _count_in_flight(session: Session) -> int:
    return len(session.pending)
