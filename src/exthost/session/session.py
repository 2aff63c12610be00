"""One live session with one child process of an extension: does the I/O for the pure
`Conversation`, which matches replies to calls.

It reads the child's stdout, passes the frames to the conversation, and performs the effects that
the conversation returns. It writes the frames that the conversation encodes.

    send_call → Conversation.send → StdinWriter    read → Conversation.receive → effects → perform

**The end.** A session ends once, in `end`, for one cause: the child exited, closed a pipe, broke
the rules, stopped reading, or was closed by the host. All its calls end at that moment.

**Threads.** Everything runs on the loop's thread, except what the blocking API runs on its callers'
threads: `send_call` of a simple call, and `BlockingReader.read_reply`. `lock` guards the
conversation and the writes. Without such callers (`is_shared` is false), a simple call takes no
lock.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from functools import partial
from threading import get_ident
from typing import Any

from exthost.dialects.base import Dialect
from exthost.errors import ExthostError
from exthost.model.messages import Message, Notification
from exthost.model.offer import Offer
from exthost.model.spec import Limits
from exthost.process.child_process import ChildProcess
from exthost.process.shutdown import CLEAN_KILL_SECONDS, KILL_SECONDS
from exthost.process.stdin_writer import StdinWriter
from exthost.process.stdout_reader import StdoutReader
from exthost.session import failures
from exthost.session.blocking_reader import make_blocking_reader
from exthost.session.call import Call
from exthost.session.call_owner import CallOwner
from exthost.session.conversation import Conversation
from exthost.session.diagnostics import Diagnostics
from exthost.session.effect_performer import EffectPerformer
from exthost.session.effects import Effect, Frame
from exthost.session.failures import EndCause
from exthost.session.inbound import Handler
from exthost.session.internal_calls import InternalCalls
from exthost.session.latch import Latch
from exthost.session.observation import MessageObserver, SafeObserver
from exthost.session.phase import Phase
from exthost.session.process_lifetime import ProcessLifetime, scale_steps
from exthost.session.stream import EventStream
from exthost.session.stream_queue import StreamQueue
from exthost.wire.framing import Item

# While answers of more than this wait for room in the stdin pipe, stdout is not read. Otherwise a
# child that sends requests and does not read the answers would fill the host's memory. Calls do not
# count: a child that writes a long reply reads the next call only after the host has read it.
_MAX_UNWRITTEN_BYTES = 1024 * 1024


class Session:
    """One child, one dialect, one conversation."""

    __slots__ = (
        "_close_task", "_idle", "_is_shared", "_owner", "_performer", "_reader",
        "_reads_before_sending", "_send", "_stop_seconds", "_unwritten_answers", "_writer",
        "blocking_reader",
        "busy_since", "cause", "conversation", "diagnostics", "dialect", "ended", "handlers",
        "internal", "is_batched", "lifetime", "limits", "lock", "loop", "lost_calls",
        "on_stale_offer", "pending", "retired", "thread", "wire_id",
    )  # fmt: skip

    def __init__(
        self,
        child: ChildProcess,
        dialect: Dialect,
        owner: CallOwner,
        limits: Limits,
        *,
        first_id: int | None = None,
        handlers: Mapping[str, Handler] | None = None,
        wire_id: str = "",
        stop_seconds: float | None = None,
    ) -> None:
        """`handlers` handle the child's requests to the host. `wire_id` is the extension's id in
        its messages; "" means its id in this host. `stop_seconds` is the total time of the shutdown
        steps; None means the times of the dialect."""
        assert limits.max_message is not None and limits.write is not None
        loop = owner.loop
        self.dialect = dialect
        self.limits = limits
        self.wire_id = wire_id or owner.extension
        self.handlers: Mapping[str, Handler] = {} if handlers is None else handlers
        self.on_stale_offer: Callable[[], None] | None = None  # called when the tools have changed
        self.cause: EndCause | None = None  # why the session ended; None while it lives
        self.retired = False  # ended without a fault, because it could take no other call
        self.is_batched = False  # more calls follow in this iteration: write them together
        # In a pool: when the process got a call while it was idle, or when it last replied.
        self.busy_since = 0.0
        self.lost_calls = 0  # how many calls were in flight when it ended
        self.ended: asyncio.Future[None] = loop.create_future()
        self.conversation = Conversation(dialect, limits.max_message, first_id)
        # Reentrant, because an observer of the messages may send a notification.
        self.lock = threading.RLock()
        stdin, stdout, stderr = child.pipe_ends()
        self.diagnostics = Diagnostics(
            owner.extension, child, owner.bus, loop, dialect.traits, stderr
        )
        self._owner = owner
        self._stop_seconds = stop_seconds
        self.loop = loop
        self._is_shared = owner.is_shared
        self.thread = get_ident()
        self._reads_before_sending = dialect.traits.positional
        self.pending = self.conversation.pending
        self._send = self.conversation.send
        self._writer = StdinWriter(
            stdin,
            loop,
            self.lock,
            stall_seconds=limits.write,
            close_pipe=child.close_stdin,
            on_stall=self._on_stall,
            on_broken=self._on_broken_stdin,
        )
        child.on_closed_stdin(self._on_broken_stdin)
        self._reader = StdoutReader(
            stdout,
            self.conversation.framing,
            loop,
            on_items=self._on_items,
            on_end=self._on_end_of_output,
            may_serve_call=self.conversation.may_serve_call,
        )
        self.blocking_reader = make_blocking_reader(self._reader, self.conversation, owner)
        self.lifetime = ProcessLifetime(
            child,
            self._writer,
            self.diagnostics,
            owner.bus,
            loop,
            on_end=self.end,
            on_exit=self._reader.finish,  # reads also what back-pressure left in the pipe
        )
        self._performer = EffectPerformer(self, owner, self.conversation, self.diagnostics)
        self.internal = InternalCalls(self, owner, self._performer.hold)
        self._unwritten_answers = 0  # bytes, since the last time when everything was written
        self._idle: Latch | None = None  # set when nothing is in flight; None if no task waits
        self._close_task: asyncio.Task[None] | None = None
        owner.session_began(self)
        self._reader.resume()

    def __repr__(self) -> str:
        phase = self.conversation.phase.value
        return f"<Session {self.diagnostics.extension!r} {phase}, {len(self.pending)} in flight>"

    def open(self, offer: Offer) -> None:
        """Accept calls: the handshake is done. Raises if the child ended at the same moment."""
        if self.conversation.phase is not Phase.HANDSHAKE:
            raise self.closed_error("the handshake")
        self.conversation.open(offer)

    @property
    def next_id(self) -> int:
        """The id of the next request."""
        return self.conversation.requests.next_id

    def observe(self, observer: MessageObserver) -> Callable[[], None]:
        """Let an observer see each message; return a function that ends the observation."""
        self.conversation.observe(SafeObserver(observer))
        # A blocking caller that reads its reply itself would bypass the observer.
        self._reader.allow_loans(False)

        def end() -> None:
            self.conversation.observe(None)
            self._reader.allow_loans(True)

        return end

    def resume_reading(self) -> None:
        """Resume reading the child's output, if reading was paused."""
        self._reader.resume()

    @property
    def first_output(self) -> bytes:
        """The first bytes of the child's output; none after `forget_first_output`."""
        return self._reader.first_output

    def forget_first_output(self) -> None:
        """Keep the first bytes no longer: the process is ready."""
        self._reader.forget_first_output()

    def unread_bytes(self) -> int:
        """Return how many bytes the child has not read yet, with those that are held back."""
        hold = self._performer.hold
        return self._writer.unread_bytes() + (0 if hold is None else hold.held_bytes)

    # -- sending -----------------------------------------------------------------------------

    def send_call(self, call: Call) -> None:
        """Send a call; the owner gets its outcome. Raises if the call cannot be sent.

        A single call is written at once. If only one thread uses the session, and other calls are
        in flight or will follow (`is_batched`), the frames of one iteration are written together.
        """
        if self.cause is not None:
            raise self.closed_error(call.method)
        if self._reads_before_sending:
            self._read_before_sending(call.method)
        call.session = self
        if not call.reply_handler.is_simple:
            self.drive(self.conversation.begin, call)
        elif self._is_shared:
            with self.lock:
                if self.cause is not None:  # the session may have ended while this thread waited
                    raise self.closed_error(call.method)
                self._write_frame(self._send(call))
        else:
            frame = self._send(call)
            if type(frame) is bytes and (len(self.pending) > 1 or self.is_batched):
                self._writer.gather(frame)
            else:
                self._write_frame(frame)
        reader = self._reader
        # Reading is paused for a slow stream, or stdout is lent: a blocking caller reads the reply.
        if not reader.is_reading and (reader.loan is None or get_ident() == self.thread):
            self.loop.call_soon_threadsafe(reader.resume)

    def write(self, frame: Frame) -> None:
        """Write a frame that the conversation encoded, together with others as in `send_call`."""
        with self.lock:
            if self.cause is not None:
                return
            if type(frame) is bytes and len(self.pending) > 1 and not self._is_shared:
                self._writer.gather(frame)
            else:
                self._write_frame(frame)

    def _write_frame(self, frame: Frame) -> None:
        if type(frame) is bytes:
            self._writer.write(frame)
        else:
            self._writer.write_parts(*frame)

    def _read_before_sending(self, method: str) -> None:
        """Read before a request is sent, in positional dialects (replies carry no id): output that
        the child has written already is not a reply to this request, and must not match it."""
        if not self.pending and self._reader.is_reading and get_ident() == self.thread:
            wakes = self._owner.wakes
            wakes.in_task = True  # the loop resumes callers later: no task runs inside another
            try:
                self._reader.read_now()
            finally:
                wakes.in_task = False
            if self.cause is not None:
                raise self.closed_error(method)

    def send(self, message: Message) -> None:
        """Send a message that has no reply: a notification, or an answer to the child's request."""
        # In some dialects notifications are held back while the child waits for an answer.
        hold = self._performer.hold if type(message) is Notification else None
        if hold is not None and hold.is_active:
            # Encoded now, because the caller gets the error of a message that cannot be encoded.
            frame = self.conversation.requests.encode_for_later(message)
            if hold.keep(partial(self._send_held, frame), len(frame)):
                return
        with self.lock:
            if self.cause is None:
                frame = self.conversation.encode(message)
                self._writer.write(frame)
                if not self._writer.unwritten_bytes:
                    self._unwritten_answers = 0
                elif type(message) is not Notification:
                    self._unwritten_answers += len(frame)
        if self._unwritten_answers > _MAX_UNWRITTEN_BYTES and get_ident() == self.thread:
            self._pause_until_drained()

    def _send_held(self, frame: bytes) -> None:
        """Write a notification that was held back."""
        with self.lock:
            if self.cause is None:
                self.conversation.requests.report_sent(frame)
                self._writer.write(frame)

    def _pause_until_drained(self) -> None:
        """Stop reading the child's output until the child has read what was sent."""

        async def resume() -> None:
            await self._writer.drained()
            self._unwritten_answers = 0
            self._reader.resume()

        if self._reader.is_reading:
            self._reader.pause()
            self.loop.create_task(resume())

    def recover_writes(self) -> None:
        """Complete a write that an exception has interrupted in another thread."""
        self._writer.recover()

    async def drained(self) -> None:
        """Wait until everything that was sent so far is in the pipe, or the child has ended."""
        await self._writer.drained()

    # -- giving up ---------------------------------------------------------------------------

    def abandon(self, call: Call, reason: str) -> None:
        """Give up a call, and send a cancellation if the dialect has one."""
        self.drive(self.conversation.abandon, call, reason)

    def leave_stream(self, stream: StreamQueue, reason: str) -> None:
        """Cancel a stream whose consumer has left."""
        self.drive(self.conversation.leave, stream, reason)

    def continue_without_reply(self, call: Call) -> None:
        """Continue a call whose optional request got no reply."""
        self.drive(self.conversation.continue_without_reply, call)

    # -- receiving ---------------------------------------------------------------------------

    def _on_items(self, items: list[Item]) -> None:
        """Handle one read, and then resume the callers whose calls it ended."""
        wakes = self._owner.wakes
        wakes.is_held = True
        try:
            if self._is_shared:
                self.drive(self.conversation.receive, items)
            else:
                self.perform(self.conversation.receive(items))
            if self.conversation.unawaited_units:
                self._reader.unawaited_units += self.conversation.take_unawaited_units()
        finally:
            wakes.is_held = False
            if wakes.ended or wakes.locks:
                wakes.wake()

    # -- performing effects ------------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:
        """Perform the effects of the conversation, in order."""
        for effect in effects:
            if type(effect) is list:
                self._owner.complete(effect)
            else:
                self._performer.perform(effect)
        if self._idle is not None and self.is_idle:
            self._idle.set()
            self._idle = None

    def drive(self, method: Callable[..., list[Effect]], *arguments: Any) -> None:
        """Call a method of the conversation while no other thread uses it, and perform the
        effects."""
        with self.lock:
            effects = method(*arguments)
        self.perform(effects)

    def pause_for(self, stream: EventStream) -> None:
        """Pause reading until the consumer of this stream, or of any other, has caught up: the
        consumer of another stream may read it to its end before it reads this one."""
        if not self.lifetime.exited.is_set:
            for paused in {stream, *self.conversation.streams()}:
                assert isinstance(paused, EventStream)
                paused.resume_reading = self._reader.resume
            self._reader.pause()

    # -- waiting until nothing is in flight --------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether no call of a user and no stream is in flight."""
        return self.conversation.is_idle

    async def until_idle(self) -> None:
        """Wait until nothing is in flight, or the session has ended. The owner must send no further
        call through it."""
        self._reader.take_back()
        while not (self.ended.done() or self.is_idle):
            if self._idle is None:
                self._idle = Latch(self.loop)
            await asyncio.wait([self._idle.future(), self.ended], return_when="FIRST_COMPLETED")

    # -- the end -----------------------------------------------------------------------------

    def _on_end_of_output(self) -> None:
        broken = self.conversation.framing.end()
        if self.lifetime.child.poll_exit() is not None:
            self.end(failures.Died(broken))
        else:
            self.lifetime.pipe_closed(failures.ClosedPipe("stdout", broken))

    def _on_broken_stdin(self) -> None:
        self.lifetime.pipe_closed(failures.ClosedPipe("stdin"))

    def _on_stall(self) -> None:
        self.end(failures.Stalled(self._writer.stall_seconds))

    def end(self, cause: EndCause, *, retired: bool = False) -> None:
        """End the conversation: return its calls to the owner, then let the process end."""
        if self.conversation.phase is Phase.CLOSED:
            return
        self.retired = retired
        self.diagnostics.drain_stderr()
        self._reader.close()
        if self._close_task is not None:  # the host ends the process, so its exit is not a fault
            cause = failures.ClosedByHost()
        with self.lock:
            self.cause = cause
            calls = self.conversation.end()
        self.lost_calls = sum(not call.internal for call in calls)
        self._owner.session_ended(self, calls)
        self._performer.cancel()
        if self._close_task is None:  # otherwise the shutdown steps end the process
            self.lifetime.kill()
        self.lifetime.release_after_exit()
        self.ended.set_result(None)

    def abort(self) -> None:
        """End the session and its process now, without the shutdown steps."""
        self.end(failures.ClosedByHost())
        self.lifetime.kill()

    async def kill_and_wait(self) -> None:
        """Abort, and wait for the process to exit. Works also in a loop that is being closed, in
        which the task that `close` creates would be cancelled."""
        self.abort()
        if not await self.lifetime.exits_within(CLEAN_KILL_SECONDS):
            self.lifetime.kill()
            await self.lifetime.exits_within(KILL_SECONDS)
        if self._close_task is not None:
            await asyncio.wait([self._close_task], timeout=KILL_SECONDS)

    async def close(self) -> None:
        """End the process by the shutdown steps of its dialect. Any task may close a session, at
        any time and more than once. If that task is cancelled, the shutdown still continues."""
        if self._close_task is None:
            self._close_task = self.loop.create_task(self._close())
        await asyncio.shield(self._close_task)

    async def _close(self) -> None:
        """Run the shutdown steps of the dialect, and end the conversation."""
        self._owner.stop_sending(self)
        if self.conversation.phase is Phase.CLOSED:
            await self.lifetime.shut_down((), self.internal.send)
        else:
            self.conversation.move("drain")
            steps = scale_steps(self.dialect.traits.shutdown_steps, self._stop_seconds)
            await self.lifetime.shut_down(steps, self.internal.send)
            self.end(failures.ClosedByHost())
        if self.lifetime.exited.is_set:
            await self.lifetime.released.future()

    def closed_error(self, method: str) -> ExthostError:
        """Return the error of a call of `method` for which this session ended too early."""
        cause = self.cause if self.cause is not None else failures.ClosedByHost()
        return cause.error(self.diagnostics, method)
