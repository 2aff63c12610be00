"""The one task that owns an extension for its life: starts it, starts it again, ends it.

Never touches a call: calls go to the desk, and the desk to the session. What the owner decides it
decides by two pure tables, the life-cycle and the restart policy; what it does is start a session,
wait for its end, wait for a delay. Anyone may ask for a start, a restart or a stop, from any task
and in any order: they set a wish and wake the owner.
"""

import asyncio
import logging
import os
import random
from collections.abc import Callable, Mapping
from typing import Any

from exthost.dialects.dialect import Dialect
from exthost.errors import ExtensionGone, ExthostError, HandshakeFailed, Refused, SpawnFailed
from exthost.events import Bus, OfferChanged, Spawned, StateChanged
from exthost.model import Limits, Offer, Spec
from exthost.process.child import Child
from exthost.session.causes import copy_of
from exthost.session.desk import Desk
from exthost.session.handshake import shake_hands
from exthost.session.inbound import Handler
from exthost.session.session import Session
from exthost.session.state import Phase
from exthost.supervision.bell import Bell
from exthost.supervision.launching import Launch, admit, housed, prepare, restart_of
from exthost.supervision.lifecycle import Event, State, rests, step
from exthost.supervision.restart import Again, GiveUp, History, OnDemand, decide, event_of

_log = logging.getLogger("exthost.supervision")

# Nothing a restart could mend: the program, the pin or the dialect itself is wrong.
_PERMANENT = frozenset({"X0401", "X0402", "X0403", "X0404", "X0506"})


