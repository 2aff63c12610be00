"""Every test vector of every dialect, run with a `Conversation` without a loop and a process.

A vector is a test as data: the bytes that an extension writes, and the messages that they are (kind
`read`), or a script of what host and extension send in turn, and what comes of it (`handshake`,
`refusal`, `operation`). A conversation is the state of one connection: it receives bytes, and
returns effects, which say what has happened, for example that a call is completed. The package
`exthost.authoring.testing.vectors` describes the fields of vectors, such as `alone` (the bytes must
not come twice), `canonical` (the other side writes exactly these bytes), and `answers` (the id of
the call that is answered by a message over the size limit).

The bytes of the extension arrive all at once, byte by byte, cut at every offset, and twice in one
read. The effects must be the same each time. `value` vectors are not used here: they test functions
that a conversation does not call.
"""

import asyncio
import os
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any, NoReturn, TypeAlias

import pytest

from exthost.authoring.testing.vector_notation import (
    GarbagePattern,
    MessagePattern,
    parse_message_pattern,
)
from exthost.authoring.testing.vectors import Vector
from exthost.authoring.testing.vectors.check import assert_error, assert_offer
from exthost.authoring.testing.vectors.read_vector import MAX_MESSAGE_BYTES, ReadVector
from exthost.authoring.testing.vectors.script_player import (
    ConversationEnded,
    ExtensionExited,
    NoReply,
    ScriptPlayer,
    handshake_context,
)
from exthost.dialects.calls import ToolCall
from exthost.dialects.codec import Positional, Role
from exthost.dialects.find import BUILT_IN
from exthost.dialects.handshake_context import HandshakeContext
from exthost.errors import CallFailed, ExthostError, HandshakeFailed, ProtocolViolation
from exthost.extension.call_factory import CallFactory
from exthost.model.messages import Failure, Message, Notification, Reply, Request
from exthost.model.offer import Tool
from exthost.model.spec import Limits, Spec
from exthost.session.call import Call
from exthost.session.conversation import Conversation
from exthost.session.effects import (
    Count,
    End,
    Failed,
    Notified,
    ServeRequest,
    Stray,
)
from exthost.session.failures import Violated
from tests.dialects.all_vectors import vectors
from tests.session.conversation_peer import StubCall, frame_bytes, is_empty

SplitData: TypeAlias = Callable[[bytes], list[bytes]]


@pytest.fixture(autouse=True)
def no_loop_and_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a conversation uses an event loop or starts a process."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a conversation used an event loop or a process")

    for module, name in (
        (asyncio, "get_event_loop"),
        (asyncio, "get_running_loop"),
        (asyncio, "new_event_loop"),
        (asyncio.events, "get_event_loop"),
        (asyncio.events, "get_running_loop"),
        (subprocess, "Popen"),
        (os, "fork"),
        (os, "pipe"),
    ):
        monkeypatch.setattr(module, name, fail)


def for_each_vector(*tables: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors(*tables), ids=str)


def keep_whole(data: bytes) -> list[bytes]:
    return [data]


def split_into_bytes(data: bytes) -> list[bytes]:
    return [data[n : n + 1] for n in range(len(data))]


def split_at(offset: int) -> SplitData:
    return lambda data: [data[:offset], data[offset:]]


def test_every_dialect_has_vectors() -> None:
    dialects = {vector.dialect.name for vector in vectors("read", "handshake", "refusal")}
    assert dialects >= {*BUILT_IN}


# -- read ------------------------------------------------------------------------------------


class ConversationOfVector:
    """A conversation with a pending call for each reply of a `read` vector.

    `times` is how often the bytes of the vector arrive.
    """

    def __init__(self, reading: ReadVector, times: int) -> None:
        # The first id of the conversation itself is larger than the ids in vectors.
        self.conversation = Conversation(reading.dialect, reading.max_message_bytes, 1_000_000)
        self.calls: list[Call] = []
        for _ in range(times):
            for role, earlier_message in reading.earlier_messages:
                assert role is Role.HOST
                self.send(earlier_message.build())
        known_ids = set(self.conversation.pending)
        for pattern in reading.expected:
            if isinstance(pattern, GarbagePattern) or pattern.type_name not in ("Reply", "Failure"):
                continue
            id = pattern.fields.get("id")
            if type(id) in (int, str) and id not in known_ids:
                self.send(Request("asked", {}, id))
                known_ids.add(id)

    def send(self, message: Message) -> None:
        """Send a message of the host. A request becomes a pending call."""
        if not isinstance(message, Request):
            self.conversation.requests.encode(message)
            return
        call = StubCall(message.method, message.params)
        if message.id is None:
            self.conversation.send(call)
        else:
            # Not sent: the size limit of some vectors is smaller than any request.
            call.id = message.id
            self.conversation.pending[message.id] = call
        self.calls.append(call)

    def receive(self, chunks: list[bytes]) -> list[Any]:
        """Receive the chunks; return the effects, with each completed call as a separate effect."""
        effects: list[Any] = []
        for chunk in chunks:
            for effect in self.conversation.receive_bytes(chunk):
                effects += effect if isinstance(effect, list) else [effect]
                if isinstance(effect, End):
                    return effects
        return effects


