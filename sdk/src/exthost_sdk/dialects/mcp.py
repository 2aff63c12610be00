"""The extension's side of MCP (Model Context Protocol) over stdio, in both of its eras.

A request with a protocol version in its `_meta` field belongs to the stateless era (version
2026-07-28): the reply depends on that request alone. All other requests belong to the handshake
era, whose versions begin with `initialize`. One connection may carry requests of both eras.

    {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
     "params": {"name": "shout", "arguments": {"text": "hi"}}}
    {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "HI"}]}}

The items of a stream, and progress, are sent as progress notifications, and only for a request
with a progress token. Bad arguments and exceptions become results with `isError`, so that the model
sees them.

In the stateless era a handler cannot wait for the client. If it sends a request to the client, the
call ends with `input_required`. The client then sends the call again with the answer, and the
handler runs again from its beginning; this time the same request returns that answer at once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from exthost_sdk.answers import PromptMessage
from exthost_sdk.context import LEVELS
from exthost_sdk.endpoints import mcp_content as content
from exthost_sdk.endpoints.endpoint import Identity
from exthost_sdk.endpoints.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    JsonRpcEndpoint,
    Method,
    get_field,
)
from exthost_sdk.endpoints.mcp_exchange import (
    CAPABILITIES,
    LEVEL_ALIASES,
    PREFIX,
    VERSION,
    McpExchange,
    parse_exchange,
)
from exthost_sdk.endpoints.sdk_dialect import SdkDialect
from exthost_sdk.errors import HostError, InputRequired, InvalidArguments, describe
from exthost_sdk.registry import Resource
from exthost_sdk.serving.call import EMPTY_MAPPING, Failure, HandlerCall, Reply
from exthost_sdk.serving.server import Server
from exthost_sdk.types.function import Function
from exthost_sdk.types.json_text import encode_text, to_text

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSION = "2026-07-28"

UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002

# Clients may cache lists for an hour: tools and resources do not change while the extension runs.
_CACHE_HINTS = {"ttlMs": 3_600_000, "cacheScope": "public"}


class McpEndpoint(JsonRpcEndpoint):
    """The extension's side of an MCP connection; in MCP the extension is called the server."""

    name = "mcp"
    supported_kinds = frozenset({"tools", "resources", "prompts"})

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        self._functions = dict(self.registry.callables)
        self._formats = {
            name: content.ResultFormat(function) for name, function in self._functions.items()
        }
        self._log_level = "info"
        self._client_capabilities: Mapping[str, Any] = EMPTY_MAPPING
        resources = self.registry.resources.values()
        self._fixed_resources = [resource for resource in resources if not resource.is_template]
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
        if self.registry.prompts:
            methods |= {"prompts/list": self._list_prompts, "prompts/get": self._get_prompt}
        self.methods = methods

    # -- handshake and discovery -------------------------------------------------------------

    def _server_info(self) -> dict[str, Any]:
        return {"name": self.identity.name, "version": self.identity.version}

    def _server_capabilities(self) -> dict[str, Any]:
        offered: dict[str, Any] = {"tools": {}, "logging": {}}
        offered |= {"resources": {}} if self.registry.resources else {}
        return offered | ({"prompts": {}} if self.registry.prompts else {})

    def _instructions(self) -> dict[str, Any]:
        text = self.identity.description
        return {"instructions": text} if text else {}

    def _initialize(self, id: Any, params: Any) -> bytes | None:
        requested = get_field(params, "protocolVersion", str)
        self._client_capabilities = get_field(params, "capabilities", dict, None) or EMPTY_MAPPING
        version = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        result = {
            "protocolVersion": version,
            "capabilities": self._server_capabilities(),
            "serverInfo": self._server_info(),
        }
        return self.result(id, result | self._instructions())

    def _discover(self, id: Any, params: Any) -> bytes | None:
        """Answer the request with which a client of the stateless era begins. Clients of the
        handshake era do not know it."""
        meta = params.get("_meta") if type(params) is dict else None
        if type(meta) is not dict or VERSION not in meta:
            return self.error(id, METHOD_NOT_FOUND, "method not found: server/discover")
        if (refusal := self._find_meta_error(id, meta)) is not None:
            return refusal
        result = {
            "resultType": "complete",
            "supportedVersions": [STATELESS_VERSION, *reversed(HANDSHAKE_VERSIONS)],
            "capabilities": self._server_capabilities(),
            "_meta": {f"{PREFIX}serverInfo": self._server_info()},
            **_CACHE_HINTS,
        }
        return self.result(id, result | self._instructions())

    def _find_meta_error(self, id: Any, meta: dict[str, Any]) -> bytes | None:
        """Return the error response if the `_meta` of a stateless request is wrong, else None."""
        if meta[VERSION] != STATELESS_VERSION:
            supported = [STATELESS_VERSION, *reversed(HANDSHAKE_VERSIONS)]
            data = {"supported": supported, "requested": meta[VERSION]}
            return self.error(id, UNSUPPORTED_VERSION, "unsupported protocol version", data)
        if type(meta.get(CAPABILITIES)) is not dict:
            return self.error(id, INVALID_PARAMS, f"_meta must have {CAPABILITIES}")
        return None

    def _listen(self, id: Any, params: Any) -> bytes | None:
        """Acknowledge a subscription. The request itself stays open, without a response. Nothing
        more is sent, since tools and resources do not change."""
        if id is None:
            return None
        params = {"notifications": {}, "_meta": {f"{PREFIX}subscriptionId": id}}
        return self.notification("notifications/subscriptions/acknowledged", params)

    def _set_level(self, id: Any, params: Any) -> bytes | None:
        level = get_field(params, "level", str)
        level = LEVEL_ALIASES.get(level, level)
        if level not in LEVELS:
            return self.error(id, INVALID_PARAMS, f"unknown level: {level}")
        self._log_level = level
        return self.result(id, {})

    def _cancelled(self, id: Any, params: Any) -> None:
        self.server.cancel(params.get("requestId") if type(params) is dict else None)

    def _encode_list(self, id: Any, params: Any, kind: str, items: list[Any]) -> bytes | None:
        """Return the response with a list, in the form of the request's era."""
        meta = params.get("_meta") if type(params) is dict else None
        if type(meta) is dict and VERSION in meta:
            fields = {"resultType": "complete", **_CACHE_HINTS}
            return self._find_meta_error(id, meta) or self.result(id, {kind: items, **fields})
        return self.result(id, {kind: items})

    # -- tools -------------------------------------------------------------------------------

    def _list_tools(self, id: Any, params: Any) -> bytes | None:
        tools = [content.encode_tool(name, format) for name, format in self._formats.items()]
        return self._encode_list(id, params, "tools", tools)

    def _call_tool(self, id: Any, params: Any) -> bytes | None:
        """Call a tool. The form of the reply is that of the request's era."""
        name = get_field(params, "name", str)
        function = self._functions.get(name)
        if function is None:
            return self.error(id, INVALID_PARAMS, f"unknown tool: {name}")
        meta = params.get("_meta", EMPTY_MAPPING)
        if meta is not EMPTY_MAPPING and type(meta) is not dict:
            meta = EMPTY_MAPPING
        if VERSION in meta:
            if (refusal := self._find_meta_error(id, meta)) is not None:
                return refusal
            reply, failure = self._encode_stateless_reply, self._encode_stateless_failure
        else:
            reply, failure = self._encode_handshake_reply, self._encode_tool_failure
        arguments = params.get("arguments")
        exchange = None
        # Only a context and the items of a generator need these; other calls are faster without.
        if function.context_name or function.is_generator:
            exchange = parse_exchange(params, meta)
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
            on_item=self._encode_item,
        )

    def _encode_handshake_reply(self, id: Any, function: Function, value: Any) -> bytes:
        return self._encode_tool_result(id, function, value, "")

    def _encode_stateless_reply(self, id: Any, function: Function, value: Any) -> bytes:
        return self._encode_tool_result(id, function, value, '"resultType":"complete",')

    def _encode_tool_result(self, id: Any, function: Function, value: Any, fields: str) -> bytes:
        if id is None:
            return b""
        format = self._formats[function.name]
        return self.frame_within_limit(content.encode_reply(id, format, value, fields))

    def _encode_tool_failure(self, id: Any, function: Function, error: BaseException) -> bytes:
        blocks = [{"type": "text", "text": describe(error)}]
        return self.encode_result(id, {"content": blocks, "isError": True})

    def _encode_stateless_failure(self, id: Any, function: Function, error: BaseException) -> bytes:
        """Return the result for an exception; for InputRequired, the question to the client."""
        if isinstance(error, InputRequired):
            return self._encode_question(id, error)
        blocks = [{"type": "text", "text": describe(error)}]
        return self.encode_result(
            id, {"resultType": "complete", "content": blocks, "isError": True}
        )

    def _encode_stateless_error(self, id: Any, function: Function, error: BaseException) -> bytes:
        """Do the same for a prompt or a resource, whose errors are error responses."""
        if isinstance(error, InputRequired):
            return self._encode_question(id, error)
        return self.encode_error_reply(id, function, error)

    def _encode_question(self, id: Any, question: InputRequired) -> bytes:
        request = {"method": question.method, "params": question.params}
        result = {
            "resultType": "input_required",
            "inputRequests": {"answer": request},
            "requestState": question.state,
        }
        return self.encode_result(id, result)

    # -- for the context ---------------------------------------------------------------------

    def _encode_item(self, call: HandlerCall, item: Any) -> bytes | None:
        if call.token is None:  # `_call_tool` did not expect that a plain function has items
            call.token = parse_exchange({}, call.meta)
        exchange = call.token
        if not isinstance(exchange, McpExchange) or exchange.progress_token is None:
            return None
        value = exchange.next_item_progress(call.items)
        return self._encode_progress(exchange, value, None, to_text(item))

    def progress(
        self, call: HandlerCall, current: float, total: float | None, message: str
    ) -> bytes | None:
        exchange = call.token
        if not isinstance(exchange, McpExchange) or exchange.progress_token is None:
            return None
        return self._encode_progress(exchange, exchange.next_progress(current), total, message)

    def _encode_progress(
        self, exchange: McpExchange, value: float, total: float | None, message: str
    ) -> bytes:
        params: dict[str, Any] = {"progressToken": exchange.progress_token, "progress": value}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        return self.notification("notifications/progress", params)

    def log(self, call: HandlerCall, level: str, text: str) -> bytes | None:
        exchange = call.token
        min_level: str | None = self._log_level
        if isinstance(exchange, McpExchange) and exchange.is_stateless:
            # None: this request wants no log messages, or its response was sent already.
            min_level = None if call.is_over else exchange.log_level
        if min_level is None or LEVELS.index(level) < LEVELS.index(min_level):
            return None
        params = {"level": level, "logger": self.identity.name, "data": text}
        return self.notification("notifications/message", params)

    def ask_host(self, call: HandlerCall, method: str, params: Any) -> Any:
        exchange = call.token
        if not isinstance(exchange, McpExchange) or not exchange.is_stateless:
            return call.send_request(method, params)
        # The handler runs from its beginning each time the call is sent. Its first requests were
        # answered in earlier runs; only the next one has to be sent to the client.
        exchange.requests_made += 1
        if exchange.requests_made <= len(exchange.answers):
            return exchange.answers[exchange.requests_made - 1]
        if call.is_over:
            raise HostError("the call has ended, so the client cannot be asked")
        raise InputRequired(method, params or {}, encode_text(exchange.answers))

    def cancel_request(self, number: int) -> bytes:
        params = {"requestId": number, "reason": "the answer is not needed any more"}
        return self.notification("notifications/cancelled", params)

    def elicitation(
        self, call: HandlerCall, message: str, schema: Mapping[str, Any]
    ) -> tuple[str, Any]:
        self._require_of_client(call, "elicitation", "show a form to a person")
        return "elicitation/create", {"message": message, "requestedSchema": schema}

    def sampling(
        self, call: HandlerCall, messages: Sequence[PromptMessage], system: str, max_tokens: int
    ) -> tuple[str, Any]:
        self._require_of_client(call, "sampling", "ask its model")
        params = {"messages": content.encode_messages(messages), "maxTokens": max_tokens}
        return "sampling/createMessage", params | ({"systemPrompt": system} if system else {})

    def _require_of_client(self, call: HandlerCall, name: str, ability: str) -> None:
        exchange = call.token
        is_stateless = isinstance(exchange, McpExchange) and exchange.is_stateless
        announced = exchange.capabilities if is_stateless else self._client_capabilities
        if name not in announced:
            raise HostError(f"this client cannot {ability}: it does not announce `{name}`")

    # -- prompts -----------------------------------------------------------------------------

    def _list_prompts(self, id: Any, params: Any) -> bytes | None:
        listed = [
            content.encode_prompt(name, function)
            for name, function in self.registry.prompts.items()
        ]
        return self._encode_list(id, params, "prompts", listed)

    def _get_prompt(self, id: Any, params: Any) -> bytes | None:
        name = get_field(params, "name", str)
        function = self.registry.prompts.get(name)
        if function is None:
            return self.error(id, INVALID_PARAMS, f"unknown prompt: {name}")
        texts = get_field(params, "arguments", dict, None) or {}

        def reply(key: Any, function: Function, value: Any) -> bytes:
            messages = content.encode_messages(content.list_messages(value))
            result = {"description": function.description, "messages": messages}
            return self.encode_result(
                key, result | ({"resultType": "complete"} if is_stateless else {})
            )

        is_stateless = _is_stateless(params)
        return self._start(id, function, texts, params, reply)

    def _start(
        self, id: Any, function: Function, texts: Mapping[str, Any], params: Any, reply: Reply
    ) -> bytes | None:
        """Start the handler of a prompt or of a resource. `texts` are its arguments. Return the
        frame of an error, or None if the server sends the reply."""
        meta = params.get("_meta")
        failure: Failure = self.encode_error_reply
        if _is_stateless(params):
            if (refusal := self._find_meta_error(id, meta)) is not None:
                return refusal
            failure = self._encode_stateless_error
        try:
            arguments = function.bind_texts(texts)
        except InvalidArguments as error:
            return self.encode_error_reply(id, function, error)
        meta = meta if type(meta) is dict else EMPTY_MAPPING
        exchange = parse_exchange(params, meta)
        self.server.start(id, function, arguments, reply, failure, meta=meta, token=exchange)
        return None

    # -- resources ---------------------------------------------------------------------------

    def _list_resources(self, id: Any, params: Any) -> bytes | None:
        listed = [content.encode_resource(resource, "uri") for resource in self._fixed_resources]
        return self._encode_list(id, params, "resources", listed)

    def _list_templates(self, id: Any, params: Any) -> bytes | None:
        listed = [content.encode_resource(template, "uriTemplate") for template in self._templates]
        return self._encode_list(id, params, "resourceTemplates", listed)

    def _read_resource(self, id: Any, params: Any) -> bytes | None:
        uri = get_field(params, "uri", str)
        match = self._find_resource(uri)
        if match is None:
            return self.error(id, RESOURCE_NOT_FOUND, f"unknown resource: {uri}", {"uri": uri})
        resource, texts = match
        is_stateless = _is_stateless(params)

        def reply(key: Any, function: Function, value: Any) -> bytes:
            result = content.encode_contents(resource, uri, value)
            fields = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            return self.encode_result(key, result | (fields if is_stateless else {}))

        return self._start(id, resource.function, texts, params, reply)

    def _find_resource(self, uri: str) -> tuple[Resource, dict[str, str]] | None:
        """Return the resource of a URI and the values of its template; None if there is none."""
        for resource in (*self._fixed_resources, *self._templates):
            values = resource.match(uri)
            if values is not None:
                return resource, values
        return None


def _is_stateless(params: Any) -> bool:
    """Return whether a request belongs to the stateless era."""
    meta = params.get("_meta")
    return type(meta) is dict and VERSION in meta


def _recognises(first: bytes, message: Mapping[str, Any] | None) -> bool:
    """Return whether the first message of a host belongs to this dialect."""
    # MCP may begin with many methods, such as server/discover, so it is tried last.
    return message is not None and "jsonrpc" in message and type(message.get("method")) is str


DIALECT = SdkDialect(McpEndpoint, _recognises, templates=("tool",), is_tried_last=True)
