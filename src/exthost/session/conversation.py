"""The pure state of one end of one conversation: calls and bytes in, effects out.

A `Conversation` knows no event loop, clock, lock or file descriptor, so its tests run without a
process. It is the only place where a reply meets its request. Its drivers read and write the pipes
and perform the effects: the session (`session.py`), `exthost check`, replays and test vectors. A
driver with several threads holds its own lock around each method, except `receive_result`.

    open, move      change the phase: handshake, open, draining, closed
    send            numbers the request of a call, keeps the call and returns the frame
    begin           starts a call that is more than a single request
    subscribe       sends a request that stays open
    resume, continue_without_reply   continue a call of several requests
    request, encode return the frame of a request, or of any message
    expect          in some dialects: which request the next frame is
    receive         decodes the output of the other end and returns the effects
    receive_result  takes a frame that is the result of one call, and nothing else
    leave           closes a stream
    abandon         gives up a call
    end             closes the conversation; returns the calls in flight

Two more serve the reader of the child's output, which slows down a child that writes much that no
call waits for: `take_unawaited_units` (the cost of such messages) and `may_serve_call`. The rest
are queries and `observe`.

A conversation has one of two roles. With the role HOST, the other end is the child (the process of
the extension, which is also called the guest). With the role GUEST, this end is the child: its
calls are requests to the host, and a `ServeRequest` is a request of the host. Streams and the
meanings of notifications exist only in the role HOST.

The rules of this module:
- a reply with an old id is late and one with a future id is unknown; both are counted and dropped;
- in positional dialects (replies carry no id and match requests by order) a reply belongs to the
  call that has waited longest, if that call was sent before the reply was read;
- an event goes to its streams (`stream_table.py`).
"""

import logging
from collections.abc import Callable
from typing import Any

from exthost.dialects.base import Dialect
from exthost.dialects.codec import Positional, Role
from exthost.dialects.meanings import Progress
from exthost.dialects.steps import Outgoing, Subscribe
from exthost.errors import ExthostError, ProtocolViolation
from exthost.model.messages import Batch, Failure, Message, Noise, Notification, Reply, Request
from exthost.model.offer import Offer
from exthost.session import failures
from exthost.session.call import Call
from exthost.session.effects import (
    Completions,
    Count,
    Effect,
    End,
    Failed,
    Interrupt,
    Notified,
    SendInternal,
    ServeRequest,
    Stray,
    SubscriptionEnded,
    WriteFrame,
    join_frame,
)
from exthost.session.observation import MessageObserver
from exthost.session.operations import Operations
from exthost.session.phase import PHASES, Phase
from exthost.session.replies import ANSWER, DELIVER, GeneratorHandler, Switch
from exthost.session.requests import RequestTable
from exthost.session.stream_queue import StreamQueue
from exthost.session.stream_table import StreamTable
from exthost.session.unawaited import unawaited_units
from exthost.wire.framing import READ_BYTES, Broken, Bytes, Framing, Item, Skipped

_log = logging.getLogger("exthost.session")

NOT_TAKEN: Any = object()
"""What `Conversation.receive_result` returns for a frame that it does not take."""