def assert_effects(
    reading: ReadVector, received: ConversationOfVector, effects: list[Any], times: int
) -> None:
    """Check that the effects are those of the messages of the vector, in their order."""
    remaining = deque(effect for effect in effects if not _is_unclaimed_event(effect))
    open_calls = list(received.calls)
    for pattern in reading.expected * times:
        assert remaining, f"no effect of {pattern}"
        effect: Any = remaining.popleft()
        if isinstance(pattern, GarbagePattern):
            _assert_garbage(pattern, effect, remaining, open_calls)
            continue
        message = pattern.build()
        if isinstance(message, Notification):
            assert isinstance(effect, Notified) and pattern.matches(effect.notification)
        elif isinstance(message, Request):
            assert isinstance(effect, ServeRequest) and pattern.matches(effect.request)
        else:
            _assert_reply(message, effect, open_calls, received.conversation)
        if isinstance(effect, End):
            break
    assert not remaining


def _is_unclaimed_event(effect: Any) -> bool:
    """Return whether the effect counts an event without a stream. A vector opens no stream, so its
    notifications can have this effect in addition."""
    return isinstance(effect, Count) and effect.name == "events of no open stream"


def _assert_reply(
    message: Reply | Failure, effect: Any, open_calls: list[Call], conversation: Conversation
) -> None:
    by_order = conversation.dialect.traits.positional
    if by_order and message.id is None:
        call = open_calls[0] if open_calls else None
    else:
        call = next((call for call in open_calls if call.id == message.id), None)
    if call is None:  # a repeated reply, or an error without an id
        assert isinstance(effect, Count)
        return
    open_calls.remove(call)
    if isinstance(message, Failure):
        assert isinstance(effect, Failed) and effect.call is call
        assert isinstance(effect.error, CallFailed)
        assert effect.error.error_message == message.message
    else:
        assert effect[0] is call and repr(effect[1]) == repr(message.result)


def _assert_garbage(
    pattern: GarbagePattern, effect: Any, remaining: deque[Any], open_calls: list[Call]
) -> None:
    if pattern.type_name in ("Noise", "Skipped") and isinstance(effect, Stray):
        assert pattern.reason_part in effect.reason
    elif pattern.type_name == "Skipped":
        assert isinstance(effect, Count) and "size limit" in effect.name
        if remaining and isinstance(remaining[0], Failed):
            failed = remaining.popleft()
            open_calls.remove(failed.call)
    else:
        assert isinstance(effect, End) and isinstance(effect.cause, Violated)
        assert pattern.reason_part in effect.cause.violation.message


HOST_READS = [vector for vector in vectors("read") if ReadVector(vector).role is Role.HOST]
GUEST_READS = [vector for vector in vectors("read") if ReadVector(vector).role is Role.GUEST]


@pytest.mark.parametrize("vector", HOST_READS, ids=str)
def test_the_effects_do_not_depend_on_how_the_bytes_arrive(vector: Vector) -> None:
    reading = ReadVector(vector)
    data = reading.data

    def check(chunks: list[bytes], times: int = 1) -> None:
        received = ConversationOfVector(reading, times)
        assert_effects(reading, received, received.receive(chunks), times)

    check([data])
    check(split_into_bytes(data))
    for offset in range(len(data) + 1):
        check([data[:offset], data[offset:]])
    if not vector.fields.get("alone") and "end" not in vector.fields:
        check([data + data], times=2)


