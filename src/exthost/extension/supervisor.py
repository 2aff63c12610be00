"""What becomes of an extension's processes: every decision of its owner, and none of its waiting.

Synchronous throughout. The owner (above) calls `heed` whenever something may have happened; it
looks at everything once, decides by three pure tables (the life cycle, the restart policy, the
breaker), and starts and dismisses processes through its `Crew`. What others want of it are
`Wishes`. `next_due` tells when to look again if nobody rings.

**A fresh process beside the old.** Asked again while it is ready, it starts a process beside those
that serve. If that one gets ready it takes their place in one step, and they end when what they
were asked is answered; if it does not, they go on and whoever asked is told. No call is lost
either way, and the extension is `ready` all the time.
"""

import asyncio
import logging
import math
import random
from collections.abc import Callable

from exthost.errors import ExthostError, HandshakeFailed, Refused, SpawnFailed
from exthost.events import Bus
from exthost.extension.breaker_gate import Guard
from exthost.extension.commands import Wishes
from exthost.extension.idle import Idling
from exthost.extension.lifecycle import Event, State, rests
from exthost.extension.policy import breaker_of, pool_of, restart_of
from exthost.extension.processes import Crew, Member
from exthost.extension.restart import Again, GiveUp, History, OnDemand, decide, event_of
from exthost.extension.startup import Start, Starter
from exthost.extension.status import Standing

from exthost.session.failures import copy_error
from exthost.extension.call_queue import CallQueue

from exthost.session.session import Session


_log = logging.getLogger("exthost.extension")

# Nothing a restart could mend: the program, the pin or the dialect itself is wrong.
_PERMANENT = frozenset({"X0401", "X0402", "X0403", "X0404", "X0506", "X0560"})


