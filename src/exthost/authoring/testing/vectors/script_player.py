"""Plays the script of a vector against the generators of a dialect, without a process.

A dialect writes its handshake and its operations as generators, which yield the messages to send
and receive the replies. A line of a script is `> message` (host to extension), `< message`
(extension to host) or `! action`, which needs a process and is skipped here.
"""

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from exthost.authoring.testing.vector_notation import MessagePattern, parse_message_pattern
from exthost.authoring.testing.vectors.vector import Vector
from exthost.dialects.base import method_unknown
from exthost.dialects.calls import ToolCall
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.steps import (
    AskHost,
    GetOffer,
    RetireProcess,
    Subscribe,
    TryRequest,
    WaitFor,
    as_generator,
)
from exthost.model.messages import Notification, Reply, Request

__all__ = ["play_script", "handshake_without_process", "operation_without_process"]


def play_script(
    steps: Generator[Any, Any, Any],
    script: list[str],
    offer: Any = None,
    handlers: dict[str, Any] | None = None,
) -> Any:
    """Run the generator `steps`: compare each message that it yields with the script, and resume it
    with the reply in the script. Return the generator's value, or raise its error.

    `offer` is the outcome of a `GetOffer` step, and `handlers` has the host's results by method,
    for `AskHost`. Lines that a session handles by itself are skipped: requests of the extension and
    the host's replies to them, notifications that no step waits for, and `!` lines. A `TryRequest`
    or a `WaitFor` is resumed with None if the script has no reply or notification for it.
    """
    lines = _parse_script(script)
    reply: Any = None
    while True:
        try:
            step = steps.send(reply)
            while isinstance(step, GetOffer | RetireProcess | AskHost):
                step = steps.send(_session_answer(step, offer, handlers or {}))
        except StopIteration as done:
            _skip_notifications(lines)
            assert not lines, f"the dialect stopped before these lines of the script: {lines}"
            return done.value
        if isinstance(step, WaitFor):
            reply = _take_notification(step, lines)
            continue
        _skip_notifications(lines)
        assert lines, f"it sends more than the script has: {step}"
        sign, expected = lines.pop(0)
        assert sign == ">", f"it sends {step} where the extension should send {expected}"
        message = step.request if isinstance(step, TryRequest | Subscribe) else step
        _assert_matches(expected, message)
        reply = None
        if isinstance(message, Request) and not isinstance(step, Subscribe):
            _skip_notifications(lines)
            is_answered = bool(lines) and lines[0][0] == "<"
            assert is_answered or isinstance(step, TryRequest), f"the script does not answer {step}"
            reply = lines.pop(0)[1].build() if is_answered else None


def _session_answer(step: Any, offer: Any, handlers: dict[str, Any]) -> Any:
    """Return the value with which the session resumes a generator after a step that sends nothing
    to the extension."""
    if isinstance(step, AskHost):
        request = Request(step.method, step.params)
        if step.method in handlers:
            return Reply(None, handlers[step.method])
        return method_unknown(request)
    return offer if isinstance(step, GetOffer) else None


def _skip_notifications(lines: list[tuple[str, MessagePattern]]) -> None:
    """Remove the notifications at the head of the lines, for which no step waits."""
    while lines and lines[0][0] == "<" and lines[0][1].type_name == "Notification":
        lines.pop(0)


def _take_notification(wait: WaitFor, lines: list[tuple[str, MessagePattern]]) -> Any:
    """Return the notification that ends this wait, or None if the script does not have it next.
    Notifications before it are removed from the lines."""
    while lines and lines[0][0] == "<" and lines[0][1].type_name == "Notification":
        notification = lines.pop(0)[1].build()
        assert isinstance(notification, Notification)
        if notification.method == wait.method and wait.matches(notification.params):
            return notification
    return None


def _parse_script(script: list[str]) -> list[tuple[str, MessagePattern]]:
    """Return the sign and the message of each line, without the lines that a session handles by
    itself."""
    lines = []
    for line in script:
        sign, _, rest = line.partition(" ")
        assert sign in "<>!", f"not a step: {line!r}"
        if sign == "!":
            continue
        pattern = parse_message_pattern(rest)
        handled_by_session = ("Request",) if sign == "<" else ("Reply", "Failure")
        if pattern.type_name not in handled_by_session:
            lines.append((sign, pattern))
    return lines


def _assert_matches(expected: MessagePattern, message: Any) -> None:
    """Compare all fields of the pattern except `id`, which the session assigns."""
    fields = {name: value for name, value in expected.fields.items() if name != "id"}
    is_match = MessagePattern(expected.type_name, fields).matches(message)
    assert is_match, f"expected {expected}, and it sends {message}"


def handshake_without_process(vector: Vector) -> Any:
    """Run the handshake of this vector, and return its Offer."""
    spec = vector.spec()
    context = HandshakeContext(
        extension="scripted",
        config=spec.config,
        options=spec.options,
        host_version="1.2.3",
        manifest=spec.manifest,
        wire_id=spec.wire_id,
        handles=frozenset(vector.json("handlers", {})),
    )
    return play_script(vector.dialect.handshake(context), vector.fields["script"])


def operation_without_process(vector: Vector) -> Any:
    """Run the operation of this vector, and return its value."""
    dialect, fields = vector.dialect, vector.fields
    params, offer = vector.json("params"), _first_offer(vector)
    if "operation" in fields:
        operation = dialect.operations[fields["operation"]]
        if fields["operation"] == "call_tool":
            offered = () if offer is None else offer.tools
            tools = {tool.name: tool for tool in (*vector.spec().tools, *offered)}
            name, context = params["name"], params.get("context", {})
            params = ToolCall(name, params["arguments"], context, tools.get(name))
    else:
        operation = dialect.methods[fields["method"]]
    handlers = vector.json("handlers", {})
    steps = as_generator(operation, params, fields.get("operation") or fields["method"])
    return play_script(steps, fields["script"], offer, handlers)


def _first_offer(vector: Vector) -> Any:
    """Return the Offer of the first handshake in the file, run with the config and options of this
    vector."""
    if vector.first_handshake is None:
        return None
    settings = {key: vector.fields[key] for key in ("config", "options") if key in vector.fields}
    fields = vector.first_handshake | settings
    return handshake_without_process(replace(vector, table="handshake", fields=fields))
