"""One live conversation with one child: the thin driver around the pure state.

It moves messages and decides nothing that a table could decide. Below it are the child's pipes,
the framing and the codec; above it is the desk, which hands it calls and sees them out. Beside it
in this room: the process's life (`life`), what else is seen of it (`witness`), the child's own
questions (`inbound`), the handshake, and the wording of ends (`causes`).

    launch → codec.encode → framing → pipe          pipe → framing.feed → codec.decode → _receive

**The end.** A session ends once, in `_conclude`, for one cause: the child exited, closed a pipe,
broke the rules, stopped reading, or was closed by us. Everything awaited is told at that moment.

**Threads.** Everything runs on the loop's thread, except `launch` and `abandon`, which the blocking
face calls from its callers' threads: `lock` guards the numbering and the write.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from exthost.dialects.dialect import Dialect, Log, OfferStale, refusal
from exthost.errors import ExthostError, ProtocolViolation, UsageError
from exthost.events import Noticed
from exthost.messages import Failure, Id, Message, Noise, Notice, Reply, Request
from exthost.model import Limits, Offer, Role
from exthost.process.child import Child
from exthost.process.inlet import Inlet, widen
from exthost.session import causes
from exthost.session.causes import Cause
from exthost.session.desk import Desk
from exthost.session.inbound import Handler, Inbound
from exthost.session.life import Life
from exthost.session.state import Call, Phase, Room, SessionState, StreamQueue
from exthost.session.stream import EventStream
from exthost.session.witness import Witness
from exthost.wire.framing import READ_BYTES, Broken, Skipped

_log = logging.getLogger("exthost.session")

# A message this large is not copied to join it with its frame.
_JOIN_BYTES = 64 * 1024

# For what we say without an interest in the answer: a cancel, for example.
_ASIDE_SECONDS = 30.0


class Session:
    """One child, one dialect, one conversation."""

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
    ) -> None:
        assert limits.max_message is not None and limits.write is not None
        loop = desk.loop
        first = dialect.traits.first_id if first_id is None else first_id
        self.dialect = dialect
        self.desk = desk
        self.limits = limits
        self.offer = Offer()
        self.state = SessionState(first, dialect.streams.values())
        self.lock = threading.Lock()
        self.cause: Cause | None = None
        self.ended: asyncio.Future[None] = loop.create_future()
        self.witness = Witness(desk.extension, child, desk.bus, loop)
        self._loop = loop
        self._thread = threading.get_ident()
        self._on_stale = on_stale
        self._framing = dialect.framing(limits.max_message)
        self._codec = dialect.codec(Role.HOST)
        self._inlet = Inlet(
            child.stdin,
            loop,
            self.lock,
            patience=limits.write,
            close=child.close_stdin,
            stalled=self._on_stall,
            broken=self._on_broken_stdin,
        )
        self.life = Life(
            child,
            self._inlet,
            self.witness,
            desk.bus,
            loop,
            over=self._conclude,
            on_exit=self._read_on,  # even what back-pressure held up
        )
        self._inbound = Inbound(handlers or {}, dialect.refuse, self.tell, self.witness, loop)
        self._closing: asyncio.Task[None] | None = None
        self._stdout = child.stdout
        self._reading = False
        self._wide = False
        os.set_blocking(child.stdout, False)
        self._read_on()

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
        """Send a call; its outcome goes to its sink. Raises what makes it unsendable."""
        call.session = self
        if call.plain:
            self._ask(call, call.method, call.params, None)
        elif call.steps is not None:
            self._advance(call, None)
        else:
            if call.stream is not None:  # before the request: events may overtake the reply
                self.state.open_stream(call.stream)
            self._ask(call, call.method, call.params, None)

    def _ask(self, call: Call, method: str, params: Any, id: Id | None) -> None:
        state = self.state
        with self.lock:
            if state.phase is Phase.CLOSED:
                raise self.gone(method)
            if id is None:
                id = state.next_id
                state.next_id = id + 1
            payload = self._codec.encode(Request(method, params, id))
            size = len(payload)
            head, tail = self._framing.head(size), self._framing.tail
            call.id = id
            state.pending[id] = call
            if size > _JOIN_BYTES:
                self._inlet.write(head, payload, tail)
            elif len(state.pending) == 1 or threading.get_ident() != self._thread:
                self._inlet.write(head + payload + tail)
            else:
                self._inlet.post(head + payload + tail)
        if not self._reading:  # back-pressure of a stream must not hold up this call
            self._loop.call_soon_threadsafe(self._read_on)

    def tell(self, message: Message) -> None:
        """Send what is not answered: a notice, or our answer to the child's question."""
        with self.lock:
            if self.state.phase is not Phase.CLOSED:
                payload = self._codec.encode(message)
                head = self._framing.head(len(payload))
                self._inlet.write(head + payload + self._framing.tail)

    def _advance(self, call: Call, heard: Reply | Failure | None) -> None:
        """Let an operation of several exchanges take its next step."""
        steps = call.steps
        assert steps is not None
        try:
            while True:
                said = steps.send(heard)
                if type(said) is Request:
                    if call.each:
                        call.deadline = self.desk.now() + call.timeout
                    self._ask(call, said.method, said.params, said.id)
                    return
                self.tell(said)
                heard = None
        except StopIteration as done:
            self.desk.settle(call, done.value)
        except ExthostError as error:
            self.desk.fail(call, error)
        except Exception as error:  # the dialect tripped over what the child said
            _log.exception("the %s dialect could not follow its own operation", self.dialect.name)
            self.desk.fail(call, causes.not_understood(self.witness, error)(call.method))

    def say_aside(self, said: Request | Notice) -> asyncio.Future[Any] | None:
        """Say something whose answer, if there is one, interests nobody."""
        if type(said) is not Request:
            self.tell(said)
            return None
        answered: asyncio.Future[Any] = self._loop.create_future()
        answered.add_done_callback(lambda future: future.cancelled() or future.exception())
        call = Call(said.method, said.params, answered, _ASIDE_SECONDS, self.desk.now())
        call.aside = True
        try:
            self.launch(call)
        except ExthostError:
            return None
        self.desk.watch(call)
        return answered

    # -- giving up ---------------------------------------------------------------------------

    def abandon(self, call: Call, why: str) -> None:
        """A call is over for its caller: tell the child, or end what cannot be sorted out."""
        awaited = self.state.forget(call)
        if call.stream is not None:
            self.leave(call.stream, call.params, why)
        if not awaited:
            return
        if call.steps is not None:
            call.steps.close()
        if self.dialect.traits.abandon == "end":
            cause = causes.given_up(self.witness, self.dialect.name, call.method, why)
            self._loop.call_soon_threadsafe(self._conclude, cause)
        elif self.dialect.withdraw is not None:
            said = self.dialect.withdraw(Request(call.method, call.params, call.id), why)
            if said is not None:
                self.say_aside(said)

    def leave(self, stream: StreamQueue, params: Any, why: str) -> None:
        """Nobody reads this stream any more."""
        if self.state.close_stream(stream) and not stream.ended and stream.kind.cancel is not None:
            said = stream.kind.cancel(params, why)
            if said is not None:
                self.say_aside(said)

    # -- hearing -----------------------------------------------------------------------------

    def _read_on(self) -> None:
        if not self._reading and self.state.phase is not Phase.CLOSED:
            self._reading = True
            self._loop.add_reader(self._stdout, self._on_stdout)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._stdout)

    def _on_stdout(self) -> None:
        framing = self._framing
        try:
            data = os.read(self._stdout, framing.wants)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._on_stdout_end()
            return
        if not self.witness.first_output:
            self.witness.first_output = data[:256]
        decode, receive = self._codec.decode, self._receive
        try:
            for item in framing.feed(data):
                if type(item) is bytes or type(item) is bytearray:
                    receive(decode(item), len(item))
                elif type(item) is Skipped:
                    self._on_skipped(item)
                elif type(item) is Broken:
                    self._on_framing_broken(item)
        except ProtocolViolation as violation:
            self._conclude(causes.violated(violation))
        except Exception as error:
            _log.exception("the output of %s could not be read", self.desk.extension)
            self._conclude(causes.not_understood(self.witness, error))
        if framing.wants > READ_BYTES and not self._wide:
            self._wide = True
            widen(self._stdout)

    def _receive(self, message: Message | Noise, size: int) -> None:
        if type(message) is Reply:
            call = self.state.match(message.id)
            if call is None:
                self.witness.drop(self.state.stray_reply(message.id))
            elif call.plain:
                self.desk.settle(call, message.result)
            else:
                self._on_reply(call, message)
        elif type(message) is Notice:
            self._on_notice(message, size)
        elif type(message) is Failure:
            call = self.state.match(message.id)
            if call is None:
                self.witness.drop(self.state.stray_reply(message.id))
            elif call.steps is not None:
                self._advance(call, message)
            else:
                self._on_failure(call, message)
        elif type(message) is Request:
            self._inbound.take(message)
        elif type(message) is Noise:
            self._on_noise(message)

    def _on_reply(self, call: Call, reply: Reply) -> None:
        """A reply to anything but the plainest call."""
        if call.steps is not None:
            self._advance(call, reply)
            return
        stream, result = call.stream, reply.result
        if isinstance(stream, EventStream):
            kind = stream.kind
            if kind.ends == "reply":
                self.state.close_stream(stream)
                stream.finish(result)
            elif kind.acknowledged is not None and not kind.acknowledged(call.params, result):
                self._fail_stream_call(call, stream, self._acknowledged_another(call.method))
                return
        if call.map_result is not None:
            result = call.map_result(result)
        self.desk.settle(call, result)

    def _on_failure(self, call: Call, failure: Failure) -> None:
        error = refusal(failure, call.method)
        if isinstance(call.stream, EventStream):
            self._fail_stream_call(call, call.stream, error)
        else:
            self.desk.fail(call, error)

    def _fail_stream_call(self, call: Call, stream: EventStream, error: ExthostError) -> None:
        error.extension = self.desk.extension
        self.state.close_stream(stream)
        self.desk.fail(call, causes.copy_of(error))
        stream.fail(error)

    def _acknowledged_another(self, method: str) -> ProtocolViolation:
        return ProtocolViolation(
            "X0605",
            f"it acknowledged another stream than the one that {method} opened",
            help="the extension must answer with the id that it was given",
            evidence=self.witness.evidence(),
        )

    # -- what the child says of its own accord -----------------------------------------------

    def _on_notice(self, notice: Notice, size: int) -> None:
        method, params = notice
        if self.state.is_event(method):
            streams = self.state.streams_for(method, params)
            if not streams:
                self.witness.drop("events of no open stream")
            for stream in streams:
                self._on_event(stream, method, params, size)
        meaning = self.dialect.notices.get(method)
        meant = meaning(params) if meaning is not None else None
        if type(meant) is Log:
            self.witness.log("log", meant.level, meant.text)
        elif type(meant) is OfferStale and self._on_stale is not None:
            self._on_stale()
        if Noticed in self.desk.bus.kinds:
            self.desk.bus.publish(Noticed(self.desk.extension, method, params))

    def _on_event(self, stream: StreamQueue, method: str, params: Any, size: int) -> None:
        assert isinstance(stream, EventStream)
        decoded = stream.kind.decode(method, params)
        if decoded is None:
            self.witness.drop("events that could not be read")
            return
        room = stream.room(size, lambda: self.state.others_wait(stream))
        if room is Room.OVERRUN:
            self.state.close_stream(stream)
            stream.fail(self._overrun())
            return
        stream.push(decoded.event, size)
        if decoded.terminal:
            self.state.close_stream(stream)
            stream.finish(decoded.event)
        elif room is Room.PAUSE and not self.life.exited.done():
            stream.paused = self._read_on
            self._pause()

    def _overrun(self) -> UsageError:
        return UsageError(
            "X1306",
            "this stream was not read: its queue is full, and other calls wait behind it",
            extension=self.desk.extension,
            help="read the stream faster, or leave it when you have what you need",
        )

    def _on_noise(self, noise: Noise) -> None:
        if self.dialect.traits.noise == "fatal":
            raise ProtocolViolation(
                "X0602",
                f"it wrote something that is no message: {noise.why}",
                extension=self.desk.extension,
                help="an extension must write nothing but messages to stdout",
                evidence=self.witness.evidence(noise.data),
            )
        self.witness.stray(noise.data, noise.why)

    def _on_skipped(self, skipped: Skipped) -> None:
        if skipped.why != "too long":
            self.witness.stray(skipped.head, skipped.why)
            return
        cap = self.limits.max_message
        why = f"it sent a message of {skipped.size:,} bytes, over the limit of {cap:,}"
        self.witness.drop("messages over the size limit")
        self.witness.log("stdout", logging.WARNING, why)
        number = self._codec.answers(skipped.head)
        call = self.state.match(number) if number is not None else None
        if call is not None:
            error = ProtocolViolation(
                "X0603",
                f"{why}, in answer to {call.method}",
                help="raise limits.max_message for this extension, or ask for less",
                evidence=self.witness.evidence(skipped.head),
            )
            self.desk.fail(call, error)

    def _on_framing_broken(self, broken: Broken) -> None:
        raise ProtocolViolation(
            "X0601",
            f"its output cannot be read any further: {broken.why}",
            extension=self.desk.extension,
            help=f"does it speak {self.dialect.name}, and nothing else, on its stdout?",
            evidence=self.witness.evidence(broken.head),
        )

    # -- the end -----------------------------------------------------------------------------

    def _on_stdout_end(self) -> None:
        self._pause()
        broken = self._framing.end()
        if self.life.child.see_exit() is not None:
            self._conclude(causes.died(self.witness, broken))
        elif broken is not None:
            self.life.soon_over(causes.died(self.witness, broken))
        else:
            self.life.soon_over(causes.closed_pipe(self.witness, "stdout"))

    def _on_broken_stdin(self) -> None:
        self.life.soon_over(causes.closed_pipe(self.witness, "stdin"))

    def _on_stall(self) -> None:
        self._conclude(causes.stalled(self.witness, self._inlet.patience))

    def _conclude(self, cause: Cause) -> None:
        """The conversation is over: tell everyone who waits, then see the process out."""
        if self.state.phase is Phase.CLOSED:
            return
        self.witness.drain()
        self._pause()
        with self.lock:
            calls, streams = self.state.end()
        self.cause = cause
        self.desk.detach(self)
        for call in calls:
            call.session = None
            self.desk.give_back(call, cause(call.method))
        for stream in streams:
            if isinstance(stream, EventStream) and not self.desk.still_waits(stream):
                stream.fail(cause("the stream"))
        self._inbound.end()
        if self._closing is None:
            self.life.kill()
        self.life.concluded()
        self.ended.set_result(None)

    def break_off(self) -> None:
        """End the conversation now, without a word."""
        self._conclude(causes.closed_by_us(self.witness))

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