class Keeper(Standing):
    """Decides what becomes of the processes of one extension."""

    __slots__ = (
        "_due",
        "_grow_at",
        "_last_id",
        "_pool",
        "_restart",
        "_wake",
        "_wants_more",
        "_wishes",
        "ailment",
        "crew",
        "guard",
        "handshake_seconds",
        "history",
        "idling",
        "ready_at",
    )

    def __init__(
        self,
        starter: Starter,
        queue: CallQueue,
        bus: Bus,
        *,
        on_change: Callable[[], None] | None = None,
        objection: Callable[[], Refused | None] | None = None,
    ) -> None:
        super().__init__(starter, queue, bus, on_change=on_change, objection=objection)
        spec, dialect = starter.spec, starter.dialect
        self.history = History()
        self.ready_at: float | None = None
        self.ailment = ""  # what the process that serves said of its own health, if it is not well
        self.handshake_seconds = 0.0
        self._restart = restart_of(spec, dialect)
        self._pool = pool_of(spec)
        self._wake = asyncio.Event()
        self._wishes = Wishes(self._loop)
        self._due = math.inf  # when backoff is over
        self._grow_at = 0.0  # no further process of a pool before this
        self._wants_more = False
        self._last_id = dialect.traits.first_id
        self.crew = Crew(starter, queue, self._wake.set)
        self.guard = Guard(breaker_of(spec, dialect), queue, self._wake.set)
        self.idling = Idling(starter.limits.idle, queue)
        if queue.is_pool:
            queue.on_busy = self._more

    @property
    def session(self) -> Session | None:
        """The session that serves, or the one that is to."""
        return next(iter(self.crew.sessions), None)

    def _is_settled(self) -> bool:
        wishes = self._wishes
        at_rest = self.state in (State.READY, State.ADMITTED, State.OPEN) or rests(self.state)
        return at_rest and not (wishes.start or wishes.again or self._is_replacing)

    @property
    def _is_replacing(self) -> bool:
        return any(start.replaces for start in self.crew.starts)

    def heed(self) -> None:
        """Look at everything that may have happened, and do what follows."""
        for start in self.crew.started():
            self._heed_start(start)
        while self.crew.fallen:
            self._heed_end(self.crew.fallen.pop(0))
        if self.guard.is_open and self.state in (State.READY, State.STARTING):
            self._open()
        if self._wishes.again:
            self._begin_again()
        elif self._wishes.start:
            self._begin()
        now = self._loop.time()
        if now >= self._due:
            self._due = math.inf
            self._go(Event.RETRY_DUE)
            self._launch()  # one for one retry; a pool grows again as it is used
        if self.guard.may_probe():
            self._let_probe()
        if self.state is State.READY:
            self._fit_pool(now)

    def next_due(self) -> float:
        when = self._due
        if self.guard.is_open and self._queue.closed is not None:
            when = min(when, self.guard.circuit.until)
        if self.state is State.READY:
            when = min(when, self.idling.next_look())
            if self._wants_more and not self.crew.starts:
                when = min(when, self._grow_at)
        return when

    # -- starting ----------------------------------------------------------------------------

    def _begin(self) -> None:
        """The first start, or the next one on demand, or a probe."""
        self._wishes.start = False
        if self.guard.may_probe():
            self._let_probe()
            self.guard.probe()
            self._go(Event.PROBE)
            self._start()
            return
        if self.state not in (State.DISCOVERED, State.ADMITTED):
            return  # given up, or ready, since somebody wanted it
        self._queue.closed = None
        self.admit()
        if not self._is_refused():
            self._go(Event.START)
            self._start()

    def _begin_again(self) -> None:
        """A fresh one was asked for."""
        self._wishes.again = False
        self.crew.give_up_starts()
        self.history = self.history.asked_again()
        self._grow_at = 0.0
        if self.state is State.READY:
            self._launch(replaces=True)
            return
        self._queue.closed = None
        self._due = math.inf
        self.guard.reset()
        if self.state is State.REFUSED:
            self._go(Event.ASKED_AGAIN)  # the gate judges anew
        self.admit()
        if self._is_refused():
            return
        if self.state is not State.STARTING:
            self._go(Event.ASKED_AGAIN)
        self._start()

    def _is_refused(self) -> bool:
        return self.state is State.REFUSED

    def _start(self) -> None:
        """As many processes as there are always to be, and one at least."""
        least = 1 if self.guard.is_half_open else max(1, self._pool.least)
        for _ in range(least):
            self._launch()

    def _launch(self, *, replaces: bool = False) -> None:
        self.history = self.history.started(self._loop.time())
        continues = self.dialect.traits.ids_continue
        self.crew.start(self._next_id() if continues else None, replaces=replaces)

    def _next_id(self) -> int:
        return max([self._last_id, *(one.next_id for one in self._queue.live_sessions)])

    def _heed_start(self, start: Start) -> None:
        try:
            session = start.result()
        except ExthostError as error:
            self._heed_failed_start(start, error)
        else:
            self._enlist(start, session)

    def _enlist(self, start: Start, session: Session) -> None:
        now = self._loop.time()
        old = list(self.crew.serving) if start.replaces else []
        if self.dialect.traits.ids_continue:
            session.next_id = self._next_id()
        self.crew.enlist(start, now, self._answered())
        self.ready_at = now
        self.history = self.history.ready(now)
        self.cause, self.ailment = None, ""
        self.handshake_seconds = start.seconds
        self._offered(start.offer)
        start.relisting.begin()
        if self.state is State.STARTING:
            self._go(Event.SHOOK_HANDS)
        if start.replaces:
            self.guard.reset()
        for one in old:  # in this very step: the next call finds the fresh one
            self.crew.dismiss(one)
        self.idling.begin(now, self.crew.serving)
        if session.is_open:
            self._queue.attach(session)
        if start.replaces:
            for _ in range(self._pool.least - len(self.crew.serving)):
                self._launch()

    def _heed_failed_start(self, start: Start, error: ExthostError) -> None:
        self.history = self.history.ended(self._restart, self._loop.time())
        if start.session is not None:  # its handshake used up numbers, too
            self._last_id = max(self._last_id, start.session.next_id)
        if self.crew.serving:
            if start.replaces:
                _log.warning("[%s] the old process goes on: %s", self.spec.id, error.message)
                self.history = self.history.asked_again()
                if not self._wishes.again:
                    self._wishes.tell_again(_kept(error))
            else:
                self._heed_loss(error)
        elif not self.crew.starts:  # the last hope
            self._follow(error)

    def _heed_end(self, member: Member) -> None:
        """A process that served ended by itself."""
        session = member.session
        self._last_id = max(self._last_id, session.next_id)
        served = self._answered() > member.answered and member.ended_some
        self.history = self.history.of(member.ready_at, has_served=served)
        by_us = session.retired
        self.history = self.history.ended(self._restart, self._loop.time(), by_us=by_us)
        ended = session.closed_error("")
        if not by_us and (session.lost_calls or self.guard.is_half_open):
            self.guard.crashed(ended)
        if self.crew.serving:
            self._heed_loss(ended)
            return
        self.ready_at = None
        if self.state is not State.READY:
            return  # the breaker opened meanwhile, and its probe brings a fresh one
        if self.crew.starts and not self.guard.is_open:  # the next is on its way already
            self.cause = ended
            if self._is_replacing:  # asked for by somebody: what came before is forgotten
                self.history = self.history.asked_again().started(self._loop.time())
            self._go(Event.WILL_RETRY, ended.message)
            self._go(Event.ASKED_AGAIN)
            return
        self._follow(ended)

    def _heed_loss(self, ended: ExthostError) -> None:
        """One of several is gone, and the extension still serves."""
        decision, self.history = self._decide(ended)
        match decision:
            case Again(delay):
                self._grow_at = self._loop.time() + delay
                self._wants_more = True
            case GiveUp(reason):
                self._grow_at = math.inf
                _log.warning("[%s] it goes on with fewer processes: %s", self.spec.id, reason)
            case OnDemand():
                pass

    def _decide(self, ended: ExthostError) -> tuple[Again | OnDemand | GiveUp, History]:
        return decide(
            self._restart,
            self.history,
            now=self._loop.time(),
            jitter=random.random(),
            permanent=isinstance(ended, SpawnFailed | HandshakeFailed) and ended.code in _PERMANENT,
        )

    def _follow(self, ended: ExthostError) -> None:
        """The last process ended by itself, or did not come up: let the policy decide."""
        self.cause = ended
        failed_start = self.state is State.STARTING
        if isinstance(ended, Refused):
            self._give_up(Event.REFUSE, ended)
            return
        if failed_start and self.guard.is_half_open:
            self._queue.fail_waiting(lambda method: copy_error(ended))
            self.guard.crashed(ended)
        if self.guard.is_open:
            self._open()
            return
        decision, self.history = self._decide(ended)
        match decision:
            case GiveUp(reason):
                self._give_up(Event.GAVE_UP, ended, reason)
            case OnDemand():
                if failed_start:  # whoever waited caused this start, and is told what it came to
                    self._queue.fail_waiting(lambda method: copy_error(ended))
                self._go(event_of(decision), ended.message)
                if self._queue.waiting:
                    self._go(Event.START)
                    self._start()
            case Again(delay):
                self._go(event_of(decision), ended.message)
                self._due = self._loop.time() + delay

    # -- the breaker -------------------------------------------------------------------------

    def _open(self) -> None:
        """Too many failures: send calls away, and let those end that are under way."""
        self.cause = self.guard.last
        self.ready_at = None
        self._go(Event.BREAKER_OPENED, self.cause.message if self.cause is not None else "")
        self.guard.shut()
        self.crew.give_up_starts()
        for member in list(self.crew.serving):
            self.crew.dismiss(member)

    def _let_probe(self) -> None:
        """Its time is over: the next call brings a fresh process, and waits for it."""
        self._queue.closed = None

    # -- pool and idleness ---------------------------------------------------------------------

    def _more(self) -> None:
        """Every process of the pool is busy."""
        if len(self.crew.serving) + len(self.crew.starts) < self._pool.most:
            self._wants_more = True
            self._wake.set()

    def _fit_pool(self, now: float) -> None:
        """Have as many processes as are needed, and no idle ones."""
        crew, pool = self.crew, self._pool
        there = len(crew.serving) + len(crew.starts)
        is_idle = self.idling.is_over(now, crew.serving)
        if self._wants_more and now >= self._grow_at and not crew.starts:
            self._wants_more = False
            if there < pool.most and not self.guard.is_half_open:
                self._launch()
                return
        if crew.starts or not is_idle:
            return
        for member in crew.serving[pool.kept :]:
            self.crew.dismiss(member)
        if not crew.serving:
            self.ready_at = None
            self._last_id = self._next_id()
            self.history = self.history.ended(self._restart, now, by_us=True)
            self._go(Event.REST, f"it was idle for {self.starter.limits.idle:g} s")
            if self._queue.waiting:
                self._wishes.start = True
                self._wake.set()

    # -- small things ------------------------------------------------------------------------

    def _answered(self) -> int:
        """How many calls it answered, yes or no; a bad answer is none."""
        return self._queue.accounting.results + self._queue.accounting.refusals


def _kept(cause: ExthostError) -> ExthostError:
    """Why a fresh process is not there, for whoever asked for it."""
    error = copy_error(cause)
    error.help = f"the old process goes on as before; {cause.help}".rstrip("; ")
    return error
