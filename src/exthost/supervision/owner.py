"""The one task that owns an extension for its life: starts it, starts it again, ends it.

Never touches a call: calls go to the desk, and the desk to a session. What the owner decides it
decides by three pure tables, the life-cycle, the restart policy and the breaker; its processes are
a `Crew`, and what others want of it are `Wishes`. It sleeps until it is rung: by a wish, a start or
a process that came to an end, the breaker, or the one timer that it sets for itself. Then it looks
at everything once (`_heed`), without waiting for anything, and sleeps again.

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

from exthost.dialects.dialect import Dialect
from exthost.errors import ExtensionGone, ExthostError, HandshakeFailed, Refused, SpawnFailed
from exthost.events import Bus, OfferChanged, StateChanged
from exthost.model import Offer, Spec
from exthost.session.bell import Bell
from exthost.session.causes import copy_of
from exthost.session.desk import Desk
from exthost.session.pooldesk import PoolDesk
from exthost.session.session import Session
from exthost.session.state import Phase
from exthost.supervision.crew import DOORS_SECONDS, Crew, Member
from exthost.supervision.guard import Guard
from exthost.supervision.idling import Idling
from exthost.supervision.launching import admit, breaker_of, pool_of, restart_of
from exthost.supervision.lifecycle import Event, State, rests, step
from exthost.supervision.restart import Again, GiveUp, History, OnDemand, decide, event_of
from exthost.supervision.starting import Start, Starter
from exthost.supervision.wishes import Wishes

_log = logging.getLogger("exthost.supervision")

# Nothing a restart could mend: the program, the pin or the dialect itself is wrong.
_PERMANENT = frozenset({"X0401", "X0402", "X0403", "X0404", "X0506"})

# How often it is looked whether calls under way have ended, when it is stopped with patience.
_LOOK_SECONDS = 0.02


class Owner:
    """Keeps one extension in the wanted state."""

    __slots__ = (
        "_bus",
        "_desk",
        "_due",
        "_grow_at",
        "_last_id",
        "_loop",
        "_objection",
        "_on_change",
        "_pool",
        "_restart",
        "_task",
        "_wake",
        "_wants_more",
        "_wishes",
        "ailment",
        "cause",
        "crew",
        "dialect",
        "guard",
        "handshake_seconds",
        "has_told",
        "history",
        "idling",
        "offer",
        "ready_at",
        "spec",
        "starter",
        "state",
        "tools",
    )

    def __init__(
        self,
        starter: Starter,
        desk: Desk,
        bus: Bus,
        *,
        on_change: Callable[[], None] | None = None,
        objection: Callable[[], Refused | None] | None = None,
    ) -> None:
        spec, dialect = starter.spec, starter.dialect
        self.spec: Spec = spec
        self.dialect: Dialect = dialect
        self.starter = starter
        self.state = State.DISCOVERED
        self.history = History()
        self.offer = Offer(tools=spec.tools, version=spec.version)
        self.tools = {tool.name: tool for tool in spec.tools}
        self.cause: ExthostError | None = None
        self.ready_at: float | None = None
        self.ailment = ""  # what the process that serves said of its own health, if it is not well
        # Whether `tools` is what it really offers, and not what a manifest says of it.
        self.has_told = dialect.traits.tools == "manifest"
        self.handshake_seconds = 0.0
        self._desk = desk
        self._bus = bus
        self._on_change = on_change
        self._objection = objection
        self._restart = restart_of(spec, dialect)
        self._pool = pool_of(spec)
        self._loop = desk.loop
        self._task: asyncio.Task[None] | None = None
        self._wake = Bell(self._loop)
        self._wishes = Wishes(self._loop)
        self._due = math.inf  # when backoff is over
        self._grow_at = 0.0  # no further process of a pool before this
        self._wants_more = False
        self._last_id = dialect.traits.first_id
        self.crew = Crew(starter, desk, self._wake.set)
        self.guard = Guard(breaker_of(spec, dialect), desk, self._wake.set)
        self.idling = Idling(starter.limits.idle, desk)
        desk.on_need = self.need
        if isinstance(desk, PoolDesk):
            desk.on_busy = self._more

    @property
    def session(self) -> Session | None:
        """The session that serves, or the one that is to."""
        return next(iter(self.crew.sessions), None)

    # -- wishes ------------------------------------------------------------------------------

    def need(self) -> None:
        """Somebody wants to call it: start it, unless it runs or was given up."""
        waits = self.state in (State.DISCOVERED, State.ADMITTED)
        probes = self.state is State.OPEN and self.guard.may_probe()
        if not self._wishes.stop and (waits or probes):
            self._wishes.start = True
            self._awaken()

    def need_probe(self) -> None:
        """Somebody who would not wait came while its breaker is open: if its time is over, the next
        one finds it ready."""
        if self.state is State.OPEN:
            self.need()

    def ask_again(self) -> "asyncio.Future[ExthostError | None]":
        """A person or the API wants it fresh: running or not, failed or not. Done when it is; with
        an error if the fresh one is no good and the old one goes on."""
        future = self._wishes.ask_again()
        self._awaken()
        return future

    def admit(self) -> None:
        """Pass the gate, or be refused; nothing is started."""
        if self.state is not State.DISCOVERED:
            return
        try:
            objection = self._objection() if self._objection is not None else None
            if objection is not None:
                raise objection
            admit(self.spec, self.starter.environ())
        except Refused as refused:
            _log.warning("[%s] not started: %s", self.spec.id, refused.message)
            self._give_up(Event.REFUSE, refused)
        else:
            self._go(Event.ADMIT)

    async def settle(self) -> None:
        """Wait until it is ready, or rests: stopped, refused or failed."""
        if not self._is_settled():
            await self._wishes.settled()

    async def stop(self, patience: float = 0.0) -> None:
        """End it, as its dialect has it. Returns when nothing of it is left. Calls under way have
        so many seconds to end before."""
        self._wishes.ask_to_stop(patience)
        if self._task is None:
            self._rest_for_good()
            return
        stopped = self._wishes.stopped()
        self._wake.set()
        await stopped

    def _more(self) -> None:
        """Every process of the pool is busy."""
        if len(self.crew.serving) + len(self.crew.starts) < self._pool.most:
            self._wants_more = True
            self._wake.set()

    def _awaken(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._own(), name=f"owner of {self.spec.id}")
        self._wake.set()

    def _is_settled(self) -> bool:
        wishes = self._wishes
        at_rest = self.state in (State.READY, State.ADMITTED, State.OPEN) or rests(self.state)
        return at_rest and not (wishes.start or wishes.again or self._is_replacing)

    @property
    def _is_replacing(self) -> bool:
        return any(start.replaces for start in self.crew.starts)

    # -- the owner's life --------------------------------------------------------------------

    async def _own(self) -> None:
        wishes = self._wishes
        try:
            while True:
                self._wake.clear()
                if wishes.stop:
                    await self._end()
                    if wishes.stop:
                        break
                self._heed()
                if self._is_settled():
                    wishes.tell_settled()
                    wishes.tell_again(None)
                if not wishes.stop:
                    await self._sleep()
        finally:
            self._task = None
            await self.crew.perish()  # the loop is being torn down around us, or we tripped
            wishes.tell_all()
        self._rest_for_good()

    def _heed(self) -> None:
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

    async def _sleep(self) -> None:
        """Until somebody rings, or the next thing is due."""
        when = self._next_due()
        timer = self._loop.call_at(when, self._wake.set) if when < math.inf else None
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _next_due(self) -> float:
        when = self._due
        if self.guard.is_open and self._desk.closed is not None:
            when = min(when, self.guard.circuit.until)
        if self.state is State.READY:
            when = min(when, self.idling.next_look())
            if self._wants_more:
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
        self._desk.closed = None
        self.admit()
        if self.state is State.ADMITTED:
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
        self._desk.closed = None
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
        return max([self._last_id, *(one.state.next_id for one in self._desk.live)])

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
        self.crew.enlist(start, now, self._answered())
        self.ready_at = now
        self.history = self.history.ready(now)
        self.cause, self.ailment = None, ""
        self.handshake_seconds = start.seconds
        self._offered(start.offer)
        if self.dialect.traits.ids_continue:
            session.state.next_id = self._next_id()
        if self.state is State.STARTING:
            self._go(Event.SHOOK_HANDS)
        if start.replaces:
            self.guard.reset()
        for one in old:  # in this very step: the next call finds the fresh one
            self.crew.dismiss(one)
        self.idling.begin(now, self.crew.serving)
        if session.state.phase is Phase.OPEN:
            self._desk.attach(session)
        if start.replaces:
            for _ in range(self._pool.least - len(self.crew.serving)):
                self._launch()

    def _heed_failed_start(self, start: Start, error: ExthostError) -> None:
        self.history = self.history.ended(self._restart, self._loop.time())
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
        self._last_id = max(self._last_id, session.state.next_id)
        served = self._answered() > member.answered and member.ended_some
        self.history = self.history.of(member.ready_at, has_served=served)
        by_us = session.retired
        self.history = self.history.ended(self._restart, self._loop.time(), by_us=by_us)
        ended = session.gone("")
        if not by_us and (session.took_calls or self.guard.is_half_open):
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
            self._desk.fail_waiting(lambda method: copy_of(ended))
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
                    self._desk.fail_waiting(lambda method: copy_of(ended))
                self._go(event_of(decision), ended.message)
                if self._desk.waiting:
                    self._go(Event.START)
                    self._start()
            case Again(delay):
                self._go(event_of(decision), ended.message)
                self._due = self._loop.time() + delay

    def _give_up(self, event: Event, cause: ExthostError, reason: str = "") -> None:
        self.cause = cause
        self._go(event, reason or cause.message)
        self._desk.close(lambda method: _not_again(cause, reason))

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
        self._desk.closed = None

    # -- pool and idleness ---------------------------------------------------------------------

    def _fit_pool(self, now: float) -> None:
        """Have as many processes as are needed, and no idle ones."""
        crew, pool = self.crew, self._pool
        there = len(crew.serving) + len(crew.starts)
        if self._wants_more and now >= self._grow_at and not crew.starts:
            self._wants_more = False
            if there < pool.most and not self.guard.is_half_open:
                self._launch()
                return
        if crew.starts or not self.idling.is_over(now, crew.serving):
            return
        for member in crew.serving[pool.kept :]:
            self.crew.dismiss(member)
        if not crew.serving:
            self.ready_at = None
            self._last_id = self._next_id()
            self.history = self.history.ended(self._restart, now, by_us=True)
            self._go(Event.REST, f"it was idle for {self.starter.limits.idle:g} s")
            if self._desk.waiting:
                self.need()

    # -- ending ------------------------------------------------------------------------------

    async def _end(self) -> None:
        self._due = math.inf
        if not rests(self.state) and self.state is not State.DISCOVERED:
            self._go(Event.STOP)
        self._wants_more = False
        if self.crew.serving and self._wishes.patience > 0:
            await self._let_finish()
        self._last_id = self._next_id()
        await self.crew.close()
        self.ready_at = None
        if self.state is State.DRAINING:
            self._go(Event.ENDED)

    async def _let_finish(self) -> None:
        """Give calls under way their time, unless somebody has less patience or wants it back.

        Looks from time to time, and does not ask to be told, since its doors are open at first: a
        call that was on its way here when it was stopped is let in, and so are those that wait.
        """
        wishes, began = self._wishes, self._loop.time()
        doors_open = True
        while wishes.stop and (doors_open or not self.crew.is_quiet()):
            now = self._loop.time()
            if now >= began + wishes.patience:
                return
            if doors_open and now >= began + DOORS_SECONDS and not self._desk.waiting:
                doors_open = False
                self._desk.close(self._why_closed)
            await asyncio.sleep(_LOOK_SECONDS)

    def _rest_for_good(self) -> None:
        if self.state is State.ADMITTED:
            self._go(Event.STOP)
        elif self.state is State.DISCOVERED:
            self._go(Event.ADMIT)
            self._go(Event.STOP)
        self._desk.close(self._why_closed)
        self._desk.stop_clock()
        self._wishes.tell_all()

    def _why_closed(self, method: str) -> ExthostError:
        if self.state not in (State.STOPPED, State.DRAINING) and self.cause is not None:
            return copy_of(self.cause)
        return ExtensionGone(
            "X1006",
            f"{method} was not sent: the extension was stopped",
            extension=self.spec.id,
            help="start it again with restart(), or load it anew",
        )

    # -- small things ------------------------------------------------------------------------

    def _answered(self) -> int:
        """How many calls it answered, yes or no; a bad answer is none."""
        return self._desk.results + self._desk.refusals

    def _offered(self, offer: Offer) -> None:
        before, after = self.tools, {tool.name: tool for tool in offer.tools}
        changed = {name for name in before.keys() & after if before[name] != after[name]}
        added = tuple(sorted((after.keys() - before.keys()) | changed))
        removed = tuple(sorted((before.keys() - after.keys()) | changed))
        self.offer, self.tools, self.has_told = offer, after, True
        if self._on_change is not None:
            self._on_change()
        for warning in offer.warnings:
            _log.warning("[%s] %s", self.spec.id, warning)
        if (added or removed) and OfferChanged in self._bus.kinds:
            self._bus.publish(OfferChanged(self.spec.id, added, removed))

    def _go(self, event: Event, reason: str = "") -> None:
        before, self.state = self.state, step(self.state, event)
        if StateChanged in self._bus.kinds:
            self._bus.publish(StateChanged(self.spec.id, before.value, self.state.value, reason))
        if self._on_change is not None:
            self._on_change()


def _not_again(cause: ExthostError, reason: str) -> ExthostError:
    """The cause, for a call that comes too late, with the reason why it is not mended."""
    error = copy_of(cause)
    if reason and isinstance(cause, ExtensionGone):
        error.help = f"it is not started again: {reason}; restart() or a new load does"
    return error


def _kept(cause: ExthostError) -> ExthostError:
    """Why a fresh process is not there, for whoever asked for it."""
    error = copy_of(cause)
    error.help = f"the old process goes on as before; {cause.help}".rstrip("; ")
    return error
