"""The calls of one extension: accepted here, sent when there is room, counted when they end.

The queue outlives processes. It owns what belongs to the extension and not to one process: waiting
calls, the limit of calls in flight, deadlines, the counts of outcomes, and the choice among
processes. A call is sent at once if a process is open and has room; otherwise it waits here, within
its own time limit. Waiting needs no task: the caller awaits the same object either way.

Each call ends in exactly one of result, error, timeout, cancelled, gone (`call_outcomes.py`).
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from exthost.errors import ExthostError
from exthost.events import Bus
from exthost.extension.call_outcomes import CallOutcomes
from exthost.extension.call_retry import final_error, may_resend
from exthost.extension.deadlines import Deadlines
from exthost.extension.process_choice import ProcessChoice
from exthost.extension.timeouts import timeout_error
from exthost.process.after_fork import disown_in_copies
from exthost.session.awaitable_call import WakeBatch
from exthost.session.call import Call
from exthost.session.effects import Completions
from exthost.session.failures import used_after_fork_error
from exthost.session.replies import GeneratorReply
from exthost.session.session import Session

ErrorFactory = Callable[[str], ExthostError]
"""From the name of a method to the error of a call of it."""

# The shared empty queue of all extensions whose calls never had to wait. It stays empty.
_NO_CALLS: OrderedDict[Call, None] = OrderedDict()


class CallQueue:
    """The calls of one extension."""

    __slots__ = (
        "__weakref__", "_capacity", "_choice", "_concurrency", "_holds", "_is_pumping",
        "_listeners", "_live", "_one", "bus", "deadlines", "extension", "is_forked", "is_pool",
        "is_serial", "is_shared", "loop", "make_closed_error", "max_in_flight", "now", "on_busy",
        "on_failure", "on_needed", "on_session_ended", "outcomes", "retry_once", "sessions",
        "waiting", "wakes",
    )  # fmt: skip

    def __init__(
        self,
        extension: str,
        *,
        max_in_flight: int,
        retry_once: bool = False,
        is_shared: bool = False,
        is_serial: bool = False,
        is_pool: bool = False,
        bus: Bus,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`is_shared`: other threads send calls, too. `is_serial`: one call at a time with all of
        its requests. `is_pool`: there may be more than one process."""
        self.extension = extension
        self.bus = bus
        self._listeners = bus.kinds  # empty most of the time, so this is the cheapest test
        self.loop = loop
        # The clock behind `loop.time`, where it is that: quicker, and right on every thread.
        is_monotonic = is_shared or isinstance(loop, asyncio.BaseEventLoop)
        self.now = time.monotonic if is_monotonic else loop.time
        self.retry_once = retry_once
        self.is_shared = is_shared
        self.is_serial = is_serial
        self.is_pool = is_pool
        self.max_in_flight = max_in_flight  # per process, right now: 0 while calls are held
        self._capacity = max_in_flight
        self._concurrency = max_in_flight
        self._holds = 0  # the number of sessions that hold calls back
        self.sessions: list[Session] = []  # those that accept calls
        self._one: Session | None = None  # the process that all calls go to, outside of a pool
        self._choice = ProcessChoice(self.sessions) if is_pool else None
        self._live: list[Session] = []  # every session that may have calls in flight
        self.waiting: OrderedDict[Call, None] = _NO_CALLS
        self.wakes = WakeBatch(loop)
        self.outcomes = CallOutcomes(extension, bus, self.now, self.wakes)
        self._is_pumping = False
        self.deadlines = Deadlines(loop, self.now, self._open_calls, self.expire)
        self.is_forked = False  # this process is a copy of the one that started the extension
        # Set while no process will come. It makes the error of a call.
        self.make_closed_error: ErrorFactory | None = None
        # A call waits, and there is no process: one may be started.
        self.on_needed: Callable[[], None] | None = None
        # Every process of a pool is busy.
        self.on_busy: Callable[[], None] | None = None
        # A call of a living process failed with this.
        self.on_failure: Callable[[ExthostError], None] | None = None
        # A session ended; its calls fail right after this.
        self.on_session_ended: Callable[[Session], None] | None = None
        disown_in_copies(self)

    # -- accepting ---------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        """Send a call or let it wait; raise if no process will ever serve it. Loop's thread."""
        session = self._one
        if session is None or self.waiting or len(session.pending) >= self.max_in_flight:
            session = self._choose(call)
        if session is None:
            self._enqueue(call)
        else:
            session.start(call)
        if call.deadline < self.deadlines.next_at:
            self.deadlines.set(call.deadline)
        if self._listeners:
            self.outcomes.publish_started(call)

    def submit_threadsafe(self, call: Call) -> None:
        """Do the same from any thread. The caller watches the deadline itself."""
        # A call of several requests goes through the loop's thread: between two of its requests
        # nothing is in flight, and another thread could mistake that for a free process.
        simple = call.on_reply.is_simple and not self.is_serial
        session = self._choose(call) if simple else None
        if session is None:
            self._enqueue(call)
        else:
            session.start(call)
        if self._listeners:
            self.loop.call_soon_threadsafe(self.outcomes.publish_started, call)

    def _choose(self, call: Call) -> Session | None:
        """Return the process that can take this call now."""
        if self.waiting:  # waiting calls go first
            return None
        session = self._one
        if session is not None:
            return session if len(session.pending) < self.max_in_flight else None
        if self._choice is None:
            return None
        session = self._choice.choose(call.method, self.max_in_flight)
        if self._choice.found_none_idle and session is not None and self.on_busy is not None:
            if self.is_shared:  # perhaps on another thread
                self.loop.call_soon_threadsafe(self.on_busy)
            else:
                self.on_busy()
        return session

    def _enqueue(self, call: Call) -> None:
        if self.make_closed_error is not None:
            raise self.make_closed_error(call.method)
        self._wait(call)
        self.loop.call_soon_threadsafe(self._look_after_waiting)

    def _wait(self, call: Call) -> None:
        if self.waiting is _NO_CALLS:
            self.waiting = OrderedDict()
        self.waiting[call] = None

    def _look_after_waiting(self) -> None:
        """Send or fail calls that another thread enqueued in the moment in which the last reply
        came or the queue was closed."""
        if self.make_closed_error is not None:
            self.fail_waiting(self.make_closed_error)
        elif self.sessions:
            self.pump()
        elif self.waiting and self.on_needed is not None:
            self.on_needed()

    @property
    def has_waiting(self) -> bool:
        return bool(self.waiting)

    def pump(self) -> None:
        """Send waiting calls while there is room."""
        if self._is_pumping:  # a call that ends while it is started comes back here
            return
        self._is_pumping = True
        try:
            while self.waiting:
                call = next(iter(self.waiting))
                session = self._one
                if self._choice is not None:
                    session = self._choice.choose(call.method, self.max_in_flight)
                elif session is not None and len(session.pending) >= self.max_in_flight:
                    session = None
                if session is None:
                    self._wait_for_room()
                    return
                del self.waiting[call]
                if not call.ended:
                    self._start_waiting(session, call)
        finally:
            self._is_pumping = False

    def _start_waiting(self, session: Session, call: Call) -> None:
        try:
            session.start(call)
        except ExthostError as error:
            self.fail(call, error)

    def _wait_for_room(self) -> None:
        for session in self.sessions:
            session.resume_reading()  # back-pressure of a stream must not hold up those who wait
        if self.is_pool and self.sessions and self.on_busy is not None:
            self.on_busy()

    # -- room --------------------------------------------------------------------------------

    def hold(self) -> None:
        """Send no more calls for now. New calls wait, within their own time limits."""
        self._holds += 1
        self.max_in_flight = 0

    def release(self) -> None:
        """Send calls again, unless another session still holds them."""
        self._holds -= 1
        self._update_room()

    def set_concurrency(self, calls: int | None) -> None:
        """Allow this many calls in flight per process; None allows as many as configured."""
        self._concurrency = self._capacity if calls is None else calls
        self._update_room()

    def _update_room(self) -> None:
        if not self._holds:
            self.max_in_flight = self._concurrency
            if self.waiting:
                self.pump()

    # -- sessions come and go ----------------------------------------------------------------

    @property
    def live_sessions(self) -> list[Session]:
        """Every session, also those in their handshake and those that accept no more calls."""
        return self._live

    def session_began(self, session: Session) -> None:
        self._live.append(session)

    def attach(self, session: Session) -> None:
        """Send calls through this session from now on."""
        self.sessions.append(session)
        if self._choice is not None:
            self._choice.add(session)
        else:
            self._one = session
        self.make_closed_error = None
        self.pump()

    def stop_sending(self, session: Session) -> None:
        """Send no further call through this session."""
        if session in self.sessions:
            self.sessions.remove(session)
        if self._choice is not None:
            self._choice.remove(session)
        else:
            self._one = self.sessions[-1] if self.sessions else None

    def session_ended(self, session: Session, calls: list[Call]) -> None:
        self.stop_sending(session)
        self._live.remove(session)
        if self.on_session_ended is not None:  # first: the state is true when the error is seen
            self.on_session_ended(session)
        for call in reversed(calls):  # those that are sent again go before those that wait
            call.session = None
            self._requeue_or_fail(call, session.closed_error(call.method))

    def _requeue_or_fail(self, call: Call, error: ExthostError) -> None:
        """Let a call whose process died wait again if it may be sent twice; otherwise fail it."""
        if self.retry_once and self.make_closed_error is None and may_resend(call):
            call.first_error = error
            self._wait(call)
            self.waiting.move_to_end(call, last=False)
        else:
            self.fail(call, error)

    def close(self, why: ErrorFactory) -> None:
        """Fail all waiting calls, and every later call: no process will come."""
        self._forget_sessions()
        self.make_closed_error = why
        self.fail_waiting(why)

    def _forget_sessions(self) -> None:
        self.sessions.clear()
        self._one = None
        if self._choice is not None:
            self._choice.clear()

    def fail_waiting(self, why: ErrorFactory) -> None:
        """Fail every call that waits."""
        while self.waiting:
            call, _ = self.waiting.popitem(last=False)
            self.fail(call, why(call.method))

    # -- the ends of calls -------------------------------------------------------------------

    def complete(self, completions: Completions) -> None:
        """End these calls with their values."""
        if self._choice is not None and self.sessions:
            call = completions[0][0]
            seconds = self.now() - call.started_at
            self._choice.replied(call.session, call.method, len(completions), seconds)
        self.outcomes.complete(completions)
        if self.waiting:
            self.pump()

    def fail(self, call: Call, error: ExthostError) -> None:
        """End a call with an error."""
        if call.session is not None:
            self._freed(call.session)
        if call.ended:
            return
        call.ended = True
        self._report_trouble(call, error)
        self._reject(call, error)

    def _report_trouble(self, call: Call, error: ExthostError) -> None:
        """Report an error before the caller sees it, so that its next call finds the new state. An
        error that also ended the session is counted with the session."""
        is_of_living = call.session is not None and call.session.cause is None
        if self.on_failure is not None and is_of_living and not call.internal:
            self.on_failure(error)

    def _reject(self, call: Call, error: ExthostError) -> None:
        self.outcomes.reject(call, final_error(self.extension, call, error))
        if self.waiting:
            self.pump()

    def cancel(self, call: Call, why: str = "cancelled by the caller") -> None:
        """End a call whose caller is no longer interested. The caller gets no error."""
        if call.ended:
            return
        call.ended = True
        self.waiting.pop(call, None)
        if call.session is not None:
            call.session.abandon(call, why)
            self._freed(call.session)
        self.outcomes.record_unsuccessful(call, "cancelled")
        if self.waiting:
            self.pump()

    def expire(self, call: Call) -> None:
        """End a call whose time is over."""
        session = call.session
        if call.ended:
            if session is not None:  # its consumer left, and no reply has come since
                session.abandon(call, "no reply came")
                self._place_is_free(session)
            return
        handler = call.on_reply
        if isinstance(handler, GeneratorReply) and handler.is_optional and session is not None:
            session.continue_without_reply(call)
            return
        error = timeout_error(self.extension, call, has_process=bool(self.sessions))
        self.waiting.pop(call, None)
        call.ended = True
        if session is not None:
            # First, because its place is free for the next call as soon as this one has ended.
            session.abandon(call, f"timed out after {call.timeout:g} s")
            self._freed(session)
            self._report_trouble(call, error)
        self._reject(call, error)

    def acknowledged(self, call: Call) -> None:
        """A stream was accepted: it has another deadline, and its place is free."""
        self.watch_deadline(call)
        self._place_is_free(call.session)

    def _place_is_free(self, session: Session) -> None:
        self._freed(session)
        if self.waiting:
            self.pump()

    def _freed(self, session: Session) -> None:
        if self._choice is not None:
            self._choice.freed(session)

    def watch_deadline(self, call: Call) -> None:
        """Consider a deadline that was set or moved. Loop's thread only."""
        if call.deadline < self.deadlines.next_at:
            self.deadlines.set(call.deadline)

    def _open_calls(self) -> list[Call]:
        calls = [*self.waiting]
        for session in self._live:
            calls += session.conversation.calls()
        return calls

    def disown(self) -> None:
        """Mark this as a copy in a forked process: replies go to the original."""
        self.is_forked = True
        self._forget_sessions()
        self.waiting = _NO_CALLS
        self.make_closed_error = lambda _: used_after_fork_error()
