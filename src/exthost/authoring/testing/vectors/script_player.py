"""Plays the script of a test vector without a process: both ends of one conversation in memory.

The host's end runs a handshake or an operation of the dialect; the extension's end follows the
script. A line of a script is `> message` (host to extension), `< message` (extension to host) or
`! action` (see `scripted_child`).
"""

import json
from dataclasses import replace
from typing import Any

from exthost.authoring.testing.scripted_child import MAX_MESSAGE_BYTES, ScriptedGuest
from exthost.authoring.testing.vector_notation import parse_message_pattern, shorten
from exthost.authoring.testing.vectors.vector import Vector
from exthost.dialects.calls import ToolCall
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.steps import Exchanges, Handshake, as_generator
from exthost.model.messages import Failure, Reply, Request
from exthost.session.call import Call
from exthost.session.conversation import Conversation
from exthost.session.effects import (
    Count,
    Effect,
    End,
    Failed,
    RunHandler,
    ServeRequest,
    WriteFrame,
    join_frame,
)
from exthost.session.failures import EndCause
from exthost.session.replies import GeneratorHandler


class NoReply(Exception):
    """The script has no reply to the call."""


class ExtensionExited(Exception):
    """The extension exits during the call. The text says what is wrong with the end of its output;
    "" if nothing is."""


class ConversationEnded(Exception):
    """The conversation ended during the call."""

    def __init__(self, cause: EndCause) -> None:
        super().__init__(cause)
        self.cause = cause


class ScriptPlayer:
    """Plays scripts of one vector, one after the other, in one conversation. `late_replies` is how
    many replies arrived twice or too late."""

    def __init__(self, vector: Vector) -> None:
        self.dialect = vector.dialect
        self.conversation = Conversation(self.dialect, MAX_MESSAGE_BYTES)
        self.late_replies = 0
        self._guest = ScriptedGuest(self.dialect)
        self._handlers: dict[str, Any] = vector.json("handlers", {})
        # How the call ended: an exception, or its value in a tuple, since a value may be anything.
        self._outcomes: list[Any] = []
        self._call: Call | None = None

    def run_steps(self, name: str, steps: Exchanges | Handshake, script: list[str]) -> Any:
        """Run the generator of a handshake or an operation. Return its value, or raise its
        error."""
        handler = GeneratorHandler(steps, limits_each_request=True)
        return self.run(Call(name, None, handler, 60.0, 0.0), script)

    def run(self, call: Call, script: list[str]) -> Any:
        """Run a call while the extension follows the script. Return the value of the call, or raise
        its error, or one of this module's. Raises AssertionError if the host does not follow the
        script."""
        self._call, self._outcomes = call, []
        if call.reply_handler.is_simple:
            self._perform([WriteFrame(self.conversation.send(call))])
        else:
            self._perform(self.conversation.begin(call))
        for line in script:
            sign, _, rest = line.partition(" ")
            assert sign in ("<", ">", "!"), f"not a step: {line!r}"
            if sign == ">":
                self._read(rest)
            elif sign == "<":
                pattern = parse_message_pattern(rest)
                is_reply = pattern.type_name in ("Reply", "Failure")
                self.receive(self._guest.encode(pattern), is_reply=is_reply)
            elif not self._outcomes:
                self._perform_action(rest)
        assert not self._guest.has_items, (
            f"it sends more than the script has: {shorten(self._guest.next_message())}"
        )
        assert self._outcomes, "the script ends before the call does"
        outcome = self._outcomes[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome[0]

    def receive(self, data: bytes, *, is_reply: bool) -> None:
        """Pass bytes of the extension to the host. `is_reply` (whether they are a reply of the
        script) is for subclasses, such as a test that delivers replies in pieces."""
        self._perform(self.conversation.receive_bytes(data))

    def _read(self, text: str) -> None:
        """Check that the next message of the host is the expected one."""
        expected = parse_message_pattern(text)
        self._guest.expect(expected)
        message = self._guest.next_message()
        assert expected.matches(message), (
            f"expected {shorten(expected)}, and it sends {shorten(message)}"
        )

    def _perform_action(self, text: str) -> None:
        """Perform a `!` step of the script, given without its `!`."""
        verb, _, rest = text.partition(" ")
        call = self._call
        assert call is not None
        if verb == "write":
            self.receive(json.loads(rest).encode(), is_reply=False)
        elif verb == "exit":
            broken = self.conversation.framing.end()
            self.conversation.end()
            self._outcomes.append(ExtensionExited("" if broken is None else broken.reason))
        elif verb == "silence":
            handler = call.reply_handler
            if isinstance(handler, GeneratorHandler) and handler.is_optional:
                self._perform(self.conversation.continue_without_reply(call))
            else:
                self._perform(self.conversation.abandon(call, "timed out"))
                self._outcomes.append(NoReply())

    def _perform(self, effects: list[Effect]) -> None:
        """Perform the effects of the conversation, and keep how the call ended."""
        for effect in effects:
            match effect:
                case list():
                    self._outcomes += [(value,) for _, value in effect]
                case Failed(_, error):
                    self._outcomes.append(error)
                case WriteFrame(frame):
                    self._guest.feed(join_frame(frame))
                case ServeRequest(request):
                    self._guest.feed(self.conversation.encode(self._answer(request)))
                case RunHandler(call, request):
                    answer = self._answer(request)
                    self._perform(self.conversation.resume(call, request.id, answer))
                case Count(name):
                    self.late_replies += name == "late or repeated replies"
                case End(cause, retired) if not retired:
                    self._outcomes.append(ConversationEnded(cause))

    def _answer(self, request: Request) -> Reply | Failure:
        if request.method in self._handlers:
            return Reply(request.id, self._handlers[request.method])
        return self.dialect.refuse(request)


def handshake_context(vector: Vector) -> HandshakeContext:
    """Return the context of the handshake of this vector."""
    spec = vector.spec()
    return HandshakeContext(
        extension="scripted",
        config=spec.config,
        options=spec.options,
        host_version="1.2.3",
        manifest=spec.manifest,
        wire_id=spec.wire_id,
        handles=frozenset(vector.json("handlers", {})),
    )


def handshake_without_process(vector: Vector) -> Any:
    """Run the handshake of this vector, and return its Offer."""
    return _run_handshake(ScriptPlayer(vector), vector)


def _run_handshake(player: ScriptPlayer, vector: Vector) -> Any:
    steps = vector.dialect.handshake(handshake_context(vector))
    return player.run_steps("the handshake", steps, vector.fields["script"])


def operation_without_process(vector: Vector) -> Any:
    """Run the first handshake in the file of this vector, then its operation. Return the value of
    the operation."""
    fields, params = vector.fields, vector.json("params")
    player = ScriptPlayer(vector)
    tools = vector.spec().declared_tools
    if vector.first_handshake is not None:
        settings = {key: fields[key] for key in ("config", "options") if key in fields}
        first = replace(vector, table="handshake", fields=vector.first_handshake | settings)
        player = ScriptPlayer(replace(vector, fields=vector.first_handshake | fields))
        offer = _run_handshake(player, first)
        player.conversation.open(offer)
        tools = (*tools, *offer.tools)
    name = fields.get("operation") or fields["method"]
    if "operation" not in fields:
        operation = vector.dialect.methods[name]
    else:
        operation = vector.dialect.operations[name]
        if name == "call_tool":
            tool = {tool.name: tool for tool in tools}.get(params["name"])
            context = params.get("context", {})
            params = ToolCall(params["name"], params["arguments"], context, tool)
    return player.run_steps(name, as_generator(operation, params, name), fields["script"])
