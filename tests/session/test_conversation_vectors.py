"""Every vector of every dialect, played through the pure conversation: no loop, no process.

What a child says comes whole, byte by byte, cut at every offset, and two in one read. The effects
must be the same each time. `value` vectors test functions that no conversation calls.
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
from tests.session.conversation_peer import StubCall, is_empty, whole

Cut: TypeAlias = Callable[[bytes], list[bytes]]


@pytest.fixture(autouse=True)
def no_loop_and_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pure part needs neither."""

    def needed(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a pure conversation asked for this")

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
        monkeypatch.setattr(module, name, needed)


def each(*tables: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", vectors(*tables), ids=str)


def entire(data: bytes) -> list[bytes]:
    return [data]


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def cut_at(offset: int) -> Cut:
    return lambda data: [data[:offset], data[offset:]]


def test_every_dialect_is_played() -> None:
    played = {vector.dialect.name for vector in vectors("read", "handshake", "refusal")}
    assert played >= {*BUILT_IN}


# -- read ------------------------------------------------------------------------------------


class Received:
    """A conversation that has asked for everything that a `read` vector answers."""

    def __init__(self, reading: ReadVector, times: int) -> None:
        self.conversation = Conversation(reading.dialect, reading.max_message_bytes, 1_000_000)
        self.calls: list[Call] = []
        for _ in range(times):
            for role, stated in reading.earlier_messages:
                assert role is Role.HOST
                self._ask(stated.build())
        known = set(self.conversation.pending)
        for meant in reading.expected:
            id = meant.fields.get("id") if isinstance(meant, MessagePattern) else None
            is_reply = isinstance(meant, MessagePattern) and meant.type_name in ("Reply", "Failure")
            if is_reply and type(id) in (int, str) and id not in known:
                self._ask(Request("asked", {}, id))
                known.add(id)

    def _ask(self, message: Message) -> None:
        if not isinstance(message, Request):
            self.conversation.requests.encode(message)
            return
        call = StubCall(message.method, message.params)
        if message.id is None:
            self.conversation.send(call)
        else:
            # By hand, because the limit of some vectors is less than any request needs.
            call.id = message.id
            self.conversation.pending[message.id] = call
        self.calls.append(call)

    def effects(self, chunks: list[bytes]) -> list[Any]:
        """What the session would have to do, a run of completed calls spelt out."""
        found: list[Any] = []
        for chunk in chunks:
            for effect in self.conversation.receive_bytes(chunk):
                found += effect if isinstance(effect, list) else [effect]
                if isinstance(effect, End):
                    return found
        return found


def assert_effects(reading: ReadVector, heard: Received, effects: list[Any], times: int) -> None:
    """Each message that the vector states has its effect, in order, and there is no other."""
    remaining = deque(effect for effect in effects if not _is_unclaimed_event(effect))
    open_calls = list(heard.calls)
    for stated in reading.expected * times:
        assert remaining, f"no effect of {stated}"
        effect: Any = remaining.popleft()
        if isinstance(stated, GarbagePattern):
            _assert_garbage(stated, effect, remaining, open_calls)
            continue
        message = stated.build()
        if isinstance(message, Notification):
            assert isinstance(effect, Notified) and stated.matches(effect.notification)
        elif isinstance(message, Request):
            assert isinstance(effect, ServeRequest) and stated.matches(effect.request)
        else:
            _assert_reply(message, effect, open_calls, heard.conversation)
        if isinstance(effect, End):
            break
    assert not remaining


def _is_unclaimed_event(effect: Any) -> bool:
    return isinstance(effect, Count) and effect.name == "events of no open stream"


def _assert_reply(
    message: Reply | Failure, effect: Any, open_calls: list[Call], conversation: Conversation
) -> None:
    by_order = conversation.dialect.traits.positional
    if by_order and message.id is None:
        call = open_calls[0] if open_calls else None
    else:
        call = next((call for call in open_calls if call.id == message.id), None)
    if call is None:  # it comes a second time, or complains about nothing in particular
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
    stated: GarbagePattern, effect: Any, remaining: deque[Any], open_calls: list[Call]
) -> None:
    if stated.type_name in ("Noise", "Skipped") and isinstance(effect, Stray):
        assert stated.reason_part in effect.why
    elif stated.type_name == "Skipped":
        assert isinstance(effect, Count) and "size limit" in effect.name
        if remaining and isinstance(remaining[0], Failed):
            failed = remaining.popleft()
            open_calls.remove(failed.call)
    else:
        assert isinstance(effect, End) and isinstance(effect.cause, Violated)
        assert stated.reason_part in effect.cause.violation.message


HOST_READS = [vector for vector in vectors("read") if ReadVector(vector).role is Role.HOST]
GUEST_READS = [vector for vector in vectors("read") if ReadVector(vector).role is Role.GUEST]


@pytest.mark.parametrize("vector", HOST_READS, ids=str)
def test_bytes_have_the_same_effects_however_they_come(vector: Vector) -> None:
    reading = ReadVector(vector)
    data = reading.data

    def play(chunks: list[bytes], times: int = 1) -> None:
        received = Received(reading, times)
        assert_effects(reading, received, received.effects(chunks), times)

    play([data])
    play(bytewise(data))
    for at in range(len(data) + 1):
        play([data[:at], data[at:]])
    if not vector.fields.get("alone") and "end" not in vector.fields:
        play([data + data], times=2)


@pytest.mark.parametrize(
    "vector", [vector for vector in HOST_READS if "answers" in vector.fields], ids=str
)
def test_an_over_long_reply_fails_the_call_that_it_answers(vector: Vector) -> None:
    reading = ReadVector(vector)
    answers = vector.fields["answers"]
    for chunks in ([reading.data], bytewise(reading.data)):
        received = Received(reading, 1)
        if answers != "nothing":
            received._ask(Request("asked", {}, answers))
        effects = received.effects(chunks)
        failed = [effect.call.id for effect in effects if isinstance(effect, Failed)]
        assert failed == ([] if answers == "nothing" else [answers])


@pytest.mark.parametrize(
    "vector", [vector for vector in GUEST_READS if vector.fields.get("canonical")], ids=str
)
def test_a_conversation_writes_the_very_bytes_that_a_child_reads(vector: Vector) -> None:
    reading = ReadVector(vector)
    conversation = Conversation(reading.dialect, reading.max_message_bytes)
    guest = reading.dialect.codec(Role.GUEST)
    for role, stated in reading.earlier_messages:
        if role is Role.HOST:
            frame = _write(conversation, stated.build())
            if isinstance(guest, Positional) and stated.type_name == "Request":
                guest.expect(stated.fields["method"])
            for item in reading.dialect.framing(reading.max_message_bytes).feed(frame):
                assert isinstance(item, bytes | bytearray | memoryview)
                guest.decode(item)
        else:
            framing = reading.dialect.framing(reading.max_message_bytes)
            conversation.receive_bytes(framing.wrap(guest.encode(stated.build())))
    written = b""
    for meant in reading.expected:
        assert isinstance(meant, MessagePattern)
        written += _write(conversation, meant.build())
    assert written == reading.data


def _write(conversation: Conversation, message: Message) -> bytes:
    if not isinstance(message, Request):
        return whole(conversation.requests.encode(message))
    call = StubCall(message.method, message.params)
    if message.id is None:
        return whole(conversation.send(call))
    requests = conversation.requests
    return whole(requests.send_step(call, message.method, message.params, message.id))


@each("meaning")
def test_a_notification_comes_with_the_meaning_that_its_dialect_reads(vector: Vector) -> None:
    stated = parse_message_pattern(vector.fields["notification"])
    notice = stated.build()
    assert isinstance(notice, Notification)
    dialect = vector.dialect
    data = dialect.framing(MAX_MESSAGE_BYTES).wrap(dialect.codec(Role.GUEST).encode(notice))
    read = dialect.notifications.get(notice.method)
    expected = read(notice.params) if read is not None else None
    for chunks in ([data], bytewise(data)):
        conversation = Conversation(dialect, MAX_MESSAGE_BYTES)
        effects = [item for chunk in chunks for item in conversation.receive_bytes(chunk)]
        (effect,) = (item for item in effects if not _is_unclaimed_event(item))
        assert isinstance(effect, Notified) and stated.matches(effect.notification)
        assert effect.meaning == expected and type(effect.meaning) is type(expected)


# -- scripts ---------------------------------------------------------------------------------


class Player(ScriptPlayer):
    """Plays a script with the extension's bytes cut, or with each reply doubled."""

    def __init__(self, vector: Vector, cut: Cut, *, doubled: bool = False) -> None:
        super().__init__(vector)
        self._cut = cut
        self._doubled = doubled and not self.dialect.traits.positional

    def receive(self, data: bytes, *, is_reply: bool) -> None:
        for chunk in self._cut(data * 2 if self._doubled and is_reply else data):
            super().receive(chunk, is_reply=is_reply)


def handshake(player: Player, about: HandshakeContext, script: list[str]) -> Any:
    steps = player.dialect.handshake(about)
    return player.run_steps("the handshake", steps, script)


def cuts(script: list[str]) -> Iterator[Cut]:
    """Whole, byte by byte, and each message cut at every offset that the longest of them has."""
    yield entire
    yield bytewise
    longest = max((len(line) for line in script if line[0] in "<!"), default=0)
    for at in range(1, longest):
        yield cut_at(at)


@each("handshake")
def test_a_handshake_leads_to_its_offer(vector: Vector) -> None:
    script, about = vector.fields["script"], handshake_context(vector)
    for cut in cuts(script):
        player = Player(vector, cut)
        assert_offer(vector, handshake(player, about, script))
        assert not player.conversation.pending
    player = Player(vector, entire, doubled=True)
    assert_offer(vector, handshake(player, about, script))


@each("refusal")
def test_a_refusal_is_reported(vector: Vector) -> None:
    script, about = vector.fields["script"], handshake_context(vector)
    for cut, number in zip(cuts(script), count(), strict=False):
        player = Player(vector, cut, doubled=number == 0)
        with pytest.raises((ExthostError, NoReply, ExtensionExited, ConversationEnded)) as refused:
            handshake(player, about, script)
        assert_refused(vector, refused.value)
        assert not player.conversation.pending or isinstance(refused.value, ConversationEnded)


def assert_refused(vector: Vector, error: BaseException) -> None:
    """The handshake ended for the reason that the vector states. Which error a session makes of an
    exit, a silence or a violation, and what it finds in the first bytes, is not seen here."""
    code, says = vector.fields["code"], vector.fields["says"]
    match error:
        case HandshakeFailed():
            assert_error(vector, error)
        case CallFailed():
            assert code == "X0502" and says in error.message
        case ProtocolViolation():
            assert code == "X0505" and says in error.message
        case NoReply():
            assert code in ("X0504", "X0507")
        case ExtensionExited():
            assert code in ("X0501", "X0506")
            if code == "X0501" and "exited with" not in says:
                assert says in str(error)
        case ConversationEnded(cause=cause):
            assert code in ("X0505", "X0506")
            assert isinstance(cause, Violated)
            assert code == "X0506" or says in cause.violation.message
        case _:
            raise error


@each("operation")
def test_an_operation_has_the_fields_of_the_script(vector: Vector) -> None:
    assert vector.first_handshake is not None
    kept = {"config", "options", "handlers"}
    before = {key: value for key, value in vector.first_handshake.items() if key in kept}
    joined = replace(vector, fields=before | vector.fields)
    script, about, spec = vector.fields["script"], handshake_context(joined), joined.spec()
    for cut in (*cuts(script), None):
        player = Player(joined, cut or entire, doubled=cut is None)
        offer = handshake(player, about, vector.first_handshake["script"])
        player.conversation.open(offer)
        call = operation_call(joined, spec, offer.tools)
        if "error" in vector.fields:
            with pytest.raises(ExthostError) as refused:
                player.run(call, script)
            assert refused.value.code == vector.fields["code"]
        else:
            assert player.run(call, script) == vector.json("result")
        assert not player.conversation.pending and is_empty_but_subscriptions(player)


def is_empty_but_subscriptions(player: Player) -> bool:
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
