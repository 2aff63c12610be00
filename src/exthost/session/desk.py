"""Where the calls of one extension are taken in, wait for their turn, and are seen out.

A desk outlives sessions: it keeps what belongs to the extension and not to one process. A call
goes straight to the session if that is open and has room; otherwise it waits here, within its own
timeout, for room or for a session to come. Waiting costs no task and no hop: the caller awaits
the same future either way.

It also owns the one alarm. There is no queue of deadlines: the tables of open calls are looked
through when the earliest deadline comes, which is once per time limit and not once per call. A
call costs one comparison, and extending its deadline one store.

Each call ends in exactly one of result, error, timeout, cancelled, gone: `results` counts the
first, `losses` the others.
"""

import asyncio
import math
import os
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from exthost.errors import CallFailed, CallTimeout, ExthostError
from exthost.events import Bus, CallEnded, CallStarted
from exthost.session.alarm import Alarm, alarm
from exthost.session.awaited import Wakes
from exthost.session.causes import forked, told_twice
from exthost.session.exchanges import unanswered
from exthost.session.state import Call, StreamQueue
from exthost.session.witness import STRAY

if TYPE_CHECKING:
    from exthost.session.session import Session


# Deadlines that lie closer together than this are looked after together.
_TICK_SECONDS = 0.005

# A loop's clock may be so coarse, and its timers so early.
_CLOCK_SECONDS = 0.001


_desks: "weakref.WeakSet[Desk]" = weakref.WeakSet()


