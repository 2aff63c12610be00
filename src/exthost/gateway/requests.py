"""Answers each request of a client.

A call runs between its hooks, as in the tool loop of the host. A failed call is a result: no
extension can end the gateway or another call. An error reply of an MCP server is passed on
unchanged. A cancellation by the client cancels the handler here, which cancels the call of the
extension in its dialect.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import mcp_types as types
from mcp.shared.exceptions import MCPError

from exthost.dialects.mcp.relayed import RELAYED, RelayedParams, RelayedRequest
from exthost.errors import CallFailed, ExthostError, NotFound
from exthost.extension.extension import Extension
from exthost.gateway import mcp_values
from exthost.gateway.catalog import Catalog, is_native
from exthost.gateway.clients import LEVELS, Clients
from exthost.gateway.exchanges import Context, Exchange, Exchanges
from exthost.gateway.held_calls import HeldCalls
from exthost.gateway.meta import is_stateless, sent_trace_context
from exthost.gateway.relay import Relay, is_question, report_progress
from exthost.gateway.resource_subscriptions import ResourceSubscriptions
from exthost.gateway.tool_list import ToolList
from exthost.host.host import Host

__all__ = ["Requests"]

_log = logging.getLogger("exthost.gateway")

# The protocol's error for a resource that is not there, in the handshake era.
_RESOURCE_NOT_FOUND = -32002

Params: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = Callable[[Context, Params], Awaitable[dict[str, Any]]]


class Requests:
    """The handlers of the protocol's methods: `methods` has them by name."""

    def __init__(
        self,
        host: Host,
        tools: ToolList,
        catalog: Catalog,
        clients: Clients,
        exchanges: Exchanges,
        held: HeldCalls,
        subscriptions: ResourceSubscriptions,
        set_level: Callable[[], Awaitable[None]],
    ) -> None:
        self._host = host
        self._tools = tools
        self._catalog = catalog
        self._clients = clients
        self._held = held
        self._relay = Relay(exchanges, held)
        self._subscriptions = subscriptions
        self._set_level = set_level
        self.methods: Mapping[str, Answer] = {
            "tools/list": self._list_tools,
            "tools/call": self.call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_logging_level,
        }

    # -- tools -------------------------------------------------------------------------------

    async def _list_tools(self, ctx: Context, params: Params) -> dict[str, Any]:
        await self._tools.ready()
        return {"tools": self._tools.shown(ctx.protocol_version)}

    async def call_tool(self, ctx: Context, params: Params) -> dict[str, Any]:
        """Return the result of `tools/call`."""
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            raise MCPError(types.INVALID_PARAMS, "tools/call has a name and an object of arguments")
        if self._held.holds(params):
            resumed: dict[str, Any] = await self._held.resume(ctx, params)
            return resumed
        try:
            found = await self._tools.find(name)
            extension = self._host[found.extension]
            native = is_native(extension)
            traced = sent_trace_context(ctx.request, params)

            async def send(exchange: Exchange, members: Mapping[str, Any]) -> Any:
                context: dict[str, Any] = {**traced}
                if native:
                    meta = {**traced, **members.get("_meta", {})}
                    whole = {**members, "_meta": meta} if meta else members
                    context[RELAYED] = RelayedRequest(whole)
                result = await self._host.run_tool(
                    found.name,
                    arguments or {},
                    context=context,
                    on_progress=report_progress(exchange),
                    check=False,
                )
                failure = result.error_reply
                if failure is not None:
                    raise failure if not native else as_it_came(failure)
                if native and is_question(result.raw):
                    return {name: value for name, value in result.raw.items() if value is not None}
                if native:
                    self._catalog.note_links(extension.id, result.raw)
                return mcp_values.result(result, native=native, version=ctx.protocol_version)

            answer: dict[str, Any] = await self._relay.run(ctx, params, extension, send)
            return answer
        except NotFound as error:
            message = f"{error.message}; {error.help}" if error.help else error.message
            raise MCPError(types.INVALID_PARAMS, message, mcp_values.about_error(error)) from None
        except ExthostError as error:
            _log.warning("%s failed: %s", name, error)
            return mcp_values.error(error)

    # -- resources ---------------------------------------------------------------------------

    async def _list_resources(self, ctx: Context, params: Params) -> dict[str, Any]:
        await self._tools.ready()
        return {"resources": await self._catalog.resources()}

    async def _list_templates(self, ctx: Context, params: Params) -> dict[str, Any]:
        await self._tools.ready()
        return {"resourceTemplates": await self._catalog.templates()}

    async def _read_resource(self, ctx: Context, params: Params) -> dict[str, Any]:
        uri = _text(params, "uri")
        if self._held.holds(params):
            resumed: dict[str, Any] = await self._held.resume(ctx, params)
            return resumed
        await self._tools.ready()
        failure = _unknown_resource(ctx, uri)
        for server in await self._catalog.servers_of(uri):
            try:
                return await self._relayed(ctx, params, server, "resources/read", {"uri": uri})
            except MCPError as error:
                failure = error
        raise failure

    async def _subscribe(self, ctx: Context, params: Params) -> dict[str, Any]:
        uri = _text(params, "uri")
        try:
            await self._subscriptions.add(uri, self._clients.of(ctx))
        except ExthostError as error:
            raise _as_error(error) from None
        return {}

    async def _unsubscribe(self, ctx: Context, params: Params) -> dict[str, Any]:
        try:
            await self._subscriptions.remove(_text(params, "uri"), self._clients.of(ctx))
        except ExthostError as error:
            raise _as_error(error) from None
        return {}

    # -- prompts and completion --------------------------------------------------------------

    async def _list_prompts(self, ctx: Context, params: Params) -> dict[str, Any]:
        await self._tools.ready()
        return {"prompts": await self._catalog.prompts()}

    async def _get_prompt(self, ctx: Context, params: Params) -> dict[str, Any]:
        name = _text(params, "name")
        if self._held.holds(params):
            resumed: dict[str, Any] = await self._held.resume(ctx, params)
            return resumed
        await self._tools.ready()
        prompt = await self._catalog.prompt(name)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {name!r}")
        request_params = {"name": prompt.name}
        if "arguments" in params:
            request_params["arguments"] = params["arguments"]
        return await self._relayed(ctx, params, prompt.extension, "prompts/get", request_params)

    async def _complete(self, ctx: Context, params: Params) -> dict[str, Any]:
        ref, argument = params.get("ref"), params.get("argument")
        if not isinstance(ref, Mapping) or not isinstance(argument, Mapping):
            raise MCPError(types.INVALID_PARAMS, "completion/complete has a ref and an argument")
        await self._tools.ready()
        request_params = {name: value for name, value in params.items() if name != "_meta"}
        server: Extension | None = None
        if ref.get("type") == "ref/prompt":
            prompt = await self._catalog.prompt(_text(ref, "name"))
            if prompt is not None:
                server = prompt.extension
                request_params["ref"] = {**ref, "name": prompt.name}
        else:
            servers = await self._catalog.servers_of(_text(ref, "uri"))
            server = servers[0] if servers else None
        if server is None:
            raise MCPError(types.INVALID_PARAMS, f"there is nothing to complete at {dict(ref)}")
        return await self._relayed(ctx, params, server, "completion/complete", request_params)

    async def _relayed(
        self,
        ctx: Context,
        params: Params,
        server: Extension,
        method: str,
        request_params: dict[str, Any],
    ) -> dict[str, Any]:
        async def send(exchange: Exchange, members: Mapping[str, Any]) -> Any:
            whole = {**request_params, **members}
            # Completion has no input rounds: it goes out as any request.
            sent = whole if method == "completion/complete" else RelayedParams(whole)
            progress = report_progress(exchange)
            result = await server.calls.call(method, sent, None, True, progress)
            if not isinstance(result, dict) or not mcp_values.is_json(result):
                raise MCPError(types.INTERNAL_ERROR, f"{server.id} sent no valid result")
            return result

        try:
            answer: dict[str, Any] = await self._relay.run(ctx, params, server, send)
        except ExthostError as error:
            _log.warning("%s failed: %s", method, error)
            raise _as_error(error) from None
        return answer

    # -- logging -----------------------------------------------------------------------------

    async def _set_logging_level(self, ctx: Context, params: Params) -> dict[str, Any]:
        level = _text(params, "level")
        if level not in LEVELS:
            raise MCPError(types.INVALID_PARAMS, f"the level is one of {', '.join(LEVELS)}")
        self._clients.of(ctx).level = level
        await self._set_level()
        return {}


def as_it_came(failure: CallFailed) -> MCPError:
    """Return the error of an MCP server as the client would have got it from the server."""
    code = failure.error_code
    if type(code) is not int:
        code = types.INTERNAL_ERROR
    data = failure.data if mcp_values.is_json(failure.data) else None
    return MCPError(code, mcp_values.clean(failure.error_message or failure.message), data)


def _as_error(error: ExthostError) -> MCPError:
    if isinstance(error, CallFailed) and error.error_code is not None:
        return as_it_came(error)
    about = f"{error.extension}: " if error.extension else ""
    message = mcp_values.clean(f"{about}{error.message} [{error.code}]")
    return MCPError(types.INTERNAL_ERROR, message, mcp_values.about_error(error))


def _unknown_resource(ctx: Context, uri: str) -> MCPError:
    stateless = is_stateless(ctx.protocol_version)
    code = types.INVALID_PARAMS if stateless else _RESOURCE_NOT_FOUND
    return MCPError(code, f"Resource not found: {uri}", {"uri": uri})


def _text(params: Mapping[str, Any], member: str) -> str:
    value = params.get(member)
    if not isinstance(value, str):
        raise MCPError(types.INVALID_PARAMS, f"{member} must be a text")
    return value
