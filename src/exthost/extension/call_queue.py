"""The call queue of one extension: sends calls to processes, or lets them wait until one has room.

The queue outlives processes. It owns what belongs to the extension and not to one process: waiting
calls, the limit of calls in flight, deadlines, the counts of outcomes, and the choice among the
processes of a pool. A call is sent at once if a process is ready and has fewer than `max_in_flight`
calls; otherwise it waits here, within its own time limit. Waiting needs no task: the caller awaits
the same `Call` in both cases.

Each call ends as exactly one of result, error, timeout, cancelled or gone (its process ended).
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from exthost.errors import CallFailed, ExthostError
from exthost.events import Bus, CallStarted
from exthost.extension.call_outcomes import CallOutcomes
from exthost.extension.deadlines import Deadlines
from exthost.extension.process_choice import ProcessChoice
from exthost.extension.read_ahead import ReadAheadTrial
from exthost.extension.timeouts import timeout_error
from exthost.process.after_fork import disown_after_fork
from exthost.session.awaitable_call import WakeBatch
from exthost.session.call import Call
from exthost.session.effects import Completions
from exthost.session.failures import failed_twice_error, not_resent_error, used_after_fork_error
from exthost.session.replies import GeneratorHandler
from exthost.session.session import Session

ErrorFactory = Callable[[str], ExthostError]
"""Takes the name of a method, and returns the error for a call of it."""

# Shared by all extensions whose calls never had to wait, to save memory. It stays empty.
_NO_CALLS: OrderedDict[Call, None] = OrderedDict()

# Shared too: each `frozenset()` is an object of its own, of more than 200 bytes.
_NO_SESSIONS: frozenset[Session] = frozenset()


class CallQueue:
    """The calls of one extension. Methods run on the loop's thread, except those for threads."""

    __slots__ = (
        "__weakref__", "_choice", "_configured_max", "_holds", "_is_pumping", "_listeners",
        "_max_unless_held", "_single", "_will_handle_waiting", "bus", "complete_on_thread",
        "deadlines", "extension", "find_refusal", "is_forked", "is_pool", "is_released",
        "is_serial", "is_shared", "live_sessions", "loop", "make_closed_error", "max_in_flight",
        "may_complete_on_thread", "now", "on_busy", "on_failure", "on_needed", "on_session_ended",
        "outcomes", "read_ahead", "replaced_sessions", "retry_once", "sessions", "waiting", "wakes",
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
        """`is_shared`: calls are submitted from several threads. `is_serial`: a call with several
        requests must end before the next call. `is_pool`: there may be more than one process.
        `retry_once`: a call whose process died is sent once more."""
        self.extension = extension
        self.bus = bus
        self._listeners = bus.listeners  # empty most of the time, so this is the cheapest test
        self.loop = loop
        # asyncio's `loop.time` is time.monotonic; calling it directly is faster and thread-safe.
        is_monotonic = is_shared or isinstance(loop, asyncio.BaseEventLoop)
        self.now = time.monotonic if is_monotonic else loop.time
        self.retry_once = retry_once
        self.is_shared = is_shared
        self.is_serial = is_serial
        self.is_pool = is_pool
        self.max_in_flight = max_in_flight  # per process, in force now: 0 while calls are held
        self._configured_max = max_in_flight
        self._max_unless_held = max_in_flight  # the breaker lowers it to 1 for its probes
        self._holds = 0  # the number of sessions that hold calls back (`hold_calls`)
        self.sessions: list[Session] = []  # the sessions that accept calls
        # Without a pool: the session that gets all calls.
        self._single: Session | None = None
        self._choice: ProcessChoice | None = None
        self.read_ahead: ReadAheadTrial | None = None
        if is_pool:
            self._choice = ProcessChoice(self.sessions, self._report_busy, self.now)
            self.read_ahead = ReadAheadTrial(self, self._choice)
        # Every session, including those in their handshake and those that accept no more calls.
        self.live_sessions: list[Session] = []
        # The live sessions whose calls do not count for the breaker: a restart, or the breaker, has
        # replaced their processes.
        self.replaced_sessions = _NO_SESSIONS
        # Two threads must not create it at the same time, so a shared queue has it from the start.
        self.waiting: OrderedDict[Call, None] = OrderedDict() if is_shared else _NO_CALLS
        self.wakes = WakeBatch(loop)
        self.outcomes = CallOutcomes(extension, bus, self.now, self.wakes)
        if is_shared:  # only then does a caller's thread complete calls
            self.may_complete_on_thread = self.outcomes.may_complete_on_thread
            self.complete_on_thread = self.outcomes.complete_on_thread
        self._is_pumping = False
        self._will_handle_waiting = False  # the loop will call `_handle_waiting`
        self.deadlines = Deadlines(self)
        self.is_forked = False  # this process is a copy of the one that started the extension
        self.is_released = False  # no host or connection would end a further process
        # Makes the errors of calls while the queue is closed, because no process will come.
        self.make_closed_error: ErrorFactory | None = None
        # Returns why a call that has waited must not be sent to the process that is ready now; None
        # if it may be.
        self.find_refusal: Callable[[Call], ExthostError | None] | None = None
        # Called when a call waits and no process is ready.
        self.on_needed: Callable[[], None] | None = None
        # Called when every process of a pool is busy, on the loop's thread.
        self.on_busy: Callable[[], None] | None = None
        # Called with the error of a call that failed while its process lives.
        self.on_failure: Callable[[ExthostError], None] | None = None
        # Called when a session has ended, before its calls fail.
        self.on_session_ended: Callable[[Session], None] | None = None
        disown_after_fork(self)

    # -- accepting ---------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        """Send a call or let it wait. Raises if it cannot be encoded, or if the queue is closed."""
        if self._listeners and CallStarted in self._listeners:
            call.is_start_unpublished = True
        session = self._single
        if session is None or self.waiting or len(session.pending) >= self.max_in_flight:
            choice, session = self._choice, None
            if choice is not None and not self.waiting:  # waiting calls go first
                session = choice.choose(call.method, self.max_in_flight)
        if session is None:
            self._enqueue(call)
        else:
            session.send_call(call)
        if call.deadline < self.deadlines.next_at:
            self.deadlines.set(call.deadline)
        if self._listeners and call.is_start_unpublished:
            self.outcomes.publish_started(call)

    def submit_threadsafe(self, call: Call) -> None:
        """Like `submit`, but from any thread. The caller enforces the deadline itself."""
        if self._listeners and CallStarted in self._listeners:
            call.is_start_unpublished = True
        # A call of several requests goes through the loop's thread: between two requests nothing is
        # in flight, and another thread could mistake that for a free process.
        may_send_here = call.reply_handler.is_simple and not self.is_serial
        session = self._choose(call) if may_send_here else None
        if session is None:
            self._enqueue(call)
        else:
            session.send_call(call)
        if self._listeners and call.is_start_unpublished:
            self.loop.call_soon_threadsafe(self.outcomes.publish_started, call)

    def _choose(self, call: Call) -> Session | None:
        """Return the session of a process that has room for this call now, or None."""
        if self.waiting:  # waiting calls go first
            return None
        if self._choice is not None:
            return self._choice.choose(call.method, self.max_in_flight)
        session = self._single
        has_room = session is not None and len(session.pending) < self.max_in_flight
        return session if has_room else None

    def _report_busy(self) -> None:
        """Call `on_busy` on the loop's thread."""
        if self.on_busy is not None and self.is_shared:  # this may be another thread
            self.loop.call_soon_threadsafe(self.on_busy)
        elif self.on_busy is not None:
            self.on_busy()

    def _enqueue(self, call: Call) -> None:
        """Let a call wait, and have the loop's thread look at the waiting calls soon."""
        if self.make_closed_error is not None:
            raise self.make_closed_error(call.method)
        self._wait(call)
        self._handle_waiting_soon()

    def _handle_waiting_soon(self) -> None:
        if not self._will_handle_waiting:
            self._will_handle_waiting = True
            self.loop.call_soon_threadsafe(self._handle_waiting)

    def _wait(self, call: Call) -> None:
        if self.waiting is _NO_CALLS:
            self.waiting = OrderedDict()
        self.waiting[call] = None

    def _handle_waiting(self) -> None:
        """Send waiting calls, fail them if the queue was closed, or request a process. A call of
        another thread may be enqueued just after the last reply arrived or the queue was closed."""
        self._will_handle_waiting = False
        if self.sessions:
            self.pump()
        elif self.make_closed_error is not None:
            self.fail_waiting(self.make_closed_error)
        elif self.waiting and self.on_needed is not None:
            self.on_needed()

    def recover(self, session: Session | None) -> None:
        """Complete what an exception has interrupted in another thread, which was submitting a
        call: to this session, or to the calls that wait."""
        if session is not None:
            session.recover_writes()
        self._handle_waiting()

    @property
    def has_waiting(self) -> bool:
        return bool(self.waiting)

    def pump(self) -> None:
        """Send waiting calls while there is room."""
        if self._is_pumping:  # a call that fails while it is sent calls this again
            return
        self._is_pumping = True
        try:
            while self.waiting:
                call = next(iter(self.waiting))
                session = self._single
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

    def send_first_waiting(self, session: Session) -> None:
        """Send the call that has waited longest to this session, although it is busy."""
        call, _ = self.waiting.popitem(last=False)
        session.is_batched = False
        if not call.ended:
            self._start_waiting(session, call)

    def _start_waiting(self, session: Session, call: Call) -> None:
        if self.find_refusal is not None and (refusal := self.find_refusal(call)) is not None:
            self.fail(call, refusal)
            return
        if call.first_error is not None:
            call.was_resent = True
        try:
            session.send_call(call)
        except ExthostError as error:
            self.fail(call, error)

    def _wait_for_room(self) -> None:
        """Prepare for the time when a process has room for the next waiting call."""
        for session in self.sessions:
            # A stream may have paused reading (back-pressure); waiting calls need the replies.
            session.resume_reading()
        if self.read_ahead is not None and self.sessions:
            self._report_busy()
            if self.max_in_flight > 1:
                self.read_ahead.begin()

    # -- room --------------------------------------------------------------------------------

    def hold_calls(self) -> None:
        """Send no more calls for now. New calls wait, within their own time limits."""
        self._holds += 1
        self.max_in_flight = 0

    def release_calls(self) -> None:
        """Send calls again, unless another session still needs them held back."""
        self._holds -= 1
        self._update_room()

    def set_concurrency(self, calls: int | None) -> None:
        """Allow this many calls in flight per process; None allows as many as configured."""
        self._max_unless_held = self._configured_max if calls is None else calls
        self._update_room()

    def _update_room(self) -> None:
        if not self._holds:
            self.max_in_flight = self._max_unless_held
            if self.waiting:
                self.pump()

    # -- sessions come and go ----------------------------------------------------------------

    def session_began(self, session: Session) -> None:
        """Watch the deadlines of this session's calls, including its handshake."""
        self.live_sessions.append(session)

    def attach(self, session: Session) -> None:
        """Send calls through this session from now on, waiting calls first."""
        self.sessions.append(session)
        if self._choice is not None:
            self._choice.add(session)
        else:
            self._single = session
        self.make_closed_error = None
        self.pump()

    def stop_sending(self, session: Session) -> None:
        """Send no further call through this session."""
        if session in self.sessions:
            self.sessions.remove(session)
        if self._choice is not None:
            self._choice.remove(session)
        else:
            self._single = self.sessions[-1] if self.sessions else None

    def session_ended(self, session: Session, calls: list[Call]) -> None:
        """Fail the calls that this session leaves without a reply, or let them wait again."""
        self.stop_sending(session)
        self.live_sessions.remove(session)
        if self.on_session_ended is not None:  # first: callers must see the new state
            self.on_session_ended(session)
        self.replaced_sessions -= {session}
        for call in reversed(calls):  # reversed: a call that is sent again goes to the front
            call.session = None
            self._requeue_or_fail(call, session.closed_error(call.method))
        if self.waiting:
            # Not now: other processes that have ended at the same moment must not get the calls.
            self._handle_waiting_soon()

    def _requeue_or_fail(self, call: Call, error: ExthostError) -> None:
        """Let a call whose process died wait again if it may be sent twice; otherwise fail it."""
        if self.retry_once and self.make_closed_error is None and may_resend(call):
            call.first_error = error
            self._wait(call)
            self.waiting.move_to_end(call, last=False)
        else:
            self.fail(call, error)

    def close(self, make_error: ErrorFactory) -> None:
        """Fail all waiting calls, and later ones for as long as `make_closed_error` is set."""
        self._forget_sessions()
        self.make_closed_error = make_error
        self.fail_waiting(make_error)

    def _forget_sessions(self) -> None:
        self.sessions.clear()
        self._single = None
        if self._choice is not None:
            self._choice.clear()

    def fail_waiting(self, make_error: ErrorFactory) -> None:
        """Fail every call that waits."""
        while self.waiting:
            call, _ = self.waiting.popitem(last=False)  # the one that waits longest
            self.fail(call, make_error(call.method))

    # -- the ends of calls -------------------------------------------------------------------

    def complete(self, completions: Completions) -> None:
        """End these calls with the values of their replies, which arrived in one read."""
        if self._choice is not None and self.sessions:
            first, last = completions[0][0], completions[-1][0]
            self._choice.record_replies(first, last, len(completions), self.now())
        replaced = self.replaced_sessions
        is_replaced = bool(replaced) and completions[0][0].session in replaced
        self.outcomes.complete(completions, is_replaced=is_replaced)
        if self.waiting:
            self.pump()

    def fail(self, call: Call, error: ExthostError) -> None:
        """End a call with an error."""
        if call.session is not None:
            self._record_end(call.session)
        if call.ended:
            return
        call.ended = True
        self._report_failure(call, error)
        self._reject(call, error)

    def _report_failure(self, call: Call, error: ExthostError) -> None:
        """Report an error to the breaker before the caller gets it, so that the caller's next call
        meets the new state. If the error ended the session, the end of the session is counted."""
        session = call.session
        if session is None or session.cause is not None or call.internal:
            return
        if session in self.replaced_sessions:
            return
        if self.on_failure is not None:
            session.diagnostics.hide_in_error(error)  # it may become the cause of a state
            self.on_failure(error)

    def _reject(self, call: Call, error: ExthostError) -> None:
        self.outcomes.reject(call, final_error(self.extension, call, error))
        if self.waiting:
            self.pump()

    def cancel(self, call: Call, reason: str = "cancelled by the caller") -> None:
        """End a call whose caller is no longer interested. The caller gets no error."""
        if call.ended:
            return
        call.ended = True
        self.waiting.pop(call, None)
        if call.session is not None:
            call.session.abandon(call, reason)
            self._record_end(call.session)
        self.outcomes.record_unsuccessful(call, "cancelled")
        if self.waiting:
            self.pump()

    def expire(self, call: Call) -> None:
        """End a call whose deadline has passed."""
        session = call.session
        if call.ended:
            if session is not None:  # a stream whose consumer left before the reply arrived
                session.abandon(call, "no reply arrived")
                self._record_end_and_pump(session)
            return
        handler = call.reply_handler
        if isinstance(handler, GeneratorHandler) and handler.is_optional and session is not None:
            session.continue_without_reply(call)
            return
        error = timeout_error(self.extension, call, has_process=bool(self.sessions))
        self.waiting.pop(call, None)
        call.ended = True
        if session is not None:
            # First, because the next call may be sent as soon as this one has ended.
            session.abandon(call, f"timed out after {call.timeout:g} s")
            self._record_end(session)
            self._report_failure(call, error)
        self._reject(call, error)

    def acknowledged(self, call: Call) -> None:
        """Watch the new deadline of an accepted stream, which does not count as in flight."""
        self.watch_deadline(call)
        self._record_end_and_pump(call.session)

    def _record_end_and_pump(self, session: Session) -> None:
        self._record_end(session)
        if self.waiting:
            self.pump()

    def _record_end(self, session: Session) -> None:
        if self._choice is not None:
            self._choice.record_end(session)

    def watch_deadline(self, call: Call) -> None:
        """Set the timer for a deadline that was set or moved."""
        if call.deadline < self.deadlines.next_at:
            self.deadlines.set(call.deadline)

    def open_calls(self) -> list[Call]:
        calls = [*self.waiting]
        for session in self.live_sessions:
            calls += session.conversation.calls()
        return calls

    def disown(self) -> None:
        """Close this copy of the queue in a forked process: the parent gets the replies."""
        self.is_forked = True
        self._forget_sessions()
        self.waiting = _NO_CALLS
        self.make_closed_error = lambda _: used_after_fork_error()


def may_resend(call: Call) -> bool:
    """Return whether a call whose process died may be sent to another process.

    The call may be sent again if it was sent only once, consists of a single request, and no part
    of its reply has come. An operation of several requests may already have changed something.
    """
    handler = call.reply_handler
    stream = handler.stream
    has_no_reply = stream is None or not (stream.delivered or stream.acknowledged)
    is_single_request = not isinstance(handler, GeneratorHandler)
    return has_no_reply and is_single_request and call.first_error is None and not call.ended


def final_error(extension: str, call: Call, error: ExthostError) -> ExthostError:
    """Return the error that the caller gets. It has the evidence (command line, exit status, last
    stderr lines) of the process, and the message of the first error if the call lost a process."""
    error.extension = error.extension or extension
    if call.session is not None:
        error = call.session.diagnostics.with_evidence(error)
        if isinstance(error, CallFailed):
            call.session.diagnostics.add_advice(error)
    if call.first_error is not None and not isinstance(error, CallFailed):
        combine = failed_twice_error if call.was_resent else not_resent_error
        error = combine(call.first_error, error)
    return error
