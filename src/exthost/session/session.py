"""One live conversation with one child: the thin driver around the pure state.

It moves messages and decides nothing that a table could decide. Below it are the child's pipes,
the framing and the codec; above it is the desk, which hands it calls and sees them out. Beside it
in this room: operations of several exchanges (`exchanges`), what an answer means (`answers`), what
the child says of its own accord (`notices`), asks (`inbound`) or says amiss (`oddities`), what
stands unanswered (`standing`), the process's life (`life`), what else is seen of it (`witness`),
the handshake, and the wording of ends (`causes`).

Longer than the house likes: saying, hearing and ending share one lock, one table and one end, and
the way of the commonest call is written out where a call of a function more would be its cost.

    launch → codec.encode → framing → pipe          pipe → framing.feed → codec.decode → _receive

**The end.** A session ends once, in `_conclude`, for one cause: the child exited, closed a pipe,
broke the rules, stopped reading, or was closed by us. Everything awaited is told at that moment.

**Threads.** Everything runs on the loop's thread, except `launch`, which the blocking face calls
from its callers' threads: `lock` guards the numbering and the write.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os import read
from threading import get_ident
from typing import Any

from exthost.dialects.dialect import Dialect
from exthost.errors import ExthostError, ProtocolViolation, UsageError
from exthost.messages import (
    Batch,
    Failure,
    Id,
    Incoming,
    Message,
    Noise,
    Notice,
    Reply,
    Request,
)
from exthost.model import NO_OFFER, Limits, Offer, Role
from exthost.process.child import Child
from exthost.process.inlet import BATCH, Inlet
from exthost.process.outlet import read_large, room_for, widen
from exthost.session import answers, causes, exchanges, notices, oddities, violations
from exthost.session.awaited import Awaited
from exthost.session.causes import Cause
from exthost.session.desk import Desk
from exthost.session.holding import Holding
from exthost.session.inbound import Handler, Inbound
from exthost.session.life import KILL_SECONDS, Life
from exthost.session.standing import StandingQuestions
from exthost.session.state import Call, Phase, SessionState, StreamQueue
from exthost.session.stream import EventStream
from exthost.session.witness import Witness
from exthost.wire.burst import Burst
from exthost.wire.framing import READ_BYTES, Bytes, Framing, Skipped

_log = logging.getLogger("exthost.session")

# A message this large is not copied to join it with its frame.
_JOIN_BYTES = 64 * 1024

# So much of what we said may lie unread before we stop listening: a child that asks without end
# and reads no answer would otherwise fill our memory with them.
_UNREAD_BYTES = 1024 * 1024

# Memory for large messages is kept so long for the next one.
_KEPT_SECONDS = 1.0

# For what we say without an interest in the answer: a cancel, for example.
_ASIDE_SECONDS = 30.0


class Session:
    """One child, one dialect, one conversation."""

    __slots__ = (
        "_burst",
        "_closing",
        "_framing",
        "_gathered",
        "_hear",
        "_heard",
        "_holding",
        "_inbound",
        "_inlet",
        "_loop",
        "_reading",
        "_request",
        "_resting",
        "_small",
        "_stdout",
        "_thread",
        "_wide",
        "_wrap",
        "ask",
        "cause",
        "codec",
        "desk",
        "dialect",
        "ended",
        "life",
        "limits",
        "lock",
        "offer",
        "on_stale",
        "pending",
        "retired",
        "standing",
        "state",
        "took_calls",
        "wire_id",
        "witness",
    )

    def __init__(
        self,
        child: Child,
        dialect: Dialect,
        desk: Desk,
        limits: Limits,
        *,
        first_id: int | None = None,
        handlers: Mapping[str, Handler] | None = None,
        on_stale: Callable[[], None] | None = None,
        wire_id: str = "",
    ) -> None:
        assert limits.max_message is not None and limits.write is not None
        loop = desk.loop
        first = dialect.traits.first_id if first_id is None else first_id
        self.dialect = dialect
        self.desk = desk
        self.limits = limits
        self.offer = NO_OFFER
        by_order = dialect.traits.correlation == "order"
        self.state = SessionState(first, dialect.streams.values(), by_order=by_order)
        self.pending = self.state.pending
        self.lock = threading.Lock()
        self.cause: Cause | None = None
        self.retired = False  # ended by ourselves, for no fault of its own
        self.took_calls = 0  # how many were under way when it ended
        self.ended: asyncio.Future[None] = loop.create_future()
        private = dialect.traits.private
        self.witness = Witness(desk.extension, child, desk.bus, loop, private=private)
        self.wire_id = wire_id or desk.extension
        self._loop = loop
        self._thread = get_ident()
        # Taking a lock that nobody contends for still costs a twentieth of a call.
        self.ask = self._ask_locked if desk.shared else self._ask
        self._hear = self._on_stdout
        if by_order:
            self.ask, self._hear = self._ask_in_order, self._on_answers
        self.on_stale = on_stale
        self._framing = dialect.framing(limits.max_message)
        self._small = min(_JOIN_BYTES, limits.max_message)
        self._wrap = self._framing.wrap
        self.codec = dialect.codec(Role.HOST)
        self._request = self.codec.request
        self._burst: Burst | None = getattr(self.codec, "burst", None)
        self._inlet = Inlet(
            child.stdin,
            loop,
            self.lock,
            patience=limits.write,
            join=self._framing.join,
            close=child.close_stdin,
            stalled=self._on_stall,
            broken=self._on_broken_stdin,
        )
        self._gathered = self._inlet.gathered
        self.life = Life(
            child,
            self._inlet,
            self.witness,
            desk.bus,
            loop,
            over=self._conclude,
            on_exit=self.read_on,  # even what back-pressure held up
        )
        self._holding = Holding(desk) if dialect.traits.answers_first else None
        self._inbound = Inbound(
            {} if handlers is None else handlers,  # may still be filled
            dialect.refuse,
            self.tell,
            self.witness,
            loop,
            holding=self._holding,
        )
        self.standing = StandingQuestions(self)
        self._resting: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._stdout = child.stdout
        self._reading = False
        self._heard = False
        self._wide = False
        os.set_blocking(child.stdout, False)
        desk.live.append(self)
        self.read_on()

    def __repr__(self) -> str:
        phase = self.state.phase.value
        return f"<Session {self.desk.extension!r} {phase}, {len(self.state.pending)} in flight>"

    def opened(self, offer: Offer) -> None:
        """Hands were shaken. Raises if the child went away in the same moment."""
        if self.state.phase is not Phase.SHAKING:
            raise self.gone("the handshake")
        self.state.move("shook hands")
        self.offer = offer

    # -- saying ------------------------------------------------------------------------------

    def launch(self, call: Call) -> None:
        """Send a call of any kind; its outcome goes to its caller. Raises if it is unsendable."""
        if call.steps is not None:
            call.session = self
            exchanges.advance(self, call, None)
        elif call.once is not None:
            self.ask(call, *call.once.ask(call.params))
        elif call.stream is not None:  # before the request: events may overtake the reply
            self._open_stream(call, call.stream)
        else:
            self.ask(call, call.method, call.params)

    def _open_stream(self, call: Call, stream: StreamQueue) -> None:
        self.state.open_stream(stream)
        try:
            self.ask(call, call.method, call.params)
        except ExthostError:
            self.state.close_stream(stream)
            raise

    def _ask(
        self,
        call: Call,
        method: str,
        params: Any,
        id: Id | None = None,
        foreign: bool = False,
    ) -> None:
        """Send one request of a call. A lone one is written here and now; one that comes while
        others are under way goes out with its neighbours at the end of the tick."""
        if self.cause is not None:
            raise self.gone(method)
        if id is None:
            id = self.state.next_id
            self.state.next_id = id + 1
        call.id, call.session = id, self
        self._put(id, call, self._request(method, params, id), foreign)

    def ask_plainly(self, method: str, params: Any, limit: float) -> Awaited:
        """The same for the commonest of calls, which an open session with room gets from a task
        of the loop: made and sent in one go, since each step of it is a step of every call."""
        state = self.state
        id = state.next_id
        payload = self._request(method, params, id)
        state.next_id = id + 1
        desk = self.desk
        call = Awaited()
        call.id = id
        call.session = self
        call.method = method
        call.params = params
        call.timeout = limit
        call.deadline = deadline = desk.now() + limit
        call.ended = False
        call.straight = True
        call.desk = desk
        call._loop = self._loop
        gathered = self._gathered
        if 0 < len(gathered) < BATCH and len(payload) <= self._small and self._reading:
            self.pending[id] = call
            gathered.append(payload)
        else:
            self._put(id, call, payload, foreign=False)
        if deadline < desk.alarm_at:
            desk.watch(call)
        return call

    def _put(self, id: Id, call: Call, payload: bytes, foreign: bool) -> None:
        pending = self.pending
        alone = not pending
        if len(payload) > self._small:
            try:
                head, tail = self._framing.around(len(payload))
            except UsageError:
                self.codec.unsaid()
                raise
            pending[id] = call
            self._inlet.write_parts(head, payload, tail)
        else:
            pending[id] = call
            if alone or foreign:
                self._inlet.write(self._wrap(payload))
            else:
                self._inlet.gather(payload)
        if not self._reading:  # back-pressure of a stream must not hold up this call
            self._loop.call_soon_threadsafe(self.read_on)

    def _ask_locked(self, call: Call, method: str, params: Any, id: Id | None = None) -> None:
        with self.lock:
            self._ask(call, method, params, id, foreign=get_ident() != self._thread)

    def _ask_in_order(self, call: Call, method: str, params: Any, id: Id | None = None) -> None:
        """Where answers have no ids, listen before speaking: what was said already answers
        something else, and would pass for the answer to this."""
        if not self.pending and self._reading and get_ident() == self._thread:
            wakes = self.desk.wakes
            wakes.in_task = True
            try:
                self._hear()
            finally:
                wakes.in_task = False
        ask = self._ask_locked if self.desk.shared else self._ask
        ask(call, method, params, id)

    def tell(self, message: Message) -> None:
        """Send what is not answered: a notice, or our answer to the child's question."""
        holding = self._holding if type(message) is Notice else None
        if holding is not None and holding.keeps(partial(self.tell, message)):
            return
        with self.lock:
            if self.cause is None:
                self._inlet.write(self._framing.wrap(self.codec.encode(message)))
        if self._inlet.held > _UNREAD_BYTES and self._reading and get_ident() == self._thread:
            self.pause()
            self._loop.create_task(self._read_on_when_read())

    async def _read_on_when_read(self) -> None:
        await self._inlet.drained()
        self.read_on()

    async def roomy(self) -> None:
        """Wait until the child has taken in everything that was said so far, or is gone."""
        await self._inlet.drained()

    def ask_aloud(self, said: Request, numbered: Callable[[int], None]) -> None:
        """Ask something for whose answer nobody waits; `numbered` is told its id before that."""
        with self.lock:
            number = self.state.next_id
            self.state.next_id += 1
            if self.cause is None:
                numbered(number)
                self._inlet.write(self._wrap(self._request(said.method, said.params, number)))

    def retire(self, call: Call) -> None:
        """End a session that its last operation left where no other can begin; before that one is
        seen out, since its place is the next one's then."""
        if call.spent:
            self.retired = True
            self._conclude(causes.spent(self.witness, self.dialect.name, call.method))

    def inquire(self, question: Request, told: Callable[[Reply | Failure], None]) -> None:
        """Put a question to the handlers that serve the child's own."""
        self._inbound.inquire(question, told)

    def say_aside(self, said: Request | Notice) -> asyncio.Future[Any] | None:
        """Say something whose answer, if there is one, interests nobody."""
        if type(said) is not Request:
            self.tell(said)
            return None
        answered: asyncio.Future[Any] = self._loop.create_future()
        answered.add_done_callback(lambda future: future.cancelled() or future.exception())
        call = Call.of(said.method, said.params, answered, _ASIDE_SECONDS, self.desk.now())
        call.aside, call.plain = True, False
        if self._holding is not None and self._holding.keeps(partial(self._launch_aside, call)):
            return answered
        return answered if self._launch_aside(call) else None

    def _launch_aside(self, call: Call) -> bool:
        try:
            self.launch(call)
        except ExthostError:
            return False
        self.desk.watch(call)
        return True

    # -- giving up ---------------------------------------------------------------------------

    def abandon(self, call: Call, why: str) -> None:
        """A call is over for its caller: tell the child, or end what cannot be sorted out."""
        awaited = self.state.forget(call)
        if call.stream is not None:
            self.leave(call.stream, why)
        if not awaited:
            return
        if call.steps is not None:
            call.steps.close()
        if self.dialect.traits.abandon == "end":
            # In this very step: its late answer may be in the pipe, and must meet nobody else.
            self._conclude(causes.given_up(self.witness, self.dialect.name, call.method, why))
        elif self.dialect.withdraw is not None and self.state.phase is not Phase.SHAKING:
            said = self.dialect.withdraw(Request(call.method, call.params, call.id), why)
            if said is not None:
                self.say_aside(said)

    def leave(self, stream: StreamQueue, why: str) -> None:
        """Nobody reads this stream any more."""
        if self.state.close_stream(stream) and not stream.ended and stream.kind.cancel is not None:
            said = stream.kind.cancel(stream.params, why)
            if said is not None:
                self.say_aside(said)

    # -- hearing -----------------------------------------------------------------------------

    def read_on(self) -> None:
        """Read what the child writes, if that was left undone."""
        if not self._reading and self.state.phase is not Phase.CLOSED:
            self._reading = True
            self._loop.add_reader(self._stdout, self._hear)

    def hurry(self) -> None:
        """A call waits for its turn: back-pressure of a stream must not hold it up."""
        self.read_on()

    def pause(self) -> None:
        """Leave the child's output where it is: the pipe fills, and the child waits."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._stdout)

    def _on_answers(self) -> None:
        """Read answers that have no ids: none of them is to a question asked from here on."""
        self.state.asked_so_far = self.state.next_id
        self._on_stdout()

    def _on_stdout(self) -> None:
        framing = self._framing
        data: Bytes | int
        try:
            wants = framing.wants
            data = self._read_large(framing) if wants > READ_BYTES else read(self._stdout, wants)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._on_stdout_end()
            return
        if not self._heard and type(data) is bytes:
            self._heard = True
            self.witness.first_output = data[:256]
        # Any: a PlainReply is told from the messages, which are named tuples, by its exact type,
        # and an answer of a burst from all else.
        item: Any
        decode: Callable[[Bytes], Any] = self.codec.decode
        pending, desk, wakes = self.pending, self.desk, self.desk.wakes
        burst = self._burst if len(pending) > 1 else None
        plain = None if burst is None else burst.kind
        unobserved = not (desk.listeners or desk.waiting or desk.on_answer)
        straight: list[Any] = []  # of calls whose way is so
        counted = 0  # of them
        wakes.reading = True
        try:
            items = framing.filled(data) if isinstance(data, int) else framing.feed(data, burst)
            for item in items:
                if type(item) is plain:
                    id, result = item.id, item.result
                elif type(item) is bytes or type(item) is bytearray or type(item) is memoryview:
                    message = decode(item)
                    if type(message) is not tuple:
                        if straight:  # a failure asks how many were answered before it
                            desk.results += len(straight) - counted
                            counted = len(straight)
                        self._receive(message, len(item))
                        continue
                    id, result = message
                elif type(item) is Skipped:
                    oddities.skipped(self, item)
                    continue
                else:
                    raise violations.unreadable(self.witness, item, self.dialect.name)
                call = pending.pop(id, None)
                if call is None:
                    oddities.stray(self, id)
                elif unobserved and call.straight:
                    call.ended = True  # desk.settle, without the call
                    call.value = result
                    straight.append(call)
                elif call.plain:
                    desk.settle(call, result)
                elif call.once is not None:
                    exchanges.settle_once(self, call, result)
                else:
                    answers.heed_reply(self, call, Reply(id, result))
        except ProtocolViolation as violation:
            desk.results += len(straight) - counted
            counted = len(straight)
            if not violation.evidence.argv:  # a codec's: it sees bytes and nothing else
                self.witness.drain()
                shown = violation.evidence.bytes
                violation.evidence = replace(self.witness.evidence(), bytes=shown)
            self._conclude(causes.violated(violation))
        except Exception as error:
            _log.exception("the output of %s could not be read", self.desk.extension)
            self._conclude(causes.not_understood(self.witness, error))
        except BaseException:  # an interrupt, which is not for those who have their answers
            desk.results += len(straight) - counted
            wakes.interrupted(straight)
            raise
        desk.results += len(straight) - counted
        wakes.ended += straight
        wakes.reading = False
        if wakes.ended:
            wakes.wake()
        if framing.wants > READ_BYTES and not self._wide:
            self._wide = True
            widen(self._stdout)

    def _read_large(self, framing: Framing) -> Bytes | int:
        """Read inside a large frame: what came, or how much of it, where the framing wants it."""
        space = framing.space(room_for)
        if space is None:
            return read_large(self._stdout)
        if self._resting is None:
            self._resting = self._loop.call_later(_KEPT_SECONDS, self._rest)
        return os.readv(self._stdout, [space])

    def _rest(self) -> None:
        self._resting = None
        self._framing.rest()

    def _receive(self, message: Incoming, size: int) -> None:
        """Whatever is not the plainest of replies."""
        if type(message) is Reply:
            id = message.id
            call = self.pending.pop(id, None) if id is not None else self.state.oldest()
            if call is None:
                oddities.stray(self, id)
            elif call.plain:
                self.desk.settle(call, message.result)
            else:
                answers.heed_reply(self, call, message)
        elif type(message) is Notice:
            notices.take(self, message, size)
        elif type(message) is Failure:
            id = message.id
            call = self.pending.pop(id, None) if id is not None else self.state.oldest()
            if call is None:
                oddities.stray(self, id, message)
            elif call.steps is not None:
                exchanges.advance(self, call, message)
            else:
                answers.heed_failure(self, call, message)
        elif type(message) is Request:
            self._inbound.take(message)
        elif type(message) is Noise:
            oddities.noise(self, message)
        elif type(message) is Batch:
            for one in message.messages:
                self._receive(one, size // len(message.messages))

    # -- the end -----------------------------------------------------------------------------

    def _on_stdout_end(self) -> None:
        self.pause()
        broken = self._framing.end()
        if self.life.child.see_exit() is not None:
            self._conclude(causes.died(self.witness, broken))
        else:
            self.life.soon_over(causes.closed_pipe(self.witness, "stdout", broken))

    def _on_broken_stdin(self) -> None:
        self.life.soon_over(causes.closed_pipe(self.witness, "stdin"))

    def _on_stall(self) -> None:
        self._conclude(causes.stalled(self.witness, self._inlet.patience))

    def _conclude(self, cause: Cause) -> None:
        """The conversation is over: tell everyone who waits, then see the process out."""
        if self.state.phase is Phase.CLOSED:
            return
        self.witness.drain()
        self.pause()
        if self._closing is not None:  # it did what it was told, whichever sign of it came first
            cause = causes.closed_by_us(self.witness)
        with self.lock:
            self.cause = cause
            calls, streams = self.state.end()
        self.took_calls = sum(not call.aside for call in calls)
        self.desk.detach(self)
        self.desk.live.remove(self)
        if self.desk.on_session_ended is not None:
            self.desk.on_session_ended(self)
        for call in reversed(calls):  # each that may be sent again goes before those that wait
            call.session = None
            self.desk.give_back(call, cause(call.method))
        for stream in streams:
            if isinstance(stream, EventStream) and not self.desk.still_waits(stream):
                stream.fail(cause("the stream"))
        self._inbound.end()
        self.standing.end()
        if self._closing is None:
            self.life.kill()
        self.life.concluded()
        self.ended.set_result(None)

    def break_off(self) -> None:
        """End the conversation and the process now, without a word."""
        self._conclude(causes.closed_by_us(self.witness))
        self.life.kill()

    async def perish(self) -> None:
        """Break off and see the process out. Goes through in a loop that is being torn down, where
        a task made for it, as `close` makes one, would be cancelled or left over."""
        self.break_off()
        await self.life.exits_within(KILL_SECONDS)
        if self._closing is not None:
            await asyncio.wait([self._closing], timeout=KILL_SECONDS)

    async def close(self) -> None:
        """End the process as its dialect has it. Any task may, at any time, as often as it likes;
        a closer that is cancelled does not leave the work half done."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.desk.detach(self)
        if self.state.phase is Phase.CLOSED:
            await self.life.end((), self.say_aside)
        else:
            self.state.move("drain")
            await self.life.end(self.dialect.traits.ladder, self.say_aside)
            self._conclude(causes.closed_by_us(self.witness))
        if self.life.exited.done():
            await self.life.released

    def gone(self, method: str) -> ExthostError:
        """Why this session cannot be asked any more."""
        return (self.cause or causes.closed_by_us(self.witness))(method)
