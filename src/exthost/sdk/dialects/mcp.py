"""mcp: the Model Context Protocol over stdio, in both of its eras.

A request that carries a protocol version in its `_meta` is of the stateless era (2026-07-28):
everything that it is answered with depends on that request alone. Others are of the handshake era.
A server of this SDK speaks both on one connection.

Items of a stream and progress are progress notifications, sent only for a request that has a
progress token. Bad arguments and exceptions are results with `isError`, so that a model sees them.
In the stateless era a request to the host ends the call with `input_required`; the client sends the
call again with the answer, and the handler runs once more from its beginning.
"""

from typing import Any

from exthost.sdk.context import LEVELS
from exthost.sdk.dialects import mcp_content as content
from exthost.sdk.dialects.endpoint import Identity
from exthost.sdk.dialects.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    JsonRpcEndpoint,
    Method,
    member,
    text_of,
)
from exthost.sdk.dialects.mcp_exchange import (
    CAPABILITIES,
    LEVEL_ALIASES,
    PREFIX,
    VERSION,
    Exchange,
    read_exchange,
)
from exthost.sdk.errors import InputRequired, describe
from exthost.sdk.registry import Resource
from exthost.sdk.serving.call import NOTHING, Call
from exthost.sdk.serving.server import Server
from exthost.sdk.types.function import Function
from exthost.sdk.types.json_text import encode_text

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSION = "2026-07-28"

UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002

# What a server offers does not change while it runs.
_CACHED = {"ttlMs": 3_600_000, "cacheScope": "public"}


