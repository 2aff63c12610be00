"""Relays one request of a client to the extension that serves it.

The request carries what the client declared about itself. An MCP server may answer that it needs
input first. A stateless client gets that answer unchanged; for a client of the handshake era the
questions are asked here, and the request is sent again with the answers.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import mcp_types as types
from mcp.shared.exceptions import MCPError

from exthost.dialects.meanings import Progress
from exthost.errors import CallFailed
from exthost.extension.extension import Extension
from exthost.gateway import mcp_values
from exthost.gateway.catalog import is_native, speaks_stateless
from exthost.gateway.exchanges import METHODS, Context, Exchange, Exchanges, ask_client
from exthost.gateway.held_calls import HeldCalls
from exthost.gateway.meta import is_stateless, relayed_meta

__all__ = ["Relay", "Send", "is_question", "report_progress"]

# How often one request may be answered with a question.
INPUT_ROUNDS = 8

# What a client may send again beside the params of its request.
_INPUT = ("inputResponses", "requestState")

Send: TypeAlias = Callable[[Exchange, Mapping[str, Any]], Awaitable[Any]]
"""Makes the request, with these members beside its params, and returns its result."""


class Relay:
    """Relays the requests of all clients."""

    def __init__(self, exchanges: Exchanges, held: HeldCalls) -> None:
        self._exchanges = exchanges
        self._held = held

    async def run(
        self, ctx: Context, params: Mapping[str, Any], extension: Extension, send: Send
    ) -> Any:
        """Return the result of the request that `send` makes."""
        exchange = Exchange(ctx, extension.id)
        work = self._work(exchange, params, extension, send)
        if not is_native(extension) or speaks_stateless(extension):
            return await work
        if not is_stateless(ctx.protocol_version) or not _serves_requests(ctx):
            return await work
        return await self._held.run(exchange, work)

    async def _work(
        self, exchange: Exchange, params: Mapping[str, Any], extension: Extension, send: Send
    ) -> Any:
        self._exchanges.add(exchange)
        try:
            if is_native(extension):
                result = await self._rounds(exchange, params, extension, send)
            else:
                result = await send(exchange, {})
            await exchange.outbox.flush()
            return result
        finally:
            self._exchanges.remove(exchange)
            exchange.outbox.close()

    async def _rounds(
        self, exchange: Exchange, params: Mapping[str, Any], extension: Extension, send: Send
    ) -> Any:
        ctx = exchange.ctx
        stateless = speaks_stateless(extension)
        meta = relayed_meta(params, ctx.session, server_is_stateless=stateless)
        own: dict[str, Any] = {"_meta": meta} if meta else {}
        responses = {name: params[name] for name in _INPUT if name in params} if stateless else {}
        result = await send(exchange, {**own, **responses})
        for _ in range(INPUT_ROUNDS):
            if not is_question(result) or is_stateless(ctx.protocol_version):
                return result
            result = await send(exchange, {**own, **await _answers(ctx, result)})
        if is_question(result):
            raise MCPError(types.INTERNAL_ERROR, f"the server asked for input {INPUT_ROUNDS} times")
        return result


def report_progress(exchange: Exchange) -> Callable[[Progress], None]:
    """Return a callback that passes progress on to the client; it does nothing if the client did
    not request progress."""

    def report(reported: Progress) -> None:
        _, progress, total, message = reported
        text = mcp_values.clean(message) or None
        exchange.outbox.put(lambda: exchange.ctx.session.report_progress(progress, total, text))

    return report


async def _answers(ctx: Context, result: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a client of the handshake era the questions of a stateless server."""
    more: dict[str, Any] = {}
    questions = result.get("inputRequests")
    if isinstance(questions, Mapping):
        answers = more["inputResponses"] = {}
        for key, question in questions.items():
            method = question.get("method") if isinstance(question, Mapping) else None
            if method not in METHODS:
                raise MCPError(types.INTERNAL_ERROR, f"the server asked for {method}")
            try:
                answers[key] = await ask_client(
                    ctx.session, method, question.get("params"), ctx.request_id
                )
            except CallFailed as error:
                code = types.INTERNAL_ERROR if error.error_code is None else error.error_code
                raise MCPError(int(code), error.error_message, error.data) from None
    if "requestState" in result:
        more["requestState"] = result["requestState"]
    return more


def is_question(result: Any) -> bool:
    """Return whether this is a request for input instead of a result."""
    return isinstance(result, dict) and result.get("resultType") == "input_required"


def _serves_requests(ctx: Context) -> bool:
    """Return whether the client serves any request of a server."""
    declared = ctx.session.client_capabilities
    return declared is not None and not (
        declared.sampling is None and declared.elicitation is None and declared.roots is None
    )