class Desk:
    """The calls of one extension."""

    __slots__ = (
        "__weakref__",
        "_alarm",
        "_holds",
        "_pumping",
        "_room",
        "_widest",
        "alarm_at",
        "bus",
        "closed",
        "copied",
        "extension",
        "in_turn",
        "listeners",
        "live",
        "loop",
        "losses",
        "max_in_flight",
        "now",
        "on_answer",
        "on_need",
        "on_trouble",
        "refusals",
        "results",
        "retry_once",
        "session",
        "shared",
        "special",
        "waiting",
        "wakes",
    )

    def __init__(
        self,
        extension: str,
        *,
        max_in_flight: int,
        retry_once: bool = False,
        shared: bool = False,
        special: bool = False,
        in_turn: bool = False,
        bus: Bus,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.extension = extension
        self.max_in_flight = self._room = self._widest = max_in_flight
        self._holds = 0  # how many sessions keep calls back, see `holding`
        self.retry_once = retry_once
        self.special = special  # a call may be more than one request and its reply, or not ours
        self.in_turn = in_turn  # one call at a time, all of its exchanges
        self.shared = shared  # other threads call, too: the blocking face
        self.bus = bus
        self.listeners = bus.kinds  # empty most of the time: the cheapest question there is
        self.loop = loop
        # asyncio's own loops tell time through a Python method around this very function.
        self.now = time.monotonic if isinstance(loop, asyncio.BaseEventLoop) else loop.time
        self.session: Session | None = None
        self.waiting: OrderedDict[Call, None] = OrderedDict()
        self.wakes = Wakes(loop)
        self.results = 0
        self.losses: Counter[str] = Counter()
        self.refusals = 0  # of the errors, those that the extension itself answered with
        # Set while nobody is coming: says why, for each call that asks.
        self.closed: Callable[[str], ExthostError] | None = None
        # Told when a call waits and there is no session: the owner may start one.
        self.on_need: Callable[[], None] | None = None
        # Told what a call of a living process failed with, and, only while the breaker lets probes
        # through, of each answer: who counts failures in a row sees the others by `results`.
        self.on_trouble: Callable[[ExthostError], None] | None = None
        self.on_answer: Callable[[], None] | None = None
        self.live: list[Session] = []  # every session that may have calls, shaking hands or open
        self._pumping = False
        self._alarm: Alarm | None = None
        self.alarm_at = math.inf  # when the timer fires; never, if there is none
        self.copied = False  # this is a copy of the process that started the extension
        _desks.add(self)

    def disown(self) -> None:
        """In a copy of our process: its calls would be answered to the original."""
        self.copied = True
        self.session = None
        self.waiting = OrderedDict()
        self.closed = lambda _: forked()

    # -- taking in ---------------------------------------------------------------------------

    def take(self, call: Call) -> None:
        """Send a call, let it wait, or raise because nobody will ever serve it; and see to it that
        it ends by its deadline. Loop's thread only."""
        session = self.session
        if session is None or self.waiting or len(session.pending) >= self.max_in_flight:
            self._let_wait(call)
        else:
            session.launch(call)
        if call.deadline < self.alarm_at:
            self._arm(call.deadline)
        if self.listeners:
            self._tell_start(call)

    def submit(self, call: Call) -> None:
        """The same from any thread, whose caller sees to the deadline itself."""
        session = self.session
        # Between two exchanges of a call nothing is pending. Only the loop's thread cannot look
        # in that very moment, so where calls go in turn it is the one to send them.
        if (
            session is None
            or self.in_turn
            or self.waiting
            or len(session.pending) >= self.max_in_flight
        ):
            self._let_wait(call)
        else:
            session.launch(call)
        if self.listeners:
            self.loop.call_soon_threadsafe(self._tell_start, call)

    def watch(self, call: Call) -> None:
        """See to the deadline of a call that was sent past the desk. Loop's thread only."""
        if call.deadline < self.alarm_at:
            self._arm(call.deadline)

    def _tell_start(self, call: Call) -> None:
        if CallStarted in self.listeners:
            self.bus.publish(CallStarted(self.extension, call.method, call.context))

    def _let_wait(self, call: Call) -> None:
        if self.closed is not None:
            raise self.closed(call.method)
        self.waiting[call] = None
        self.loop.call_soon_threadsafe(self._look_again)

    def _look_again(self) -> None:
        """See to those who wait. From another thread the last reply may have been seen out, or
        the desk closed, in the moment in which a call was let in."""
        if self.closed is not None:
            self.fail_waiting(self.closed)
        elif self.session is not None:
            self.pump()
        elif self.waiting and self.on_need is not None:
            self.on_need()

    def pump(self) -> None:
        """Send those who wait, as far as there is room."""
        if self._pumping:  # one that ends in its own launch comes back here: the loop sees to it
            return
        self._pumping = True
        try:
            while self.waiting and (session := self.session) is not None:
                if len(session.pending) >= self.max_in_flight:
                    session.hurry()
                    return
                self._send_next(session)
        finally:
            self._pumping = False

    def _send_next(self, session: "Session") -> None:
        call, _ = self.waiting.popitem(last=False)
        if call.ended:
            return
        try:
            session.launch(call)
        except ExthostError as error:
            self.fail(call, error)

    def hold(self) -> None:
        """Send no further call for now; those that come wait, within their own time."""
        self._holds += 1
        self.max_in_flight = 0

    def release(self) -> None:
        """Go on, unless somebody else still holds."""
        self._holds -= 1
        self._open_door()

    def narrow(self, room: int | None) -> None:
        """Send so many calls at a time for now; None: as many as ever."""
        self._room = self._widest if room is None else room
        self._open_door()

    def _open_door(self) -> None:
        if not self._holds:
            self.max_in_flight = self._room
            if self.waiting:
                self.pump()

    # -- sessions come and go ----------------------------------------------------------------

    def attach(self, session: "Session") -> None:
        """A session is ready to be asked."""
        self.session = session
        self.closed = None
        self.pump()

    def detach(self, session: "Session") -> None:
        """That session takes no more calls."""
        if self.session is session:
            self.session = None

    def close(self, why: Callable[[str], ExthostError]) -> None:
        """Nobody will come: those who wait are told, and so is everyone who asks from now on."""
        self.session = None
        self.closed = why
        self.fail_waiting(why)

    def fail_waiting(self, why: Callable[[str], ExthostError]) -> None:
        """What those wait for did not come."""
        while self.waiting:
            call, _ = self.waiting.popitem(last=False)
            self.fail(call, why(call.method))

    def still_waits(self, stream: StreamQueue) -> bool:
        """Whether the call of this stream will be sent again."""
        return any(call.stream is stream for call in self.waiting)

    def give_back(self, call: Call, error: ExthostError) -> None:
        """A call's session died under it: it waits again if it may be sent twice, else it fails."""
        untouched = call.stream is None or not call.stream.delivered
        plain = call.steps is None
        if self.retry_once and plain and untouched and not (call.retried or call.ended):
            call.retried = True
            call.first = error
            self.waiting[call] = None
            self.waiting.move_to_end(call, last=False)
        else:
            self.fail(call, error)

    # -- seeing out --------------------------------------------------------------------------

    def settle(self, call: Call, result: Any) -> None:
        """It was answered."""
        if call.ended:
            return
        call.ended = True
        call.deliver(result)
        if call.aside or self.listeners or self.on_answer is not None:
            self._seen_out(call, "result")
        else:
            self.results += 1
            if self.waiting:
                self.pump()

    def fail(self, call: Call, error: ExthostError) -> None:
        """It will not be answered well."""
        if call.ended:
            return
        call.ended = True
        if self.on_trouble is not None and call.session is not None and not call.aside:
            self._tell_trouble(call.session, error)
        self._lose(call, error)

    def _tell_trouble(self, session: "Session", error: ExthostError) -> None:
        """Before its caller hears of it: the next call must find what follows. What ended the
        session as well is counted with the session."""
        if self.on_trouble is not None and session.cause is None:
            self.on_trouble(error)

    def _lose(self, call: Call, error: ExthostError) -> None:
        error.extension = error.extension or self.extension
        if call.first is not None and not isinstance(error, CallFailed):
            error = told_twice(call.first, error)
        if isinstance(error, CallFailed) and not call.aside:
            self.refusals += 1
        call.spoil(error)
        self._seen_out(call, _OUTCOMES.get(type(error).__name__, "error"))

    def cancel(self, call: Call, why: str = "cancelled by the caller") -> None:
        """The caller is no longer interested, and told by nobody but itself."""
        if call.ended:
            return
        call.ended = True
        self.waiting.pop(call, None)
        if call.session is not None:
            call.session.abandon(call, why)
        self._seen_out(call, "cancelled")

    def _seen_out(self, call: Call, outcome: str) -> None:
        if not call.aside:
            if outcome == "result":
                self.results += 1
                if self.on_answer is not None:
                    self.on_answer()
            else:
                self.losses[outcome] += 1
        if CallEnded in self.listeners and not call.aside:
            seconds = self.now() - call.began
            self.bus.publish(CallEnded(self.extension, call.method, outcome, seconds, call.context))
        if self.waiting:
            self.pump()

    # -- time --------------------------------------------------------------------------------

    def _arm(self, when: float) -> None:
        if self._alarm is None:
            self._alarm = alarm(self.loop, self._tick)
        self.alarm_at = when
        self._alarm.set(when)

    def _tick(self) -> None:
        self.alarm_at = math.inf
        now = self.now()
        under_way = [call for session in self.live for call in list(session.state.pending.values())]
        calls = [*self.waiting, *under_way]
        due = [call for call in calls if call.deadline <= now + _CLOCK_SECONDS]
        for call in sorted(due, key=lambda call: call.deadline):
            self.expire(call)
        upcoming = min((call.deadline for call in calls if not call.ended), default=None)
        if upcoming is not None and upcoming < self.alarm_at:
            self._arm(max(upcoming, now + _TICK_SECONDS))

    def expire(self, call: Call) -> None:
        """Its time is up."""
        if call.ended:
            return
        session = call.session
        if call.tentative and session is not None:
            unanswered(session, call)
            return
        misread = call.misread[1] if call.misread and call.misread[0] == call.id else None
        if misread is not None:
            state = f"what it answered is no message ({misread.why})"
        elif session is not None:
            state = "no answer came"
        elif self.session is not None:
            state = "it was still waiting for its turn"
        else:
            state = "the extension was not ready"
        self.waiting.pop(call, None)
        error = CallTimeout(
            "X0801",
            f"{call.method} took longer than {call.timeout + call.extended:g} s: {state}",
            extension=self.extension,
            help="give the call a longer timeout, or look at what the extension is doing",
        )
        call.ended = True
        if session is not None:
            evidence = session.witness.evidence
            error.evidence = evidence() if misread is None else evidence(misread.data)
            if misread is not None:
                error.help = "the extension has to answer with a message of its dialect"
            elif stray := session.witness.counts.get(STRAY, 0):
                error.help = f"its answer may be among the {stray} {STRAY}: the log has them"
            # First, for its place is the next one's as soon as this call is seen out.
            session.abandon(call, f"timed out after {call.timeout:g} s")
            if not call.aside:
                self._tell_trouble(session, error)
        self._lose(call, error)

    def stop_clock(self) -> None:
        """Let go of the timer; for the end of an extension's life."""
        if self._alarm is not None:
            self._alarm.clear()
            self._alarm = None
        self.alarm_at = math.inf


_OUTCOMES = {
    "CallTimeout": "timeout",
    "Cancelled": "cancelled",
    "ExtensionGone": "gone",
    "BreakerOpen": "gone",  # it waited for a process, and none is coming
}


def _disown_all() -> None:
    for desk in tuple(_desks):
        desk.disown()


os.register_at_fork(after_in_child=_disown_all)
