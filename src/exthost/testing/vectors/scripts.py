"""Scripts without a process: the generators of a dialect, driven by what a script says."""

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from exthost.dialects.base import method_unknown
from exthost.dialects.calls import ToolCall
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.steps import (
    AskHost,
    GetOffer,
    MaybeMore,
    RetireProcess,
    Simple,
    Subscribe,
    TryRequest,
    WaitFor,
)
from exthost.errors import CallFailed
from exthost.messages import Notification, Reply, Request
from exthost.testing.vector_notation import Stated, parse_message
from exthost.testing.vectors.vector import Vector

__all__ = ["drive", "handshake_without_process", "operation_without_process"]


def drive(
    steps: Generator[Any, Any, Any],
    script: list[str],
    offer: Any = None,
    handlers: dict[str, Any] | None = None,
) -> Any:
    """Let a generator of exchanges play the host's part; returns its value or raises its error.

    What the session handles beside it (the child's own requests and notifications, and our answers)
    and what only a process can do is passed over. A `TryRequest` or a `WaitFor` that the script has
    no answer for stays without one.
    """
    lines = _exchanges(script)
    reply: Any = None
    while True:
        try:
            step = steps.send(reply)
            while isinstance(step, GetOffer | RetireProcess | AskHost):
                step = steps.send(_inside(step, offer, handlers or {}))
        except StopIteration as done:
            _skip_notifications(lines)
            assert not lines, f"the script has more than was said: {lines}"
            return done.value
        if isinstance(step, WaitFor):
            reply = _waited_for(step, lines)
            continue
        _skip_notifications(lines)
        assert lines, f"said more than the script has: {step}"
        sign, stated = lines.pop(0)
        assert sign == ">", f"said {step} where the child was to say {stated}"
        spoken = step.request if isinstance(step, TryRequest | Subscribe) else step
        _assert_equal(stated, spoken)
        reply = None
        if isinstance(spoken, Request) and not isinstance(step, Subscribe):
            _skip_notifications(lines)
            answered = bool(lines) and lines[0][0] == "<"
            assert answered or isinstance(step, TryRequest), f"the script does not answer {step}"
            reply = lines.pop(0)[1].message() if answered else None


def _inside(step: Any, offer: Any, handlers: dict[str, Any]) -> Any:
    """What the session itself answers."""
    if isinstance(step, AskHost):
        request = Request(step.method, step.params)
        known = step.method in handlers
        return Reply(None, handlers[step.method]) if known else method_unknown(request)
    return offer if isinstance(step, GetOffer) else None


def _skip_notifications(lines: list[tuple[str, Stated]]) -> None:
    """Pass over what the child says and nobody waits for."""
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
        aside = ("Request",) if sign == "<" else ("Reply", "Failure")
        if stated.kind not in aside:
            remaining.append((sign, stated))
    return remaining


def _assert_equal(stated: Stated, message: Any) -> None:
    """As `fits`, but a generator leaves the numbering to the session."""
    fields = {name: value for name, value in stated.fields.items() if name != "id"}
    assert Stated(stated.kind, fields).fits(message), f"expected {stated}, said {message}"


def handshake_without_process(vector: Vector) -> Any:
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
    return drive(vector.dialect.handshake(context), vector.row["script"])


def operation_without_process(vector: Vector) -> Any:
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
    if isinstance(operation, Simple):
        return drive(_one_exchange(operation, params), row["script"])
    handlers = vector.json("handlers", {})
    if isinstance(operation, MaybeMore):
        return drive(_once(operation, params), row["script"], _offer_before(vector), handlers)
    return drive(operation(params), row["script"], _offer_before(vector), handlers)


def _offer_before(vector: Vector) -> Any:
    """What the file's first handshake comes to, with this vector's own config and options."""
    if vector.first_handshake is None:
        return None
    own = {key: vector.row[key] for key in ("config", "options") if key in vector.row}
    first = vector.first_handshake | own
    return handshake_without_process(replace(vector, table="handshake", row=first))


def _once(operation: MaybeMore, params: Any) -> Generator[Any, Any, Any]:
    reply = yield Request(*operation.request(params))
    if type(reply).__name__ == "Failure":
        raise CallFailed("X0701", reply.message, error_message=reply.message)
    value = operation.finish(params, reply.result)
    return (yield from value) if isinstance(value, Generator) else value


def _one_exchange(row: Simple, params: Any) -> Generator[Any, Any, Any]:
    reply = yield Request(*row.request(params))
    if type(reply).__name__ == "Failure":
        raise CallFailed("X0701", reply.message, error_message=reply.message)
    return row.result(reply.result) if row.result is not None else reply.result