@pytest.mark.parametrize(
    "vector", [vector for vector in HOST_READS if "answers" in vector.fields], ids=str
)
def test_an_over_long_reply_fails_the_call_that_it_answers(vector: Vector) -> None:
    reading = ReadVector(vector)
    answers = vector.fields["answers"]
    for chunks in ([reading.data], split_into_bytes(reading.data)):
        received = ConversationOfVector(reading, 1)
        if answers != "nothing":
            received.send(Request("asked", {}, answers))
        effects = received.receive(chunks)
        failed = [effect.call.id for effect in effects if isinstance(effect, Failed)]
        assert failed == ([] if answers == "nothing" else [answers])


@pytest.mark.parametrize(
    "vector", [vector for vector in GUEST_READS if vector.fields.get("canonical")], ids=str
)
def test_a_conversation_writes_exactly_the_bytes_of_the_vector(vector: Vector) -> None:
    reading = ReadVector(vector)
    conversation = Conversation(reading.dialect, reading.max_message_bytes)
    guest = reading.dialect.codec(Role.GUEST)
    for role, pattern in reading.earlier_messages:
        if role is Role.HOST:
            frame = _encode(conversation, pattern.build())
            if isinstance(guest, Positional) and pattern.type_name == "Request":
                guest.expect(pattern.fields["method"])
            for item in reading.dialect.framing(reading.max_message_bytes).feed(frame):
                assert isinstance(item, bytes | bytearray | memoryview)
                guest.decode(item)
        else:
            framing = reading.dialect.framing(reading.max_message_bytes)
            conversation.receive_bytes(framing.wrap(guest.encode(pattern.build())))
    output = b""
    for expected in reading.expected:
        assert isinstance(expected, MessagePattern)
        output += _encode(conversation, expected.build())
    assert output == reading.data


def _encode(conversation: Conversation, message: Message) -> bytes:
    if not isinstance(message, Request):
        return frame_bytes(conversation.requests.encode(message))
    call = StubCall(message.method, message.params)
    if message.id is None:
        return frame_bytes(conversation.send(call))
    requests = conversation.requests
    return frame_bytes(requests.send_step(call, message.method, message.params, message.id))


@for_each_vector("meaning")
def test_a_notification_has_the_meaning_that_its_dialect_decodes(vector: Vector) -> None:
    pattern = parse_message_pattern(vector.fields["notification"])
    notification = pattern.build()
    assert isinstance(notification, Notification)
    dialect = vector.dialect
    data = dialect.framing(MAX_MESSAGE_BYTES).wrap(dialect.codec(Role.GUEST).encode(notification))
    decode_meaning = dialect.notifications.get(notification.method)
    expected = None if decode_meaning is None else decode_meaning(notification.params)
    for chunks in ([data], split_into_bytes(data)):
        conversation = Conversation(dialect, MAX_MESSAGE_BYTES)
        effects = [item for chunk in chunks for item in conversation.receive_bytes(chunk)]
        (effect,) = (item for item in effects if not _is_unclaimed_event(item))
        assert isinstance(effect, Notified) and pattern.matches(effect.notification)
        assert effect.meaning == expected and type(effect.meaning) is type(expected)


# -- scripts ---------------------------------------------------------------------------------


class SplittingPlayer(ScriptPlayer):
    """Plays a script, and splits the bytes of the extension or repeats each of its replies."""

    def __init__(self, vector: Vector, split: SplitData, *, repeats_replies: bool = False) -> None:
        super().__init__(vector)
        self._split = split
        self._repeats_replies = repeats_replies and not self.dialect.traits.positional

    def receive(self, data: bytes, *, is_reply: bool) -> None:
        if self._repeats_replies and is_reply:
            data *= 2
        for chunk in self._split(data):
            super().receive(chunk, is_reply=is_reply)


def run_handshake(player: SplittingPlayer, context: HandshakeContext, script: list[str]) -> Any:
    steps = player.dialect.handshake(context)
    return player.run_steps("the handshake", steps, script)


def ways_to_split(script: list[str]) -> Iterator[SplitData]:
    """Yield functions that split each message: not at all, into bytes, and at every offset."""
    yield keep_whole
    yield split_into_bytes
    longest = max((len(line) for line in script if line[0] in "<!"), default=0)
    for offset in range(1, longest):
        yield split_at(offset)


