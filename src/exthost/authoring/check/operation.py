"""Calls a tool of a process under check. The dialect's operation `call_tool` defines the
messages."""

from typing import Any

from exthost.authoring.check.checked_process import CheckedProcess
from exthost.dialects.calls import ToolCall
from exthost.dialects.steps import (
    AskHost,
    Exchanges,
    GetOffer,
    Received,
    Subscribe,
    TryRequest,
    WaitFor,
    as_generator,
)
from exthost.model.messages import Failure, Notification, Request
from exthost.model.offer import Offer


async def call_tool(process: CheckedProcess, call: ToolCall, offer: Offer, seconds: float) -> Any:
    """Call a tool and return its result. Raises NoAnswer, CallFailed or ProtocolViolation."""
    operation = process.dialect.operations["call_tool"]
    steps = as_generator(operation, call, call.name)
    return await _run(process, steps, offer, seconds)


async def _run(process: CheckedProcess, steps: Exchanges, offer: Offer, seconds: float) -> Any:
    """Run the steps of a generator and return its value. `seconds` is the time limit of each
    request."""
    received: Received = None
    while True:
        try:
            step = steps.send(received)
        except StopIteration as end:
            return end.value
        received = None
        match step:
            case Request():
                received = await process.request(step, seconds)
            case TryRequest(request, _):
                received = await process.request(request, seconds)
            case Subscribe():
                data, _ = process.register_request(step.request)
                await process.write(data)
            case Notification():
                await process.notify(step)
            case GetOffer():
                received = offer
            case AskHost():
                received = Failure(None, "nobody answers during a check", -32601)
            case WaitFor():
                received = None