class Owner:
    """Keeps one extension in the wanted state."""

    __slots__ = (
        "_attend",
        "_bus",
        "_desk",
        "_environ",
        "_handlers",
        "_last_id",
        "_limits",
        "_loop",
        "_objection",
        "_on_change",
        "_restart",
        "_settled",
        "_stops",
        "_task",
        "_vet",
        "_wake",
        "_wants_restart",
        "_wants_start",
        "_wants_stop",
        "argv",
        "cause",
        "dialect",
        "handshake_seconds",
        "has_told",
        "history",
        "offer",
        "ready_at",
        "session",
        "spec",
        "state",
        "tools",
    )

    def __init__(
        self,
        spec: Spec,
        dialect: Dialect,
        desk: Desk,
        limits: Limits,
        bus: Bus,
        *,
        handlers: Mapping[str, Handler],
        environ: Mapping[str, str] | None = None,
        on_change: Callable[[], None] | None = None,
        objection: Callable[[], Refused | None] | None = None,
        vet: Callable[[Offer], None] | None = None,
        attend: Callable[[Session], Mapping[str, Handler]] | None = None,
    ) -> None:
        self.spec = spec
        self.dialect = dialect
        self.state = State.DISCOVERED
        self.history = History()
        self.offer = Offer(tools=spec.tools, version=spec.version)
        self.tools = {tool.name: tool for tool in spec.tools}
        self.session: Session | None = None
        self.argv = spec.argv
        self.cause: ExthostError | None = None
        self.ready_at: float | None = None
        # Whether `tools` is what it really offers, and not what a manifest says of it.
        self.has_told = dialect.traits.tools == "manifest"
        self.handshake_seconds = 0.0
        self._desk = desk
        self._bus = bus
        self._handlers = handlers
        self._environ = environ
        self._on_change = on_change
        self._objection = objection
        self._vet = vet
        self._attend = attend
        self._limits = limits
        self._restart = restart_of(spec, dialect)
        self._loop = desk.loop
        self._task: asyncio.Task[None] | None = None
        self._wake = Bell(self._loop)
        self._wants_start = False
        self._wants_restart = False
        self._wants_stop = False
        self._settled: list[asyncio.Future[None]] = []
        self._stops: list[asyncio.Future[None]] = []
        self._last_id = dialect.traits.first_id
        desk.on_need = self.need

    # -- wishes ------------------------------------------------------------------------------

    def need(self) -> None:
        """Somebody wants to call it: start it, unless it runs or was given up."""
        if not self._wants_stop and self.state in (State.DISCOVERED, State.ADMITTED):
            self._wants_start = True
            self._awaken()

    def ask_again(self) -> None:
        """A person or the API wants it fresh: running or not, failed or not."""
        self._wants_restart = True
        self._wants_stop = False
        self._awaken()
        _tell_all(self._stops)  # the later wish wins

    def admit(self) -> None:
        """Pass the gate, or be refused; nothing is started."""
        if self.state is not State.DISCOVERED:
            return
        try:
            objection = self._objection() if self._objection is not None else None
            if objection is not None:
                raise objection
            admit(self.spec, self._host_environment())
        except Refused as refused:
            _log.warning("[%s] not started: %s", self.spec.id, refused.message)
            self._give_up(Event.REFUSE, refused)
        else:
            self._go(Event.ADMIT)

    async def settle(self) -> None:
        """Wait until it is ready, or rests: stopped, refused or failed."""
        if self._wants_start or self._wants_restart or not self._at_rest():
            future = self._loop.create_future()
            self._settled.append(future)
            await future

    async def stop(self) -> None:
        """End it, as its dialect has it. Returns when nothing of it is left."""
        self._wants_stop = True
        self._wants_start = self._wants_restart = False
        if self._task is None:
            self._rest_for_good()
            return
        stopped = self._loop.create_future()
        self._stops.append(stopped)
        self._wake.set()
        await stopped

    def _awaken(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._own(), name=f"owner of {self.spec.id}")
        self._wake.set()

    def _is(self, state: State) -> bool:
        return self.state is state

    def _at_rest(self) -> bool:
        return self.state in (State.READY, State.ADMITTED) or rests(self.state)

    # -- the owner's life --------------------------------------------------------------------

    async def _own(self) -> None:
        try:
            while not self._wants_stop:
                if self._wants_start or self._wants_restart:
                    await self._run()
                self._announce()
                if not self._wants_stop and not self._wants_start and not self._wants_restart:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            self._task = None
            if self.session is not None:  # the loop is being torn down around us, or we tripped
                await self.session.perish()
            _tell_all(self._settled)  # whatever happened, nobody waits for what will not come
            _tell_all(self._stops)
        self._rest_for_good()

    async def _run(self) -> None:
        """From a wish to start until it rests again."""
        self._begin()
        while self._is(State.STARTING):
            ended = await self._live_once()
            if self._wants_stop:
                await self._end()
            elif self._wants_restart:
                await self._end_session()
                self.history = self.history.asked_again()
                self._wants_restart = False
                if not self._is(State.STARTING):
                    self._go(Event.ASKED_AGAIN, "a restart was asked for")
            elif ended is not None:
                await self._follow(ended)

    def _begin(self) -> None:
        again = self._wants_restart
        self._wants_start = self._wants_restart = False
        self._desk.closed = None
        if again:
            self.history = self.history.asked_again()
        if self.state is State.REFUSED:
            self._go(Event.ASKED_AGAIN)
        self.admit()
        if self.state is State.REFUSED:
            return
        if not rests(self.state) or again:
            self._go(Event.ASKED_AGAIN if again else Event.START)

    async def _live_once(self) -> ExthostError | None:
        """One process, from its start to its end; returns why it ended, None if interrupted."""
        self.history = self.history.started(self._loop.time())
        starting = self._loop.create_task(self._start())
        try:
            if not await self._finishes(starting):
                return None
            session = starting.result()
        except ExthostError as error:
            self.history = self.history.ended(self._restart, self._loop.time())
            return error
        finally:
            await _cancelled(starting)
        answered = self._answered()
        self._now_ready(session)
        interrupted = not await self._finishes(session.ended)
        self._last_id = session.state.next_id
        if self._answered() > answered:
            self.history = self.history.served()
        by_us = interrupted or session.retired
        self.history = self.history.ended(self._restart, self._loop.time(), by_us=by_us)
        if interrupted:
            return None
        await session.close()
        self.session = None
        return session.gone("")

    async def _start(self) -> Session:
        limit = self._limits.start
        try:
            async with asyncio.timeout(limit):
                return await self._spawn_and_shake()
        except TimeoutError:
            raise HandshakeFailed(
                "X0507",
                f"it was not ready within {limit:g} s",
                extension=self.spec.id,
                help="raise limits.start if it is merely slow to start",
            ) from None
        except ExthostError:
            raise
        except Exception as error:  # the folder we run in is gone, a dialect tripped, …
            _log.exception("%s could not be started", self.spec.id)
            raise SpawnFailed(
                "X0406",
                f"it could not be started: {error!r}",
                extension=self.spec.id,
                help="if its configuration is right, this is a bug here: report it",
            ) from error

    async def _spawn_and_shake(self) -> Session:
        launch = housed(self.prepared())
        self.argv = launch.plan.argv
        child = Child(launch.plan, self.spec.id)
        if Spawned in self._bus.kinds:
            self._bus.publish(Spawned(self.spec.id, child.pid, launch.plan.argv))
        handlers = self._handlers if self._attend is None else dict(self._handlers)
        session = Session(
            child,
            self.dialect,
            self._desk,
            self._limits,
            first_id=self._last_id if self.dialect.traits.ids_continue else None,
            handlers=handlers,
            wire_id=self.spec.wire_id,
        )
        if isinstance(handlers, dict) and self._attend is not None:
            # Before a byte is read: it may ask in its first breath.
            handlers |= {**self._attend(session), **self._handlers}
        self.session = session
        began = self._loop.time()
        try:
            offer = await shake_hands(session, launch.introduction)
            if self._vet is not None:
                self._vet(offer)
        except BaseException:
            self._last_id = session.state.next_id
            await session.perish()
            self.session = None
            raise
        self.handshake_seconds = self._loop.time() - began
        self._offered(offer)
        return session

    def _now_ready(self, session: Session) -> None:
        self.ready_at = self._loop.time()
        self.history = self.history.ready(self.ready_at)
        self.cause = None
        self._go(Event.SHOOK_HANDS)
        if session.state.phase is Phase.OPEN:
            self._desk.attach(session)
        self._announce()

    async def _follow(self, ended: ExthostError) -> None:
        """A process ended by itself: let the policy decide, and do it."""
        self.cause = ended
        self.ready_at = None
        failed_start = self.state is State.STARTING
        if isinstance(ended, Refused):
            self._give_up(Event.REFUSE, ended)
            return
        decision, self.history = decide(
            self._restart,
            self.history,
            now=self._loop.time(),
            jitter=random.random(),
            permanent=isinstance(ended, SpawnFailed | HandshakeFailed) and ended.code in _PERMANENT,
        )
        match decision:
            case GiveUp(reason):
                self._give_up(Event.GAVE_UP, ended, reason)
            case OnDemand():
                if failed_start:  # whoever waited caused this start, and is told what it came to
                    self._desk.fail_waiting(lambda method: copy_of(ended))
                self._go(event_of(decision), ended.message)
                if self._desk.waiting:
                    self._go(Event.START)
            case Again(delay):
                self._go(event_of(decision), ended.message)
                await self._pause(delay)
                if self.state is State.BACKOFF and not self._wants_stop:
                    again = self._wants_restart
                    self._wants_restart = False
                    if again:
                        self.history = self.history.asked_again()
                    self._go(Event.ASKED_AGAIN if again else Event.RETRY_DUE)
                elif self._wants_stop:
                    await self._end()

    def _give_up(self, event: Event, cause: ExthostError, reason: str = "") -> None:
        self.cause = cause
        self._go(event, reason or cause.message)
        self._desk.close(lambda method: _not_again(cause, reason))

    # -- ending ------------------------------------------------------------------------------

    async def _end(self) -> None:
        if self.state in (State.STARTING, State.READY):
            self._go(Event.STOP)
            await self._end_session()
            self._go(Event.ENDED)
        elif self.state in (State.ADMITTED, State.BACKOFF):
            self._go(Event.STOP)

    async def _end_session(self) -> None:
        self.ready_at = None
        if self.session is not None:
            await self.session.close()
            self.session = None  # not before: if we are cancelled here, it is still ours to end

    def _rest_for_good(self) -> None:
        if self.state is State.ADMITTED:
            self._go(Event.STOP)
        elif self.state is State.DISCOVERED:
            self._go(Event.ADMIT)
            self._go(Event.STOP)
        self._desk.close(self._why_closed)
        self._desk.stop_clock()
        self._announce()
        _tell_all(self._stops)

    def _why_closed(self, method: str) -> ExthostError:
        if self.state is not State.STOPPED and self.cause is not None:
            return copy_of(self.cause)
        return ExtensionGone(
            "X1006",
            f"{method} was not sent: the extension was stopped",
            extension=self.spec.id,
            help="start it again with restart(), or load it anew",
        )

    # -- small things ------------------------------------------------------------------------

    async def _finishes(self, task: "asyncio.Future[Any]") -> bool:
        """Wait for this, or for a wish that comes first."""
        task.add_done_callback(self._on_finished)
        while not task.done() and not (self._wants_stop or self._wants_restart):
            self._wake.clear()
            await self._wake.wait()
        task.remove_done_callback(self._on_finished)
        return task.done()

    def _on_finished(self, task: "asyncio.Future[Any]") -> None:
        self._wake.set()

    async def _pause(self, seconds: float) -> None:
        """Wait so long, or until somebody wishes otherwise."""
        try:
            async with asyncio.timeout(seconds):
                while not (self._wants_stop or self._wants_restart):
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            pass

    def prepared(self) -> Launch:
        """What the next start would execute."""
        handles = frozenset(self._handlers)
        return prepare(self.spec, self.dialect, self._host_environment(), handles)

    def _answered(self) -> int:
        """How many calls it answered, yes or no; a bad answer is none."""
        return self._desk.results + self._desk.refusals

    def _host_environment(self) -> Mapping[str, str]:
        return os.environ if self._environ is None else self._environ

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

    def _announce(self) -> None:
        """Tell those who waited for it to settle."""
        if self._at_rest() and not self._wants_restart:
            _tell_all(self._settled)


def _tell_all(waiting: list[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
    waiting.clear()


def _not_again(cause: ExthostError, reason: str) -> ExthostError:
    """The cause, for a call that comes too late, with the reason why it is not mended."""
    error = copy_of(cause)
    if reason and isinstance(cause, ExtensionGone):
        error.help = f"it is not started again: {reason}; restart() or a new load does"
    return error


async def _cancelled(task: "asyncio.Future[Any]") -> None:
    """See a task out that is no longer needed."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.exception()
