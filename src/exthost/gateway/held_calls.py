"""Calls that wait for input of a stateless client.

A server of the handshake era sends requests to the client in the middle of a call. The stateless
era has no such requests: the call is answered with `input_required`, and the client calls again
with the answers. In between the first call waits here, under an unguessable `requestState`. If the
client does not call again, its call is cancelled after a while.
"""

import asyncio
import secrets
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError

from exthost.gateway.exchanges import Context, Exchange, Question

__all__ = ["HeldCalls"]

# A person may have to fill in a form.
HOLD_SECONDS = 600.0

# The prefix of our requestState values, which tells them from those of servers.
_PREFIX = "exthost-held-"


class _Held(NamedTuple):
    exchange: Exchange
    work: "asyncio.Task[Any]"
    questions: dict[str, Question]
    expiry: asyncio.TimerHandle


class HeldCalls:
    """The calls of all stateless clients that wait for input."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def holds(self, params: Mapping[str, Any]) -> bool:
        """Return whether this request continues a held call."""
        state = params.get("requestState")
        return isinstance(state, str) and state.startswith(_PREFIX)

    async def run(self, exchange: Exchange, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of this work, or the questions that must be answered first."""
        return await self._wait(exchange, asyncio.get_running_loop().create_task(work))

    async def resume(self, ctx: Context, params: Mapping[str, Any]) -> Any:
        """Continue a held call with the answers in these params."""
        held = self._held.pop(str(params.get("requestState")), None)
        if held is None:
            raise MCPError(types.INVALID_PARAMS, "unknown or expired requestState")
        held.expiry.cancel()
        exchange = held.exchange
        exchange.ctx = ctx
        answers = params.get("inputResponses")
        responses = answers if isinstance(answers, Mapping) else {}
        for key, question in held.questions.items():
            if question.answer.done():
                continue
            if key in responses:
                question.answer.set_result(responses[key])
            else:  # it is asked again
                exchange.questions.put_nowait(question)
        return await self._wait(exchange, held.work)

    async def _wait(self, exchange: Exchange, work: "asyncio.Task[Any]") -> Any:
        question = asyncio.get_running_loop().create_task(exchange.questions.get())
        try:
            await asyncio.wait({work, question}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            return self._hold(exchange, work, question.result())
        except BaseException:
            work.cancel()
            raise
        finally:
            question.cancel()

    def _hold(
        self, exchange: Exchange, work: "asyncio.Task[Any]", first: Question
    ) -> dict[str, Any]:
        questions = {"1": first}
        while not exchange.questions.empty():
            questions[str(len(questions) + 1)] = exchange.questions.get_nowait()
        state = _PREFIX + secrets.token_urlsafe(24)
        loop = asyncio.get_running_loop()
        expiry = loop.call_later(HOLD_SECONDS, self._expire, state)
        self._held[state] = _Held(exchange, work, questions, expiry)
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
        held = self._held.pop(state, None)
        if held is not None:
            held.work.cancel()

    async def close(self) -> None:
        """Cancel every call that is held."""
        held, self._held = list(self._held.values()), {}
        for call in held:
            call.expiry.cancel()
            call.work.cancel()
        await asyncio.gather(*(call.work for call in held), return_exceptions=True)
