"""Plays the script of a vector against the generators of a dialect, without a process.

A line of a script is `> message` (host to child), `< message` (child to host) or `! action`, which
needs a process and is skipped here.
"""

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from exthost.dialects.base import method_unknown
from exthost.dialects.calls import ToolCall
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.steps import (
    AskHost,
    GetOffer,
    OneRequest,
    OneRequestOrMore,
    RetireProcess,
    Subscribe,
    TryRequest,
    WaitFor,
)
from exthost.errors import CallFailed
from exthost.messages import Failure, Notification, Reply, Request
from exthost.testing.vector_notation import Stated, parse_message
from exthost.testing.vectors.vector import Vector

__all__ = ["play_script", "handshake_without_process", "operation_without_process"]


def play_script(
    steps: Generator[Any, Any, Any],
    script: list[str],
    offer: Any = None,
    handlers: dict[str, Any] | None = None,
) -> Any:
    """Run the generator as the host: compare each message that it yields with the script, and
    answer it from the script. Return its value, or raise its error.

    What a session handles by itself is skipped: requests of the child and our replies to them,
    notifications that nobody waits for, and `!` lines. A `TryRequest` or a `WaitFor` that the
    script has no answer for gets none.
    """
    lines = _exchanges(script)
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
            reply = _waited_for(step, lines)
            continue
        _skip_notifications(lines)
        assert lines, f"said more than the script has: {step}"
        sign, stated = lines.pop(0)
        assert sign == ">", f"said {step} where the child was to say {stated}"
        spoken = step.request if isinstance(step, TryRequest | Subscribe) else step
        _assert_matches(stated, spoken)
        reply = None
        if isinstance(spoken, Request) and not isinstance(step, Subscribe):
            _skip_notifications(lines)
            answered = bool(lines) and lines[0][0] == "<"
            assert answered or isinstance(step, TryRequest), f"the script does not answer {step}"
            reply = lines.pop(0)[1].message() if answered else None


def _session_answer(step: Any, offer: Any, handlers: dict[str, Any]) -> Any:
    """Return what the session answers to a step that sends nothing."""
    if isinstance(step, AskHost):
        request = Request(step.method, step.params)
        known = step.method in handlers
        return Reply(None, handlers[step.method]) if known else method_unknown(request)
    return offer if isinstance(step, GetOffer) else None


def _skip_notifications(lines: list[tuple[str, Stated]]) -> None:
    """Skip notifications that nobody waits for."""
    while lines and lines[0][0] == "<" and lines[0][1].kind == "Notification":
        lines.pop(0)


def _waited_for(wait: WaitFor, lines: list[tuple[str, Stated]]) -> Any:
    """Return the notification that ends this wait, if the script has it next."""
    while lines and lines[0][0] == "<" and lines[0][1].kind == "Notification":
        notification = lines.pop(0)[1].message()
        assert isinstance(notification, Notification)
        if notification.method == wait.method and wait.matches(notification.params):
            return notification
    return None


def _exchanges(script: list[str]) -> list[tuple[str, Stated]]:
    remaining = []
    for line in script:
        sign, _, rest = line.partition(" ")
        assert sign in "<>!", f"not a step: {line!r}"
        if sign == "!":
            continue
        stated = parse_message(rest)
        handled_by_session = ("Request",) if sign == "<" else ("Reply", "Failure")
        if stated.kind not in handled_by_session:
            remaining.append((sign, stated))
    return remaining


def _assert_matches(stated: Stated, message: Any) -> None:
    """Compare all members that are stated, except `id`, which the session assigns."""
    fields = {name: value for name, value in stated.fields.items() if name != "id"}
    assert Stated(stated.kind, fields).fits(message), f"expected {stated}, said {message}"


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
    return play_script(vector.dialect.handshake(context), vector.row["script"])


def operation_without_process(vector: Vector) -> Any:
    """Run the operation of this vector, and return its value."""
    dialect, row = vector.dialect, vector.row
    params = vector.json("params")
    if "operation" in row:
        operation = dialect.operations[row["operation"]]
        if row["operation"] == "call_tool":
            tools = {tool.name: tool for tool in vector.spec().tools}
            name, context = params["name"], params.get("context", {})
            params = ToolCall(name, params["arguments"], context, tools.get(name))
    else:
        operation = dialect.methods[row["method"]]
    if isinstance(operation, OneRequest):
        return play_script(_run_one(operation, params), row["script"])
    handlers = vector.json("handlers", {})
    if isinstance(operation, OneRequestOrMore):
        return play_script(
            _run_one_or_more(operation, params), row["script"], _offer_before(vector), handlers
        )
    return play_script(operation(params), row["script"], _offer_before(vector), handlers)


def _offer_before(vector: Vector) -> Any:
    """Return the Offer of the first handshake in the file, run with the config and options of this
    vector."""
    if vector.first_handshake is None:
        return None
    own = {key: vector.row[key] for key in ("config", "options") if key in vector.row}
    first = vector.first_handshake | own
    return handshake_without_process(replace(vector, table="handshake", row=first))


def _run_one_or_more(operation: OneRequestOrMore, params: Any) -> Generator[Any, Any, Any]:
    reply = yield Request(*operation.request(params))
    if isinstance(reply, Failure):
        raise CallFailed("X0701", reply.message, error_message=reply.message)
    value = operation.finish(params, reply.result)
    return (yield from value) if isinstance(value, Generator) else value


def _run_one(operation: OneRequest, params: Any) -> Generator[Any, Any, Any]:
    reply = yield Request(*operation.request(params))
    if isinstance(reply, Failure):
        raise CallFailed("X0701", reply.message, error_message=reply.message)
    return operation.result(reply.result) if operation.result is not None else reply.result
