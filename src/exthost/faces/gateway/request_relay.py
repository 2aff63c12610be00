"""Relays one request of a client of the gateway to the extension that answers it, translating
between the eras of MCP: the handshake era, in which a client opens a session, and the stateless era
without sessions.

The relayed request carries what the client declared about itself. A stateless MCP server may reply
that it needs input first. A stateless client gets that reply unchanged. To a client of the
handshake era, the gateway sends a request for each input, and then the relay sends the client's
request again with the input.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import mcp_types as types
from mcp.shared.exceptions import MCPError

from exthost.dialects.meanings import Progress
from exthost.errors import CallFailed
from exthost.extension.extension import Extension
from exthost.faces.gateway import mcp_values
from exthost.faces.gateway.catalog import is_mcp_server, is_stateless_server
from exthost.faces.gateway.exchanges import METHODS, Context, Exchange, Exchanges, ask_client
from exthost.faces.gateway.held_calls import HeldCalls
from exthost.faces.gateway.meta import is_stateless, relayed_meta, without_server_info

# How often a server may ask for input before it answers one request.
MAX_INPUT_ROUNDS = 8

# The params with which a stateless client repeats its request after it was asked for input.
_INPUT_FIELDS = ("inputResponses", "requestState")

SendRequest: TypeAlias = Callable[[Exchange, Mapping[str, Any]], Awaitable[Any]]
"""Sends the request, with these fields added to its params, and returns the result."""


class RequestRelay:
    """Relays the requests of all clients."""

    def __init__(self, exchanges: Exchanges, held_calls: HeldCalls) -> None:
        self._exchanges = exchanges
        self._held_calls = held_calls

    async def run(
        self,
        ctx: Context,
        params: Mapping[str, Any],
        extension: Extension,
        send: SendRequest,
        *,
        may_ask: bool = False,
    ) -> Any:
        """Relay a request and return its result. `send` sends the request to the extension.
        `may_ask` is whether the host itself may ask the client first."""
        exchange = Exchange(ctx, extension.id)
        exchange_run = self._run_exchange(exchange, params, extension, send)
        if not may_ask and (not is_mcp_server(extension) or is_stateless_server(extension)):
            return await exchange_run
        # The host, or a server of the handshake era, may send requests during the call. A stateless
        # client cannot get requests, so its call is kept open until the client has answered
        # (`held_calls`). If the client has declared that it answers no requests at all, requests
        # are refused, and the call need not be kept open.
        if not is_stateless(ctx.protocol_version) or not _answers_requests(ctx):
            return await exchange_run
        return await self._held_calls.run(exchange, exchange_run)

    async def _run_exchange(
        self, exchange: Exchange, params: Mapping[str, Any], extension: Extension, send: SendRequest
    ) -> Any:
        """Send the request, and return its result. Meanwhile it is an exchange in progress, to
        which requests of the server can belong."""
        self._exchanges.add(exchange)
        try:
            if is_mcp_server(extension):
                result = without_server_info(
                    await self._run_input_rounds(exchange, params, extension, send)
                )
            else:
                result = await send(exchange, {})
            await exchange.outbox.flush()
            return result
        finally:
            self._exchanges.remove(exchange)
            exchange.outbox.close()

    async def _run_input_rounds(
        self, exchange: Exchange, params: Mapping[str, Any], extension: Extension, send: SendRequest
    ) -> Any:
        """Send the request to an MCP server, again with the client's input if the server asks for
        input. Return the result."""
        ctx = exchange.ctx
        server_is_stateless = is_stateless_server(extension)
        meta = relayed_meta(params, ctx.session, server_is_stateless=server_is_stateless)
        meta_params: dict[str, Any] = {"_meta": meta} if meta else {}
        # A stateless client that was asked for input by this server has sent its request again.
        input_params = (
            {name: params[name] for name in _INPUT_FIELDS if name in params}
            if server_is_stateless
            else {}
        )
        result = await send(exchange, {**meta_params, **input_params})
        for _ in range(MAX_INPUT_ROUNDS):
            if not needs_input(result) or is_stateless(ctx.protocol_version):
                return result
            result = await send(exchange, {**meta_params, **await _ask_for_input(ctx, result)})
        if needs_input(result):
            raise MCPError(
                types.INTERNAL_ERROR, f"the server requested input {MAX_INPUT_ROUNDS} times"
            )
        return result


def make_progress_callback(exchange: Exchange) -> Callable[[Progress], None]:
    """Return a callback that passes progress on to the client; it does nothing if the client did
    not request progress."""

    def report(values: Progress) -> None:
        _, progress, total, message = values
        text = mcp_values.replace_surrogates(message) or None
        exchange.outbox.put(lambda: exchange.ctx.session.report_progress(progress, total, text))

    return report


async def _ask_for_input(ctx: Context, result: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a client of the handshake era for the input that a stateless server requests, and return
    it as params of the next round."""
    input_params: dict[str, Any] = {}
    questions = result.get("inputRequests")
    if isinstance(questions, Mapping):
        answers = input_params["inputResponses"] = {}
        for key, question in questions.items():
            method = question.get("method") if isinstance(question, Mapping) else None
            if method not in METHODS:
                raise MCPError(types.INTERNAL_ERROR, f"the server requested {method}")
            try:
                answers[key] = await ask_client(
                    ctx.session, method, question.get("params"), ctx.request_id
                )
            except CallFailed as error:
                code = types.INTERNAL_ERROR if error.error_code is None else error.error_code
                raise MCPError(int(code), error.error_message, error.data) from None
    if "requestState" in result:
        input_params["requestState"] = result["requestState"]
    return input_params


def needs_input(result: Any) -> bool:
    """Return whether a server asks for input instead of sending the result."""
    return isinstance(result, dict) and result.get("resultType") == "input_required"


def is_task(result: Any) -> bool:
    """Return whether a server runs the request as a task instead of sending the result."""
    return isinstance(result, dict) and result.get("resultType") == "task"


def _answers_requests(ctx: Context) -> bool:
    """Return whether the client answers any requests of servers."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and not (
        capabilities.sampling is None
        and capabilities.elicitation is None
        and capabilities.roots is None
    )
