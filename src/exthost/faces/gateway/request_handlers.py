"""The handlers of the MCP methods that the gateway implements, one for each method.

The gateway publishes all extensions of a host as one MCP server. A handler finds the extension that
a request of a client is for, such as the one that has the tool of `tools/call`, and passes the
request on to it.

A tool call runs the host's hooks (functions of extensions that judge or change calls) before and
after it. A call that fails becomes a result with `isError`, so that no extension can end the
gateway or another call. An error reply of an MCP server is passed on to the client unchanged. When
the client cancels its request, its handler is cancelled, and that cancels the call of the
extension.
"""

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import Any, TypeAlias

import mcp_types as types
from mcp.shared.exceptions import MCPError

from exthost.dialects.mcp.calls import INPUT_METHODS
from exthost.dialects.mcp.relayed import RELAYED, RelayedParams, RelayedRequest
from exthost.dialects.mcp.tasks import TASK_METHODS
from exthost.errors import CallFailed, ExthostError, NotFound
from exthost.extension.caller import CLIENT
from exthost.extension.extension import Extension
from exthost.faces.gateway import mcp_values, search_mode
from exthost.faces.gateway.catalog import Catalog, is_mcp_server
from exthost.faces.gateway.client_processes import ClientProcesses
from exthost.faces.gateway.clients import LEVELS, Clients
from exthost.faces.gateway.confirmations import make_confirm
from exthost.faces.gateway.exchanges import Context, Exchange, Exchanges
from exthost.faces.gateway.held_calls import HeldCalls
from exthost.faces.gateway.meta import is_stateless, sent_trace_context
from exthost.faces.gateway.request_relay import (
    RequestRelay,
    is_task,
    make_progress_callback,
    needs_input,
)
from exthost.faces.gateway.resource_subscriptions import ResourceSubscriptions
from exthost.faces.gateway.tasks import (
    check_name_header,
    require_tasks,
    split_public_id,
    with_public_id,
)
from exthost.faces.gateway.tool_list import ToolList
from exthost.faces.gateway.whole_results import PREFIX, SEARCH_MODE_BYTES, WholeResults
from exthost.host.host import Host
from exthost.tool_result import ToolResult

_log = logging.getLogger("exthost.faces.gateway")

# The error code for a resource that does not exist, in the handshake era of MCP (with sessions).
# The stateless era, which has no sessions, uses another.
_RESOURCE_NOT_FOUND = -32002

Params: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[Context, Params], Awaitable[dict[str, Any]]]