# The exceptions that the code of a dialect raises for a reply that it cannot read, on purpose or
# because of a bug. `receive_result` catches only these, because it runs in the caller's thread:
# another exception there is that of a signal handler, such as a time limit, and is the caller's.
_READING_ERRORS = (
    ExthostError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

# How much of a stray line (output that is not a message) is searched for an id. Limited, because a
# child may write very many such lines.
_SEARCHED_BYTES = 256


class Conversation:
    """One end of one conversation in one dialect."""

    __slots__ = (
        "_codec",
        "_is_positional",
        "_meanings",
        "_observer",
        "_operations",
        "_read_up_to",
        "_stream_kinds",
        "_streams",
        "decode",
        "decode_replies",
        "dialect",
        "framing",
        "max_message",
        "pending",
        "phase",
        "requests",
        "send",
        "unawaited_units",
    )

    def __init__(
        self,
        dialect: Dialect,
        max_message: int,
        first_id: int | None = None,
        role: Role = Role.HOST,
    ) -> None:
        initial_id = dialect.traits.first_id if first_id is None else first_id
        self.dialect = dialect
        self.phase = Phase.HANDSHAKE
        self.framing: Framing = dialect.framing(max_message)
        self._codec = dialect.codec(role)
        self._observer: MessageObserver | None = None
        self._meanings = dialect.notifications if role is Role.HOST else {}
        self._stream_kinds = dialect.streams if role is Role.HOST else {}
        self.decode = self._codec.decode
        # Decodes a whole read, faster than `decode` does frame by frame: returns `(id, result)` for
        # each frame, or None if a frame is not a plain reply. Not every codec has it.
        self.decode_replies: Callable[[list[Any]], list[Any] | None] | None
        self.decode_replies = getattr(self._codec, "decode_replies", None)
        self._is_positional = dialect.traits.positional
        self.max_message = max_message
        self._read_up_to = initial_id  # a read can only have replies to ids below this one
        self.requests = RequestTable(self._codec, self.framing, max_message, initial_id)
        self.send = self.requests.send
        self.pending = self.requests.pending
        self._operations = Operations(dialect, self.requests)
        self._streams: StreamTable | None = None
        # The cost of the messages that served no call, see `take_unawaited_units`.
        self.unawaited_units = 0

    def __repr__(self) -> str:
        return f"<Conversation {self.phase.value}, {len(self.pending)} in flight>"

    @property
    def offer(self) -> Offer:
        """The offer of the extension in the handshake, such as its tools."""
        return self._operations.offer

    def open(self, offer: Offer) -> None:
        """Go to the phase OPEN, because the handshake is done."""
        self.move("open")
        self._operations.offer = offer

    def move(self, event: str) -> None:
        """Change the phase by the event "open", "drain" or "end". Raises KeyError if the table has
        no such change, which is a bug in exthost."""
        self.phase = PHASES[self.phase, event]

    def observe(self, observer: MessageObserver | None) -> None:
        """Let an observer see each message from now on; None ends that."""
        self._observer = self.requests.observer = observer

    def expect(self, method: str) -> None:
        """Decode the next frame as a request of this method. Does nothing unless the frames of the
        dialect do not name their methods."""
        if isinstance(self._codec, Positional):
            self._codec.expect(method)

    # -- calls -------------------------------------------------------------------------------

    def request(self, request: Request, call: Call | None = None) -> bytes:
        """Number a request, unless it has an id, and return its frame. Its reply ends `call`, or
        else a new call, whose value is the reply itself: a Reply or a Failure."""
        if call is None:
            call = Call(request.method, request.params, ANSWER, 0.0, 0.0)
        return join_frame(self.requests.send_step(call, *request))

    def encode(self, message: Message) -> bytes:
        """Return the frame of a message. A request is sent as by `request`."""
        if isinstance(message, Request):
            return self.request(message)
        return self.requests.encode(message)

    def begin(self, call: Call) -> list[Effect]:
        """Start a call that is more than a single request: a stream or a generator."""
        effects: list[Effect] = []
        stream = call.reply_handler.stream
        if stream is None:
            self._operations.run(call, None, effects)
        else:
            self._stream_table.open(stream)  # first, because an event may come before the reply
            try:
                effects.append(WriteFrame(self.send(call)))
            except ExthostError:
                self._stream_table.close(stream)
                raise
        return effects

    def subscribe(self, subscription: Subscribe) -> list[Effect]:
        """Send a request that stays open; its reply is its end."""
        effects: list[Effect] = []
        self._operations.subscribe(subscription, effects)
        return effects

    def resume(self, call: Call, id: Any, answer: Reply | Failure) -> list[Effect]:
        """Continue a generator with the host's answer to its `AskHost`, unless the call has ended
        meanwhile."""
        effects: list[Effect] = []
        if self.pending.pop(id, None) is call:
            self._operations.run(call, answer, effects)
        return effects

    def continue_without_reply(self, call: Call) -> list[Effect]:
        """Continue a generator whose optional request got no reply in time."""
        effects: list[Effect] = []
        self.requests.forget_optional(call)
        self._operations.run(call, None, effects)
        return effects

    # -- receiving ---------------------------------------------------------------------------

    def receive_bytes(self, data: Bytes) -> list[Effect]:
        """Take the bytes of one read; return the effects, in order."""
        return self.receive(self.framing.feed(data))

    def receive(self, items: list[Item]) -> list[Effect]:
        """Take the frames of one read; return the effects, in order.

        A plain tuple is a decoded reply without an error: `(id, result)`. Codecs return it in place
        of a `Reply`, because most messages are such replies. Every other message is an object of
        its own class. The loop handles plain replies to simple calls itself: every call runs
        through it, and a function for each reply would take longer.
        """
        self._read_up_to = self.requests.next_id
        effects: list[Effect] = []
        # The current run of completed calls. It is added to the effects with its first call. Where
        # another effect may follow, `completed = []` begins a new run, which keeps the order.
        completed: Completions = []
        pop, decode, observer = self.pending.pop, self.decode, self._observer
        messages: list[Any] = items
        if (
            len(items) > 1
            and self.decode_replies is not None
            # Only the first frame can be larger than a read. It is decoded alone, because its size
            # is part of its cost, and a decoded reply has no size (see `_size`).
            and len(items[0]) <= READ_BYTES
            and observer is None  # an observer sees each frame
        ):
            messages = self.decode_replies(items) or items
        try:
            for item in messages:
                message = item
                if type(item) is not tuple:  # `decode_replies` has not decoded it
                    if type(item) is Broken:
                        self._report(item, item, None)
                        raise failures.unreadable_output_error(item, self.dialect.name)
                    message = item if type(item) is Skipped else decode(item)
                    if type(message) is not tuple:
                        completed = []
                        self._handle(message, item, _size(item), effects)
                        continue
                id, result = message
                call = pop(id, None)
                if observer is not None:
                    observer.received(message, item, call)
                if call is None or not call.reply_handler.is_simple:
                    # No call waits for it, or the reply does more than end its call.
                    completed = []
                    before = len(effects)
                    self._handle_reply(call, Reply(id, result), effects)
                    self.unawaited_units += unawaited_units(effects[before:], _size(item))
                    continue
                if call.reply_handler is not DELIVER:
                    try:
                        result = call.reply_handler.on_result(call.params, result)
                    except Exception as error:
                        completed = []
                        effects.append(self._operations.make_failed_effect(call, error))
                        continue
                    if type(result) is Switch:
                        completed = []
                        self._operations.switch(call, result, effects)
                        continue
                if not completed:
                    effects.append(completed)
                completed.append((call, result))
        except ProtocolViolation as violation:
            effects.append(End(failures.Violated(violation)))
        except Exception as error:  # the dialect's code failed
            _log.exception("the output of an extension could not be read (%s)", self.dialect.name)
            effects.append(End(failures.NotUnderstood(error)))
        except BaseException as interrupt:  # the replies decoded before it must not be lost
            effects.append(Interrupt(interrupt))
        return effects

    def receive_result(self, call: Call, frame: Bytes, may_end: Callable[[Any], bool]) -> Any:
        """Take a frame if it is the plain result of this call: remove the call and return its
        value. Return NOT_TAKEN, and change nothing, if the frame is anything else, if the result
        cannot be read, or if `may_end` returns False for the value.

        The thread of the caller may do this beside the driver's thread, because the only change is
        one step: the call is removed. Whichever thread removes it ends it.
        """
        handler = call.reply_handler
        try:
            message = self.decode(frame)
            if type(message) is not tuple or message[0] != call.id or not handler.is_simple:
                return NOT_TAKEN
            value = message[1]
            if handler is not DELIVER:
                value = handler.on_result(call.params, value)
        except _READING_ERRORS:  # `receive` gets the frame again, and reports the error
            return NOT_TAKEN
        if type(value) is Switch or not may_end(value):
            return NOT_TAKEN
        return value if self.pending.pop(call.id, None) is call else NOT_TAKEN

    def take_unawaited_units(self) -> int:
        """Return the cost of the messages that served no call, since this method was last called.
        The session takes it after each read, for the flood budget of its process, which limits how
        much of such output is read at once."""
        units, self.unawaited_units = self.unawaited_units, 0
        return units

    def _handle(self, message: Any, item: Item, size: int, effects: list[Effect]) -> None:
        """Handle any message except a plain reply, and add its cost if it serves no call. `item`
        is the frame that contains it."""
        if isinstance(message, Batch) and message.messages:
            for part in message.messages:
                self._handle(part, item, size // len(message.messages), effects)
            return
        before = len(effects)
        if isinstance(message, Reply | Failure):
            id = message.id
            call = self.pending.pop(id, None) if id is not None else self._take_oldest()
            self._report(message, item, call)
            self._handle_reply(call, message, effects)
        elif isinstance(message, Notification):
            self._handle_notification(message, item, size, effects)
        else:
            self._report(message, item, None)
            match message:
                case Request():
                    effects.append(ServeRequest(message))
                case Noise():
                    self._handle_noise(message, effects)
                case Skipped():
                    self._handle_skipped(message, effects)
        self.unawaited_units += unawaited_units(effects[before:], size)

    def _report(self, message: Any, item: Item, call: Call | None) -> None:
        if self._observer is not None:
            self._observer.received(message, item, call)

    def _take_oldest(self) -> Call | None:
        """Remove and return the call that a reply without an id belongs to, or None.

        In dialects with ids it belongs to no call: it is an error about a message that the child
        could not read. A reply never belongs to a call that was sent after the reply was read.
        """
        return self.requests.take_oldest(self._read_up_to) if self._is_positional else None

    def _handle_reply(
        self, call: Call | None, reply: Reply | Failure, effects: list[Effect]
    ) -> None:
        """Handle a reply that may do more than end a simple call."""
        if call is None:
            self._handle_unmatched(reply, effects)
            return
        handler = call.reply_handler
        if isinstance(handler, GeneratorHandler):
            self._operations.run(call, reply, effects)
        elif handler.stream is not None:
            self._stream_table.handle_reply(call, handler.stream, reply, effects)
        else:
            try:
                if isinstance(reply, Failure):
                    value = handler.on_failure(call.method, call.params, reply)
                else:
                    value = handler.on_result(call.params, reply.result)
            except Exception as error:
                effects.append(self._operations.make_failed_effect(call, error))
            else:
                if type(value) is Switch:
                    self._operations.switch(call, value, effects)
                else:
                    effects.append([(call, value)])

    def _handle_unmatched(self, reply: Reply | Failure, effects: list[Effect]) -> None:
        """Handle a reply that matches no call. In a positional dialect this is fatal, because every
        later reply would match the wrong call."""
        id = reply.id
        subscriptions = self.requests.subscriptions
        if subscriptions and subscriptions.pop(id, None) is not None:
            failure = reply if isinstance(reply, Failure) else None
            effects.append(SubscriptionEnded(reply.id, failure))
        elif self._is_positional:
            raise failures.not_a_message_error(Noise(b"", "an answer without a request"))
        elif not self.requests.take_unanswered(id):
            is_old = type(id) is int and id < self.requests.next_id
            count = Count("late or repeated replies" if is_old else "replies without a request")
            if id is None and isinstance(reply, Failure):  # it could not read a request
                warning = "it answered with an error that names no request"
                count = Count("errors that name no request", warning, reply.message)
            effects.append(count)

    def _handle_noise(self, noise: Noise, effects: list[Effect]) -> None:
        """Handle bytes that are not a message. They may have been meant as the reply to a call."""
        if self._is_positional:
            raise failures.not_a_message_error(noise)
        effects.append(Stray(noise.data, noise.reason))
        id = self._codec.reply_id_in_prefix(noise.data[:_SEARCHED_BYTES])
        if id is None or (call := self.pending.get(id)) is None:
            return
        # In the handshake, the diagnosis of all output finds a better reason.
        if noise.is_whole and self.phase is not Phase.HANDSHAKE:
            error = failures.unreadable_reply_error(noise, call.method)
            self._fail_unread(call, error, "its answer could not be read", effects)
        else:  # perhaps a reply that was printed for debugging; the error of a timeout shows it
            call.unreadable_reply = id, noise

    def _handle_skipped(self, skipped: Skipped, effects: list[Effect]) -> None:
        """Handle bytes that are not a frame. If they are a reply over the size limit, fail its
        call."""
        if skipped.reason != "too long":
            effects.append(Stray(skipped.head, skipped.reason))
            return
        reason = f"it sent a message longer than the limit of {self.max_message:,} bytes"
        effects.append(Count("messages over the size limit", reason))
        id = self._codec.reply_id_in_prefix(skipped.head)
        call = self.pending.get(id) if id is not None else None
        if call is not None:
            error = failures.reply_too_long_error(reason, call.method, skipped.head)
            self._fail_unread(call, error, "its answer was too large", effects)

    def _fail_unread(
        self, call: Call, error: ExthostError, reason: str, effects: list[Effect]
    ) -> None:
        """Fail a call whose reply cannot be read. `reason` is sent to a stream's sender."""
        self.requests.forget(call)
        if call.reply_handler.stream is not None:
            self._stream_table.leave(call.reply_handler.stream, reason, effects)
        effects.append(Failed(call, error))

    def _handle_notification(
        self, notification: Notification, item: Item, size: int, effects: list[Effect]
    ) -> None:
        """Handle a notification: an event of a stream, progress of a call, or anything else."""
        method, params = notification
        read_meaning = self._meanings.get(method)
        meaning = read_meaning(params) if read_meaning is not None else None
        call = None
        if type(meaning) is Progress and type(meaning.id) in (int, str):
            call = self.pending.get(meaning.id)
        if self._observer is not None:
            streams = self._streams.find(method, params) if self._streams is not None else None
            self._observer.received(notification, item, streams[0].call if streams else call)
        if self._stream_kinds:
            self._stream_table.on_notification(method, params, size, effects)
        effects.append(Notified(notification, meaning, call))
        if self._operations.waits:
            self._operations.on_notification(notification, effects)

    def may_serve_call(self, head: bytes) -> bool:
        """Return whether an incomplete message that begins with these bytes may serve a call. The
        reader asks this about a large message, and reads slowly what serves no call."""
        if self.phase is Phase.HANDSHAKE or self._operations.waits or self.streams():
            return True
        if not self.pending:
            return False
        id = self._codec.reply_id_in_prefix(head)
        if id is not None:
            return id in self.pending
        may_be_reply = getattr(self._codec, "may_be_reply", None)
        return may_be_reply is None or may_be_reply(head)

    # -- streams -----------------------------------------------------------------------------

    @property
    def _stream_table(self) -> StreamTable:
        if self._streams is None:
            self._streams = StreamTable(self._stream_kinds.values())
        return self._streams

    def streams(self) -> set[StreamQueue]:
        """Return every open stream."""
        return set() if self._streams is None else self._streams.all()

    @property
    def stream_count(self) -> int:
        """How many streams are open."""
        return 0 if self._streams is None else self._streams.count

    def leave(self, stream: StreamQueue, reason: str) -> list[Effect]:
        """Close a stream whose consumer has left."""
        effects: list[Effect] = []
        self._stream_table.leave(stream, reason, effects)
        return effects

    def others_wait(self, stream: StreamQueue) -> bool:
        """Return whether another call, or another stream whose queue is not full, waits for output
        of the child."""
        if any(call.reply_handler.stream is not stream for call in self.pending.values()):
            return True
        return any(not other.is_full for other in self.streams() if other is not stream)

    # -- giving up, ending -------------------------------------------------------------------

    def abandon(self, call: Call, reason: str) -> list[Effect]:
        """Give up a call. Send the dialect's cancellation, if it has one. In a positional dialect
        end the conversation, because a late reply would match the next call."""
        effects: list[Effect] = []
        was_pending = self.requests.forget(call)
        handler = call.reply_handler
        if handler.stream is not None:
            self._stream_table.leave(handler.stream, reason, effects)
        if was_pending:
            message: Outgoing | None = None
            if isinstance(handler, GeneratorHandler):
                handler.close()
                message = handler.cancel_message
            if self._is_positional:
                # Now, because the late reply may be in the pipe and must not match another call.
                cause = failures.GivenUp(self.dialect.name, call.method, reason)
                effects.append(End(cause))
            elif self.phase is not Phase.HANDSHAKE:
                if message is None and self.dialect.cancel_message is not None:
                    request = Request(call.method, call.params, call.id)
                    message = self.dialect.cancel_message(request, reason)
                if message is not None:
                    effects.append(SendInternal(message))
        return effects

    def calls(self) -> list[Call]:
        """Return every call in flight, including those of acknowledged streams."""
        calls = list(self.pending.values())
        if self._streams:
            calls += [stream.call for stream in self._streams.all() if stream.acknowledged]
        return calls

    @property
    def is_idle(self) -> bool:
        """Whether no call of a user and no stream is in flight."""
        if self._streams:
            return False
        return not self.pending or all(call.internal for call in list(self.pending.values()))

    def end(self) -> list[Call]:
        """Close the conversation; return the calls that were in flight."""
        self.move("end")
        # One by one, because a caller's thread may take its own call at the same moment.
        calls = [call for id in list(self.pending) if (call := self.pending.pop(id, None))]
        calls += self.calls()  # those of streams
        if self._streams is not None:
            self._streams.clear()
        self.requests.subscriptions = None
        return calls


def _size(item: Any) -> int:
    """Return the number of bytes of an item of a read; 0 for a small frame that is decoded."""
    if isinstance(item, Skipped):
        return item.size
    return 0 if type(item) is tuple else len(item)