@pytest.mark.sampled
@for_each_vector("handshake")
def test_a_handshake_has_the_offer_of_its_vector(vector: Vector) -> None:
    script, context = vector.fields["script"], handshake_context(vector)
    for split in ways_to_split(script):
        player = SplittingPlayer(vector, split)
        assert_offer(vector, run_handshake(player, context, script))
        assert not player.conversation.pending
    player = SplittingPlayer(vector, keep_whole, repeats_replies=True)
    assert_offer(vector, run_handshake(player, context, script))


@pytest.mark.sampled
@for_each_vector("refusal")
def test_a_refusal_is_reported(vector: Vector) -> None:
    script, context = vector.fields["script"], handshake_context(vector)
    for split, number in zip(ways_to_split(script), count(), strict=False):
        player = SplittingPlayer(vector, split, repeats_replies=number == 0)
        with pytest.raises((ExthostError, NoReply, ExtensionExited, ConversationEnded)) as caught:
            run_handshake(player, context, script)
        assert_handshake_error(vector, caught.value)
        assert not player.conversation.pending or isinstance(caught.value, ConversationEnded)


# The error codes of failed handshakes.
EXITED = "X0501"
REFUSED = "X0502"  # the extension replied with an error
NO_REPLY_IN_TIME = "X0504"
BROKE_A_RULE = "X0505"
OTHER_DIALECT = "X0506"  # the output has the framing of another dialect
START_TOO_LONG = "X0507"


def assert_handshake_error(vector: Vector, error: BaseException) -> None:
    """Check that the handshake ended for the reason of the vector.

    A session turns an exit, a silence or a violation into an error of its own, and examines the
    first bytes of the output; a conversation without a session does not.
    """
    code, message_part = vector.fields["code"], vector.fields["says"]
    match error:
        case HandshakeFailed():
            assert_error(vector, error)
        case CallFailed():
            assert code == REFUSED and message_part in error.message
        case ProtocolViolation():
            assert code == BROKE_A_RULE and message_part in error.message
        case NoReply():
            assert code in (NO_REPLY_IN_TIME, START_TOO_LONG)
        case ExtensionExited():
            assert code in (EXITED, OTHER_DIALECT)
            if code == EXITED and "exited with" not in message_part:
                assert message_part in str(error)
        case ConversationEnded(cause=cause):
            assert code in (BROKE_A_RULE, OTHER_DIALECT)
            assert isinstance(cause, Violated)
            assert code == OTHER_DIALECT or message_part in cause.violation.message
        case _:
            raise error


@pytest.mark.sampled
@for_each_vector("operation")
def test_an_operation_has_the_fields_of_the_script(vector: Vector) -> None:
    assert vector.first_handshake is not None
    settings = {"config", "options", "handlers"}
    of_handshake = {key: value for key, value in vector.first_handshake.items() if key in settings}
    vector_with_settings = replace(vector, fields=of_handshake | vector.fields)
    script, context, spec = (
        vector.fields["script"],
        handshake_context(vector_with_settings),
        vector_with_settings.spec(),
    )
    for split in (*ways_to_split(script), None):
        player = SplittingPlayer(
            vector_with_settings, split or keep_whole, repeats_replies=split is None
        )
        offer = run_handshake(player, context, vector.first_handshake["script"])
        player.conversation.open(offer)
        call = operation_call(vector_with_settings, spec, offer.tools)
        if "error" in vector.fields:
            with pytest.raises(ExthostError) as caught:
                player.run(call, script)
            assert caught.value.code == vector.fields["code"]
        else:
            assert player.run(call, script) == vector.json("result")
        assert not player.conversation.pending and is_empty_without_subscriptions(player)


def is_empty_without_subscriptions(player: SplittingPlayer) -> bool:
    """Return whether only subscriptions remain: requests that stay open."""
    player.conversation.requests.subscriptions = None
    return is_empty(player.conversation)


def operation_call(vector: Vector, spec: Spec, offered: tuple[Tool, ...]) -> Call:
    params = vector.json("params")
    factory = CallFactory(spec, vector.dialect, Limits(call=60.0))
    if "operation" not in vector.fields:
        parts = factory.for_method(vector.fields["method"], params, None)
    else:
        name = vector.fields["operation"]
        if name == "call_tool":
            tools = {tool.name: tool for tool in (*spec.declared_tools, *offered)}
            tool, context = params["name"], params.get("context", {})
            params = ToolCall(tool, params["arguments"], context, tools.get(tool), spec)
        parts = factory.for_operation(name, params, None)
    method, params, handler, _ = parts
    return StubCall(method, params, handler)