class RequestHandlers:
    """The handlers of one gateway. `methods` maps the name of a method to its handler. `set_level`
    sends the least severe log level of all clients to the MCP servers. `processes` has the
    processes of extensions that belong to one client."""

    def __init__(
        self,
        host: Host,
        tools: ToolList,
        catalog: Catalog,
        clients: Clients,
        exchanges: Exchanges,
        held_calls: HeldCalls,
        subscriptions: ResourceSubscriptions,
        set_level: Callable[[], Awaitable[None]],
        processes: ClientProcesses,
    ) -> None:
        self._host = host
        self._tools = tools
        self._catalog = catalog
        self._clients = clients
        self._held_calls = held_calls
        self._relay = RequestRelay(exchanges, held_calls)
        self._subscriptions = subscriptions
        self._set_level = set_level
        self._whole_results = WholeResults()
        self._processes = processes
        self.methods: Mapping[str, Handler] = {
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
            **{method: partial(self._relay_task_request, method) for method in TASK_METHODS},
        }

    # -- tools -------------------------------------------------------------------------------

    async def _list_tools(self, ctx: Context, params: Params) -> dict[str, Any]:
        await self._tools.wait_for_first_list()
        return {"tools": self._tools.list_for_version(ctx.protocol_version)}

    async def call_tool(self, ctx: Context, params: Params) -> dict[str, Any]:
        """Return the result of `tools/call`."""
        # Rules of the config may name a client; CLIENT is the name that they are compared with.
        client = ctx.session.client_params
        token = CLIENT.set("" if client is None else client.client_info.name)
        try:
            return await self._call_tool(ctx, params)
        finally:
            CLIENT.reset(token)

    async def _call_tool(self, ctx: Context, params: Params) -> dict[str, Any]:
        """Return the result of a tool call, or of a held call that the client continues. A call
        that fails becomes a result with `isError`."""
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            raise MCPError(types.INVALID_PARAMS, "tools/call has a name and an object of arguments")
        if self._held_calls.continues_held_call(params):
            try:
                resumed: dict[str, Any] = await self._held_calls.resume(ctx, params)
            except ExthostError as error:  # such as a call that a person did not agree to
                _log.warning("%s failed: %s", name, error)
                return mcp_values.error_result(error)
            return resumed
        if self._tools.is_searched and name == search_mode.SEARCH:
            return await self._search_tools(ctx, arguments)
        if self._tools.is_searched and name == search_mode.CALL:
            params = search_mode.unwrap_call(params)
            name, arguments = params["name"], params["arguments"]
        try:
            return await self._relay_call(ctx, params, name, arguments or {})
        except NotFound as error:
            # Unless it suggests a similar name, the help of the error is about the command line.
            help = error.help if "did you mean" in error.help else "tools/list has all names"
            message = f"{error.message}; {help}"
            raise MCPError(types.INVALID_PARAMS, message, mcp_values.error_details(error)) from None
        except ExthostError as error:
            _log.warning("%s failed: %s", name, error)
            return mcp_values.error_result(error)

    async def _relay_call(
        self, ctx: Context, params: Params, name: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Find the extension that has the tool `name`, call the tool, and return its result in the
        form of MCP. Raises ExthostError if the call fails."""
        tool = await self._tools.find(name)
        listed = self._host[tool.extension]
        # `listed`, or a private extension of this client if clients cannot share the processes.
        extension = self._processes.choose(listed)
        trace_fields = sent_trace_context(ctx.request, params)
        calls = extension.internals.calls
        # Only a rule or a hook asks the client to confirm a call (`confirm` in `send`).
        may_ask = not calls.is_unjudged(calls.announced_tool(tool.tool))

        async def send(exchange: Exchange, extra_params: Mapping[str, Any]) -> Any:
            """Make the call. `_relay` calls this, again with the client's input in `extra_params`
            if the server asks for input."""
            context: dict[str, Any] = {**trace_fields}
            if is_mcp_server(extension):
                meta = {**trace_fields, **extra_params.get("_meta", {})}
                call_params = {**extra_params, "_meta": meta} if meta else extra_params
                context[RELAYED] = RelayedRequest(call_params)
            # With check=False, a result that is marked as an error is returned, not raised.
            options: dict[str, Any] = {
                "context": context,
                "on_progress": make_progress_callback(exchange),
                "check": False,
                "confirm": make_confirm(exchange) if may_ask else None,
            }
            if extension is listed:
                result = await self._host.call_tool(tool.name, arguments, **options)
            else:
                result = await extension.call_tool(tool.tool, arguments, **options)
            return self._convert_result(extension, result, ctx.protocol_version)

        answer: dict[str, Any] = await self._relay.run(
            ctx, params, extension, send, may_ask=may_ask
        )
        return answer

    def _convert_result(
        self, extension: Extension, result: ToolResult, version: str
    ) -> dict[str, Any]:
        """Return the result of a call in the form of this protocol version. An MCP server may also
        have replied that it needs input, or that it runs the call as a task. Raises the error that
        the extension replied."""
        from_mcp_server = is_mcp_server(extension)
        failure = result.error_reply
        if failure is not None:
            raise _server_error(failure) if from_mcp_server else failure
        if from_mcp_server and needs_input(result.raw):
            return {name: value for name, value in result.raw.items() if value is not None}
        if from_mcp_server and is_task(result.raw):
            return with_public_id(extension.id, result.raw)
        if from_mcp_server:
            self._catalog.remember_links(extension.id, result.raw)
        whole = mcp_values.result_value(
            result.whole, from_mcp_server=from_mcp_server, version=version
        )
        return self._whole_results.limit(whole, self._result_limit(extension))

    def _result_limit(self, extension: Extension) -> int | None:
        """Return how many bytes of text a result may have; None for any number."""
        limit = extension.internals.calls.result_limit
        return SEARCH_MODE_BYTES if limit is None and self._tools.is_searched else limit

    async def _search_tools(self, ctx: Context, arguments: Any) -> dict[str, Any]:
        query, limit = search_mode.read_search(arguments)
        await self._tools.wait_for_first_list()
        try:
            found = self._tools.search_tools(query, limit, ctx.protocol_version)
        except ExthostError as error:
            return mcp_values.error_result(error)
        return search_mode.search_result(found)

    async def _relay_task_request(
        self, method: str, ctx: Context, params: Params
    ) -> dict[str, Any]:
        """Relay a request about a task to the server that runs the task."""
        require_tasks(ctx, params)
        public_id = _require_text(params, "taskId")
        check_name_header(ctx, public_id)
        extension_id, task_id = split_public_id(public_id)
        server = next((ext for ext in self._host.extensions if ext.id == extension_id), None)
        if server is None or not is_mcp_server(server):
            raise MCPError(types.INVALID_PARAMS, "there is no such task")
        request_params = {name: value for name, value in params.items() if name != "_meta"}
        result = await self._relay_request(
            ctx, params, server, method, {**request_params, "taskId": task_id}
        )
        return with_public_id(server.id, result) if "taskId" in result else result

    # -- resources ---------------------------------------------------------------------------

    async def _list_resources(self, ctx: Context, params: Params) -> dict[str, Any]:
        await self._tools.wait_for_first_list()
        return {"resources": await self._catalog.list_resources()}

    async def _list_templates(self, ctx: Context, params: Params) -> dict[str, Any]:
        await self._tools.wait_for_first_list()
        return {"resourceTemplates": await self._catalog.list_templates()}

    async def _read_resource(self, ctx: Context, params: Params) -> dict[str, Any]:
        """Return a resource: a whole result that the gateway keeps, or a resource of a server. The
        servers that may have it are tried in turn."""
        uri = _require_text(params, "uri")
        if uri.startswith(PREFIX):
            whole = self._whole_results.read(uri)
            if whole is None:
                raise _unknown_resource_error(ctx, uri)
            return whole
        if self._held_calls.continues_held_call(params):
            resumed: dict[str, Any] = await self._held_calls.resume(ctx, params)
            return resumed
        await self._tools.wait_for_first_list()
        failure = _unknown_resource_error(ctx, uri)
        tried: set[str] = set()  # kept while `search` calls `read` again as servers become ready

        async def read() -> dict[str, Any] | None:
            """Return the resource from a server that was not tried yet, or None."""
            nonlocal failure
            owners = await self._catalog.find_owners(uri)
            for server in owners or self._catalog.resource_servers:
                if server.id in tried:
                    continue
                tried.add(server.id)
                try:
                    return await self._relay_request(
                        ctx, params, server, "resources/read", {"uri": uri}
                    )
                except MCPError as error:
                    failure = error
            if owners:  # the resource belongs to them, so no other server need be tried
                raise failure
            return None

        # `search` calls `read` until it returns a result, or no extension is starting any more.
        result = await self._tools.search(read)
        if result is None:
            raise failure
        return result

    async def _subscribe(self, ctx: Context, params: Params) -> dict[str, Any]:
        uri = _require_text(params, "uri")
        try:
            await self.subscribe(uri, self._clients.get_or_add(ctx))
        except ExthostError as error:
            raise _convert_error(error) from None
        return {}

    async def subscribe(self, uri: str, subscriber: Hashable) -> None:
        """Add a subscriber of a resource, once its server is known. Raises CallFailed if the server
        refuses the subscription."""
        await self._tools.search(lambda: self._find_owners(uri))
        await self._subscriptions.add(uri, subscriber)

    async def _unsubscribe(self, ctx: Context, params: Params) -> dict[str, Any]:
        try:
            await self._subscriptions.remove(
                _require_text(params, "uri"), self._clients.get_or_add(ctx)
            )
        except ExthostError as error:
            raise _convert_error(error) from None
        return {}

    # -- prompts and completion --------------------------------------------------------------

    async def _list_prompts(self, ctx: Context, params: Params) -> dict[str, Any]:
        await self._tools.wait_for_first_list()
        return {"prompts": await self._catalog.list_prompts()}

    async def _get_prompt(self, ctx: Context, params: Params) -> dict[str, Any]:
        name = _require_text(params, "name")
        if self._held_calls.continues_held_call(params):
            resumed: dict[str, Any] = await self._held_calls.resume(ctx, params)
            return resumed
        await self._tools.wait_for_first_list()
        prompt = await self._tools.search(lambda: self._catalog.find_prompt(name))
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {name!r}")
        request_params = {"name": prompt.name}
        if "arguments" in params:
            request_params["arguments"] = params["arguments"]
        return await self._relay_request(
            ctx, params, prompt.extension, "prompts/get", request_params
        )

    async def _complete(self, ctx: Context, params: Params) -> dict[str, Any]:
        """Return completions for an argument of a prompt or of a resource template, from the server
        that has it."""
        ref, argument = params.get("ref"), params.get("argument")
        if not isinstance(ref, Mapping) or not isinstance(argument, Mapping):
            raise MCPError(types.INVALID_PARAMS, "completion/complete has a ref and an argument")
        await self._tools.wait_for_first_list()
        request_params = {name: value for name, value in params.items() if name != "_meta"}
        server: Extension | None = None
        if ref.get("type") == "ref/prompt":
            name = _require_text(ref, "name")
            prompt = await self._tools.search(lambda: self._catalog.find_prompt(name))
            if prompt is not None:
                server = prompt.extension
                request_params["ref"] = {**ref, "name": prompt.name}
        else:
            uri = _require_text(ref, "uri")
            owners = await self._tools.search(lambda: self._find_owners(uri))
            servers = owners or self._catalog.resource_servers
            server = servers[0] if servers else None
        if server is None:
            raise MCPError(types.INVALID_PARAMS, f"there is nothing to complete at {dict(ref)}")
        return await self._relay_request(ctx, params, server, "completion/complete", request_params)

    async def _find_owners(self, uri: str) -> list[Extension] | None:
        # None in place of an empty list, so that `search` continues.
        return await self._catalog.find_owners(uri) or None

    async def _relay_request(
        self,
        ctx: Context,
        params: Params,
        server: Extension,
        method: str,
        request_params: dict[str, Any],
    ) -> dict[str, Any]:
        """Send a request with `request_params` to a server, and return the result. `params` are
        those of the client's request, whose `_meta` is passed on."""
        server = self._processes.choose(server)

        async def send(exchange: Exchange, extra_params: Mapping[str, Any]) -> Any:
            relayed_params = {**request_params, **extra_params}
            # RelayedParams let the server reply with a request for input, which MCP allows only for
            # some methods.
            sent_params = (
                RelayedParams(relayed_params) if method in INPUT_METHODS else relayed_params
            )
            on_progress = make_progress_callback(exchange)
            result = await server.internals.calls.call(
                method,
                sent_params,
                None,  # the time limit is that of the config
                True,  # wait for a ready process
                on_progress,
            )
            if not isinstance(result, dict) or not mcp_values.is_json(result):
                raise MCPError(types.INTERNAL_ERROR, f"{server.id} sent no valid result")
            return result

        try:
            answer: dict[str, Any] = await self._relay.run(ctx, params, server, send)
        except ExthostError as error:
            _log.warning("%s failed: %s", method, error)
            raise _convert_error(error) from None
        return answer

    # -- logging -----------------------------------------------------------------------------

    async def _set_logging_level(self, ctx: Context, params: Params) -> dict[str, Any]:
        level = _require_text(params, "level")
        if level not in LEVELS:
            raise MCPError(types.INVALID_PARAMS, f"the level is one of {', '.join(LEVELS)}")
        self._clients.get_or_add(ctx).level = level
        await self._set_level()
        return {}


def _server_error(failure: CallFailed) -> MCPError:
    """Return the error that an MCP server replied, as the server sent it."""
    code = failure.error_code
    if type(code) is not int:
        code = types.INTERNAL_ERROR
    data = failure.data if mcp_values.is_json(failure.data) else None
    return MCPError(
        code, mcp_values.replace_surrogates(failure.error_message or failure.message), data
    )


def _convert_error(error: ExthostError) -> MCPError:
    """Return the MCP error for an error of the host. The error reply of an MCP server is returned
    unchanged; any other error gets its code in the message and its details as data."""
    if isinstance(error, CallFailed) and error.error_code is not None:
        return _server_error(error)
    subject = f"{error.extension}: " if error.extension else ""
    message = mcp_values.replace_surrogates(f"{subject}{error.message} [{error.code}]")
    return MCPError(types.INTERNAL_ERROR, message, mcp_values.error_details(error))


def _unknown_resource_error(ctx: Context, uri: str) -> MCPError:
    stateless = is_stateless(ctx.protocol_version)
    code = types.INVALID_PARAMS if stateless else _RESOURCE_NOT_FOUND
    return MCPError(code, f"Resource not found: {uri}", {"uri": uri})


def _require_text(params: Mapping[str, Any], field: str) -> str:
    value = params.get(field)
    if not isinstance(value, str):
        raise MCPError(types.INVALID_PARAMS, f"{field} must be a string")
    return value
