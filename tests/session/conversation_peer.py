"""Helpers for tests of `Conversation` without an event loop and without a process.

A conversation is the state of one end of a connection: it turns calls into frames (the bytes of one
message), and matches the replies with the calls. It does no I/O, but returns effects: values that
say what its session, which has the pipes, must do. The most common effect is a list of completed
calls with their results.

A test opens a conversation, sends calls, and passes it the bytes of an extension:

    conversation = open_conversation()
    call = send_call(conversation)
    assert conversation.receive_bytes(reply(call.id, 7)) == [[(call, 7)]]
"""

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from exthost.dialects.base import Dialect
from exthost.dialects.meanings import Progress
from exthost.errors import ExthostError
from exthost.model.messages import Incoming, Reply
from exthost.model.offer import Offer
from exthost.session.call import Call
from exthost.session.conversation import Conversation
from exthost.session.effects import Effect, Failed, Frame, WriteFrame
from exthost.session.replies import DELIVER, GeneratorHandler, ReplyHandler, StreamHandler
from exthost.session.stream_queue import StreamQueue
from exthost.wire.framing import Bytes
from exthost.wire.lines import Lines
from tests.toys import askback, byorder

MAX_MESSAGE = 4096  # bytes; small, so that tests can exceed it
OFFER = Offer(name="toy")  # what the extension announced in its handshake


def _progress(params: Any) -> Progress:
    return Progress(params["id"], params["done"])


class PlainCodec(askback.Codec):
    """JSON-RPC that returns replies as plain tuples, as the built-in codecs do."""

    def decode(self, frame: Bytes) -> Incoming:
        message = super().decode(frame)
        return (message.id, message.result) if isinstance(message, Reply) else message  # type: ignore[return-value]


# JSON-RPC in lines, with replies by id and both kinds of streams. A codec may also return replies
# as `Reply`; the built-in codecs do so for replies that are written in an uncommon way.
WITH_REPLY_OBJECTS = replace(
    askback.DIALECT,
    name="by id",
    framing=Lines,
    notifications=MappingProxyType({**askback.DIALECT.notifications, "progress": _progress}),
)
BY_ID = replace(WITH_REPLY_OBJECTS, codec=lambda role: PlainCodec())
BY_ID_DIALECTS = [BY_ID, WITH_REPLY_OBJECTS]
# Frames with a length, replies in the order of requests: abandoning a call ends the conversation.
BY_ORDER = byorder.DIALECT


def with_traits(dialect: Dialect, **traits: Any) -> Dialect:
    return replace(dialect, traits=replace(dialect.traits, **traits))


class StubCall(Call):
    """A call that nobody waits for."""

    def __init__(
        self, method: str = "echo", params: Any = None, reply_handler: ReplyHandler = DELIVER
    ) -> None:
        super().__init__(method, params, reply_handler, 10.0, 0.0)


def open_conversation(dialect: Dialect = BY_ID, first_id: int | None = None) -> Conversation:
    """Return a conversation whose handshake is done."""
    conversation = Conversation(dialect, MAX_MESSAGE, first_id)
    conversation.open(OFFER)
    return conversation


def send_call(conversation: Conversation, method: str = "echo", params: Any = None) -> StubCall:
    """Send a call that is a single request, and return it."""
    call = StubCall(method, params)
    conversation.send(call)
    return call


def open_stream(conversation: Conversation, method: str, params: Any = None) -> StreamQueue:
    """Send a request whose reply is a stream of events, and return the queue of the events."""
    kind = conversation.dialect.streams[method]
    queue = StreamQueue(kind, None if kind.key is None else params[kind.key])
    queue.params = params
    queue.call = StubCall(method, params, StreamHandler(queue))
    (effect,) = conversation.begin(queue.call)
    assert isinstance(effect, WriteFrame)
    return queue


def begin_operation(
    conversation: Conversation, steps: Any, **options: Any
) -> tuple[StubCall, list[Effect]]:
    """Begin an operation, which is a generator of steps; return its call and its first effects."""
    call = StubCall("operation", None, GeneratorHandler(steps, **options))
    return call, conversation.begin(call)


# The following functions return messages as the extension writes them.


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def reply(id: Any, result: Any = None) -> bytes:
    return line({"id": id, "result": result})


def failure(id: Any, message: str = "no", code: int = -1) -> bytes:
    return line({"id": id, "error": {"code": code, "message": message}})


def notification(method: str, **params: Any) -> bytes:
    return line({"method": method, "params": params})


def written_messages(effects: list[Effect]) -> list[Any]:
    """Return the messages that these effects write, in lines of JSON."""
    return [
        json.loads(frame_bytes(effect.frame))
        for effect in effects
        if isinstance(effect, WriteFrame)
    ]


def frame_bytes(frame: Frame) -> bytes:
    """Return a frame in one piece: a large frame is a tuple of parts."""
    return frame if isinstance(frame, bytes) else b"".join(frame)


def error_of(effects: list[Effect], call: Call) -> ExthostError:
    """Return the error that the only failure among these effects ends this call with."""
    (failed,) = (effect for effect in effects if isinstance(effect, Failed))
    assert failed.call is call
    return failed.error


def is_empty(conversation: Conversation) -> bool:
    """Return whether the conversation has no call, stream or subscription left."""
    streams = conversation.streams()
    subscriptions = conversation.requests.subscriptions
    return not (conversation.pending or streams or subscriptions or conversation.calls())