class McpEndpoint(JsonRpcEndpoint):
    """The server's end of an MCP connection."""

    name = "mcp"
    offers = frozenset({"tools", "resources"})

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        self._functions = dict(self.registry.callables)
        self._shapes = {name: content.Shape(function) for name, function in self._functions.items()}
        self._log_level = "info"
        resources = self.registry.resources.values()
        self._fixed = [resource for resource in resources if not resource.is_template]
        self._templates = [resource for resource in resources if resource.is_template]
        methods: dict[str, Method] = {
            "initialize": self._initialize,
            "notifications/initialized": lambda id, params: None,
            "notifications/cancelled": self._cancelled,
            "ping": lambda id, params: self.result(id, {}),
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
            "logging/setLevel": self._set_level,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
        }
        if resources:
            methods |= {
                "resources/list": self._list_resources,
                "resources/templates/list": self._list_templates,
                "resources/read": self._read_resource,
            }
        self.methods = methods

    # -- who it is ---------------------------------------------------------------------------

    def _about(self) -> dict[str, Any]:
        return {"name": self.identity.name, "version": self.identity.version}

    def _offered(self) -> dict[str, Any]:
        offered: dict[str, Any] = {"tools": {}, "logging": {}}
        return offered | ({"resources": {}} if self.registry.resources else {})

    def _instructions(self) -> dict[str, Any]:
        text = self.identity.description
        return {"instructions": text} if text else {}

    def _initialize(self, id: Any, params: Any) -> bytes | None:
        requested = member(params, "protocolVersion", str)
        version = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        result = {
            "protocolVersion": version,
            "capabilities": self._offered(),
            "serverInfo": self._about(),
        }
        return self.result(id, result | self._instructions())

    def _discover(self, id: Any, params: Any) -> bytes | None:
        meta = params.get("_meta") if type(params) is dict else None
        if type(meta) is not dict or VERSION not in meta:
            return self.error(id, METHOD_NOT_FOUND, "method not found: server/discover")
        if (refusal := self._refusal(id, meta)) is not None:
            return refusal
        result = {
            "resultType": "complete",
            "supportedVersions": [STATELESS_VERSION, *reversed(HANDSHAKE_VERSIONS)],
            "capabilities": self._offered(),
            "_meta": {f"{PREFIX}serverInfo": self._about()},
            **_CACHED,
        }
        return self.result(id, result | self._instructions())

    def _refusal(self, id: Any, meta: dict[str, Any]) -> bytes | None:
        """Return the error for an envelope of the stateless era that cannot be served."""
        if meta[VERSION] != STATELESS_VERSION:
            supported = [STATELESS_VERSION, *reversed(HANDSHAKE_VERSIONS)]
            data = {"supported": supported, "requested": meta[VERSION]}
            return self.error(id, UNSUPPORTED_VERSION, "unsupported protocol version", data)
        if type(meta.get(CAPABILITIES)) is not dict:
            return self.error(id, INVALID_PARAMS, f"_meta must have {CAPABILITIES}")
        return None

    def _listen(self, id: Any, params: Any) -> bytes | None:
        """Leave the request open and send nothing: what a server offers does not change."""
        about = {"notifications": {}, "_meta": {f"{PREFIX}subscriptionId": id}}
        return self.notification("notifications/subscriptions/acknowledged", about)

    def _set_level(self, id: Any, params: Any) -> bytes | None:
        level = member(params, "level", str)
        level = LEVEL_ALIASES.get(level, level)
        if level not in LEVELS:
            return self.error(id, INVALID_PARAMS, f"unknown level: {level}")
        self._log_level = level
        return self.result(id, {})

    def _cancelled(self, id: Any, params: Any) -> None:
        self.server.cancel(params.get("requestId") if type(params) is dict else None)

    def _listed(self, id: Any, params: Any, kind: str, items: list[Any]) -> bytes | None:
        meta = params.get("_meta") if type(params) is dict else None
        if type(meta) is dict and VERSION in meta:
            more = {"resultType": "complete", **_CACHED}
            return self._refusal(id, meta) or self.result(id, {kind: items, **more})
        return self.result(id, {kind: items})

    # -- tools -------------------------------------------------------------------------------

    def _list_tools(self, id: Any, params: Any) -> bytes | None:
        tools = [content.tool(name, shape) for name, shape in self._shapes.items()]
        return self._listed(id, params, "tools", tools)

    def _call_tool(self, id: Any, params: Any) -> bytes | None:
        name = member(params, "name", str)
        function = self._functions.get(name)
        if function is None:
            return self.error(id, INVALID_PARAMS, f"unknown tool: {name}")
        meta = params.get("_meta", NOTHING)
        if meta and type(meta) is dict and VERSION in meta:
            if (refusal := self._refusal(id, meta)) is not None:
                return refusal
            reply, failure = self._stateless_reply, self._stateless_failure
        else:
            reply, failure = self._handshake_reply, self._tool_failure
        arguments = params.get("arguments")
        exchange = None
        if function.context_name or function.is_generator:
            exchange = read_exchange(params, meta)
            if type(arguments) is dict and type(arguments.get("_meta")) is dict:
                meta = {**meta, **arguments["_meta"]}
        return self.run(
            id,
            function,
            arguments,
            reply,
            failure,
            meta=meta,
            token=exchange,
            on_item=self._item,
        )

    def _handshake_reply(self, id: Any, function: Function, value: Any) -> bytes:
        return self.bounded(content.reply(id, self._shapes[function.name], value, ""))

    def _stateless_reply(self, id: Any, function: Function, value: Any) -> bytes:
        more = '"resultType":"complete",'
        return self.bounded(content.reply(id, self._shapes[function.name], value, more))

    def _tool_failure(self, id: Any, function: Function, error: BaseException) -> bytes:
        blocks = [{"type": "text", "text": describe(error)}]
        return self.encode_result(id, {"content": blocks, "isError": True})

    def _stateless_failure(self, id: Any, function: Function, error: BaseException) -> bytes:
        if isinstance(error, InputRequired):
            question = {"method": error.method, "params": error.params}
            result = {
                "resultType": "input_required",
                "inputRequests": {"answer": question},
                "requestState": error.state,
            }
            return self.encode_result(id, result)
        blocks = [{"type": "text", "text": describe(error)}]
        return self.encode_result(
            id, {"resultType": "complete", "content": blocks, "isError": True}
        )

    # -- for the context ---------------------------------------------------------------------

    def _item(self, call: Call, item: Any) -> bytes | None:
        return self.progress(call, call.items, None, text_of(item))

    def progress(
        self, call: Call, current: float, total: float | None, message: str
    ) -> bytes | None:
        exchange = call.token
        if not isinstance(exchange, Exchange) or exchange.progress_token is None:
            return None
        value = exchange.next_progress(current)
        params: dict[str, Any] = {"progressToken": exchange.progress_token, "progress": value}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        return self.notification("notifications/progress", params)

    def log(self, call: Call, level: str, text: str) -> bytes | None:
        exchange = call.token
        wanted: str | None = self._log_level
        if isinstance(exchange, Exchange) and exchange.is_stateless:
            wanted = exchange.log_level
        if wanted is None or LEVELS.index(level) < LEVELS.index(wanted):
            return None
        params = {"level": level, "logger": self.identity.name, "data": text}
        return self.notification("notifications/message", params)

    def ask_host(self, call: Call, method: str, params: Any) -> Any:
        exchange = call.token
        if not isinstance(exchange, Exchange) or not exchange.is_stateless:
            return call.send_request(method, params)
        exchange.asked += 1
        if exchange.asked <= len(exchange.answers):
            return exchange.answers[exchange.asked - 1]
        raise InputRequired(method, params or {}, encode_text(exchange.answers))

    # -- resources ---------------------------------------------------------------------------

    def _list_resources(self, id: Any, params: Any) -> bytes | None:
        listed = [content.resource(resource, "uri") for resource in self._fixed]
        return self._listed(id, params, "resources", listed)

    def _list_templates(self, id: Any, params: Any) -> bytes | None:
        listed = [content.resource(template, "uriTemplate") for template in self._templates]
        return self._listed(id, params, "resourceTemplates", listed)

    def _read_resource(self, id: Any, params: Any) -> bytes | None:
        uri = member(params, "uri", str)
        found = self._find(uri)
        if found is None:
            return self.error(id, RESOURCE_NOT_FOUND, f"unknown resource: {uri}", {"uri": uri})
        resource, arguments = found
        meta = params.get("_meta")
        is_stateless = type(meta) is dict and VERSION in meta

        def reply(key: Any, function: Function, value: Any) -> bytes:
            result = content.resource_contents(resource, uri, value)
            more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            return self.encode_result(key, result | (more if is_stateless else {}))

        exchange = read_exchange(params, meta if type(meta) is dict else NOTHING)
        return self.run(id, resource.function, arguments, reply, self.error_reply, token=exchange)

    def _find(self, uri: str) -> tuple[Resource, dict[str, str]] | None:
        for resource in (*self._fixed, *self._templates):
            values = resource.match(uri)
            if values is not None:
                return resource, values
        return None


ENDPOINT = McpEndpoint
