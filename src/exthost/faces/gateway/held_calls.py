"""Calls of a stateless client of the gateway that wait until the client has supplied input.

An MCP server of the handshake era (with sessions) may send requests to its client during a call,
such as a form for a person. In the stateless era (without sessions) servers send no requests, so
the gateway, which is between them, translates: it answers the client with `input_required`, and the
client sends its call again with the input. Meanwhile the call to the server continues. It is kept
here under an unguessable `requestState`, which the client sends back. If the client does not call
again in time, the call is cancelled.
"""

import asyncio
import secrets
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError

from exthost.faces.gateway.exchanges import Context, Exchange, Question

# The time that a client has to call again. It is long because a person may have to fill in a form.
HOLD_SECONDS = 600.0

# Stateless servers send `requestState` values, too. This prefix marks the values of the gateway.
_STATE_PREFIX = "exthost-held-"


class _HeldCall(NamedTuple):
    """A held call. `exchange` is the client's request, `task` makes the call, `questions` are the
    requests of the server that the client has to answer, by their keys in `inputRequests`, and
    `expiry` is the timer that cancels the call."""

    exchange: Exchange
    task: "asyncio.Task[Any]"
    questions: dict[str, Question]
    expiry: asyncio.TimerHandle


def _request_identity(ctx: Context) -> tuple[Any, ...]:
    """Return the values that must be the same in a request and in its repetition with the input."""
    params = ctx.params or {}
    client = ctx.session.client_params
    name = None if client is None else client.client_info.name
    return (ctx.method, name, *(params.get(key) for key in ("name", "arguments", "uri")))


class HeldCalls:
    """The held calls of all stateless clients, by their `requestState`."""

    def __init__(self) -> None:
        self._calls_by_state: dict[str, _HeldCall] = {}

    def continues_held_call(self, params: Mapping[str, Any]) -> bool:
        """Return whether the request with these params continues a held call."""
        state = params.get("requestState")
        return isinstance(state, str) and state.startswith(_STATE_PREFIX)

    async def run(self, exchange: Exchange, call: Coroutine[Any, Any, Any]) -> Any:
        """Run this coroutine, which makes the call. Return its result, or an `input_required`
        result if the server sends a request first."""
        return await self._wait(exchange, asyncio.get_running_loop().create_task(call))

    async def resume(self, ctx: Context, params: Mapping[str, Any]) -> Any:
        """Continue a held call with the answers in these params."""
        held_call = self._calls_by_state.pop(str(params.get("requestState")), None)
        if held_call is None:
            raise MCPError(types.INVALID_PARAMS, "unknown or expired requestState")
        held_call.expiry.cancel()
        exchange = held_call.exchange
        if _request_identity(ctx) != _request_identity(exchange.ctx):
            # An answer counts for the call that it was requested for, and for its client.
            held_call.task.cancel()
            raise MCPError(types.INVALID_PARAMS, "this requestState belongs to another request")
        exchange.ctx = ctx
        answers = params.get("inputResponses")
        responses = answers if isinstance(answers, Mapping) else {}
        for key, question in held_call.questions.items():
            if question.answer.done():
                continue
            if key in responses:
                question.answer.set_result(responses[key])
            else:  # the client left this question unanswered, so it is asked again
                exchange.questions.put_nowait(question)
        return await self._wait(exchange, held_call.task)

    async def _wait(self, exchange: Exchange, task: "asyncio.Task[Any]") -> Any:
        """Wait until the call is done or the server sends a request. Return the result of the call,
        or the `input_required` result."""
        question = asyncio.get_running_loop().create_task(exchange.questions.get())
        try:
            await asyncio.wait({task, question}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            return self._hold(exchange, task, question.result())
        except BaseException:
            task.cancel()
            raise
        finally:
            question.cancel()

    def _hold(
        self, exchange: Exchange, task: "asyncio.Task[Any]", first_question: Question
    ) -> dict[str, Any]:
        """Hold a call until the client answers. Return the `input_required` result with all
        requests that the server has sent so far."""
        questions = {"1": first_question}
        while not exchange.questions.empty():
            questions[str(len(questions) + 1)] = exchange.questions.get_nowait()
        state = _STATE_PREFIX + secrets.token_urlsafe(24)
        loop = asyncio.get_running_loop()
        expiry = loop.call_later(HOLD_SECONDS, self._expire, state)
        self._calls_by_state[state] = _HeldCall(exchange, task, questions, expiry)
        requests = {
            key: {"method": question.method, "params": question.params or {}}
            for key, question in questions.items()
        }
        return {
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": state,
        }

    def _expire(self, state: str) -> None:
        held_call = self._calls_by_state.pop(state, None)
        if held_call is not None:
            held_call.task.cancel()

    async def close(self) -> None:
        """Cancel every held call."""
        held_calls, self._calls_by_state = list(self._calls_by_state.values()), {}
        for call in held_calls:
            call.expiry.cancel()
            call.task.cancel()
        await asyncio.gather(*(call.task for call in held_calls), return_exceptions=True)
