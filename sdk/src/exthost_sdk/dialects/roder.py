"""The extension's side of the roder dialect: JSON-RPC 2.0, one object per line.

    {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
     "params": {"toolName": "shout", "arguments": {"text": "hi"}}}
    {"jsonrpc": "2.0", "id": 1, "result": {"content": "HI", "isError": false, "data": null}}

A roder extension has a manifest file, `roder-extension.toml`. The reply to the handshake contains
the services of the manifest (its tables `[[provides]]`) and a checksum of its bytes, so the
endpoint needs the file's content.

The dialect has its own words for what handlers do. A stream (a handler that yields items) is a tool
and also a task executor. A provider (a handler that continues a conversation with a model) is an
inference engine, and each of its answers is a turn. The request that starts a task, a subagent or a
turn gets its response at once; the items and the result follow as notifications. Tasks and
subagents can be cancelled.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from exthost_sdk.answers import Assignment, SinkEvent, Turn
from exthost_sdk.endpoints import providers
from exthost_sdk.endpoints.endpoint import Identity
from exthost_sdk.endpoints.jsonrpc import INVALID_PARAMS, JsonRpcEndpoint, get_field
from exthost_sdk.endpoints.sdk_dialect import SdkDialect
from exthost_sdk.endpoints.toml_text import toml_entries, toml_value
from exthost_sdk.errors import InvalidArguments, SdkUsageError, describe
from exthost_sdk.serving.call import EMPTY_MAPPING, HandlerCall
from exthost_sdk.serving.server import Server
from exthost_sdk.types.function import Function
from exthost_sdk.types.json_text import to_text

PROTOCOL_VERSION = "0.2.0"

# The constants of the hash FNV-1a for 64 bits.
_FNV_OFFSET, _FNV_PRIME, _FNV_MODULUS = 0xCBF29CE484222325, 0x100000001B3, 2**64


def checksum(manifest: bytes) -> str:
    """Return the 64-bit FNV-1a hash of a manifest in hexadecimal, which the handshake requires."""
    value = _FNV_OFFSET
    for byte in manifest:
        value = (value ^ byte) * _FNV_PRIME % _FNV_MODULUS
    return f"{value:016x}"


class RoderEndpoint(JsonRpcEndpoint):
    """The extension's side of a roder connection.

    `result` and `error` return the frame of a response, or None if `id` is None: a notification has
    no response. `encode_result` always returns a frame, as the encoders of handlers must. `run`
    calls a handler whose result is the response. `server.start` starts a handler whose result is
    sent later, as a notification. Its first argument is the key of the call, such as `("task",
    execution_id)`, with which the call can be cancelled; the encoders of its results get the same
    key.
    """

    name = "roder"
    supported_kinds = frozenset({"tools", "providers", "subagents", "event sinks"})
    max_bytes = 4 * 2**20

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        if identity.manifest is None:
            raise SdkUsageError(
                "a roder extension needs its manifest: write it with `--manifest roder > "
                "roder-extension.toml` beside the program, or name it: Extension(manifest=…)"
            )
        import tomllib  # here, because detecting a dialect imports this module

        try:
            self._services = tomllib.loads(identity.manifest.decode())["provides"]
        except (ValueError, KeyError) as error:
            raise SdkUsageError(f"the manifest cannot be used: {describe(error)}") from None
        self._checksum = checksum(identity.manifest)
        # The tools, streams and commands, by name. The host may call each of them as a tool.
        self._functions = dict(self.registry.callables)
        self._extension_id = identity.name
        self.methods = {
            "extension/initialize": self._initialize,
            "extension/shutdown": self._shutdown,
            "tools/call": self._call_tool,
            "tasks/spec": self._task_spec,
            "tasks/execute": self._execute,
            "tasks/cancel": self._cancel,
            "inference/listModels": self._list_models,
            "inference/streamTurn": self._stream_turn,
            "subagents/definitions": self._list_subagents,
            "subagents/dispatch": self._dispatch,
            "subagents/cancel": self._cancel_dispatch,
            "events/handle": self._handle_event,
        }

    def _initialize(self, id: Any, params: Any) -> bytes | None:
        self._extension_id = get_field(params, "extensionId", str)
        self.config = get_field(params, "config", dict, None) or EMPTY_MAPPING
        result = {
            "protocolVersion": PROTOCOL_VERSION,
            "extensionId": self._extension_id,
            "services": self._services,
            "manifestChecksum": self._checksum,
        }
        return self.result(id, result)

    def _shutdown(self, id: Any, params: Any) -> bytes | None:
        self.server.stop()
        return self.result(id, {})

    def _send_response(self, id: Any, result: Any) -> None:
        """Send the response to a request that starts a handler, before the handler is started:
        `server.start` runs a plain function to its end, and that sends events."""
        response = self.result(id, result)
        if response is not None:
            self.server.writer.send(response)

    # -- tools -------------------------------------------------------------------------------

    def _call_tool(self, id: Any, params: Any) -> bytes | None:
        name = get_field(params, "toolName", str)
        function = self._functions.get(name)
        if function is None:
            return self.error(id, INVALID_PARAMS, f"unknown tool: {name}")
        reply, failure = self._encode_tool_reply, self._encode_tool_failure
        return self.run(id, function, params.get("arguments"), reply, failure, meta=params)

    def _encode_tool_reply(self, id: Any, function: Function, value: Any) -> bytes:
        data = None if type(value) is str else value
        return self.encode_result(id, {"content": to_text(value), "isError": False, "data": data})

    def _encode_tool_failure(self, id: Any, function: Function, error: BaseException) -> bytes:
        if isinstance(error, InvalidArguments):
            return self.encode_error_reply(id, function, error)
        failure = {"kind": type(error).__name__, "message": describe(error)}
        result = {"content": describe(error), "isError": True, "data": {"error": failure}}
        return self.encode_result(id, result)

    def progress(
        self, call: HandlerCall, current: float, total: float | None, message: str
    ) -> bytes | None:
        """Report progress as an `extension/event`, since the dialect has no message for it."""
        payload = {"name": call.function.name, "progress": current, "total": total}
        event = {
            "extensionId": self._extension_id,
            "eventKind": "progress",
            "schemaVersion": 1,
            "payload": {**payload, "message": message, "callId": call.meta.get("callId")},
        }
        return self.notification("extension/event", event)

    # -- tasks -------------------------------------------------------------------------------

    def _find_executor(self, params: Any) -> Function | None:
        return self._functions.get(get_field(params, "executorId", str))

    def _task_spec(self, id: Any, params: Any) -> bytes | None:
        function = self._find_executor(params)
        if function is None:
            return self.error(id, INVALID_PARAMS, f"unknown executor: {params['executorId']}")
        spec = {
            "kind": function.name,
            "description": function.description,
            "input_schema": function.input_schema,
        }
        return self.result(id, {"spec": spec})

    def _execute(self, id: Any, params: Any) -> bytes | None:
        """Start a task: answer the request at once, and send its output and result as events."""
        function = self._find_executor(params)
        if function is None:
            return self.error(id, INVALID_PARAMS, f"unknown executor: {params['executorId']}")
        execution_id = get_field(params, "executionId", str)
        try:
            arguments = function.bind(params.get("input"))
        except InvalidArguments as error:
            return self.encode_error_reply(id, function, error)
        self._send_response(id, {"executionId": execution_id})
        self.server.start(
            ("task", execution_id),
            function,
            arguments,
            self._encode_task_result,
            self._encode_task_failure,
            meta=params,
            on_item=self._encode_task_output,
            # Each item is sent as an event, so the server does not collect them for the result.
            collects=False,
        )
        return None

    def _encode_task_event(self, key: Any, event: Any) -> bytes:
        return self.notification("tasks/event", {"executionId": key[1], "event": event})

    def _encode_task_output(self, call: HandlerCall, item: Any) -> bytes:
        text = to_text(item)
        chunk = text if text.endswith("\n") else f"{text}\n"
        event = {"type": "output", "stream": "stdout", "chunk": chunk}
        return self._encode_task_event(call.key, event)

    def _encode_task_result(self, key: Any, function: Function, value: Any) -> bytes:
        result = {"exit_code": 0, "payload": value}
        return self._encode_task_event(key, {"type": "completed", "result": result})

    def _encode_task_failure(self, key: Any, function: Function, error: BaseException) -> bytes:
        return self._encode_task_event(key, {"type": "failed", "error": describe(error)})

    def _cancel(self, id: Any, params: Any) -> bytes | None:
        self.server.cancel(("task", get_field(params, "executionId", str)))
        return self.result(id, {})

    # -- subagents and events ----------------------------------------------------------------

    def _list_subagents(self, id: Any, params: Any) -> bytes | None:
        definitions = [
            {
                "agent_type": subagent.agent_type,
                "description": subagent.function.description,
                **subagent.definition,
            }
            for subagent in self.registry.subagents.values()
        ]
        return self.result(id, {"definitions": definitions})

    def _dispatch(self, id: Any, params: Any) -> bytes | None:
        """Start a subagent, in the same steps as `_execute` starts a task."""
        dispatch_id = get_field(params, "dispatchId", str)
        request = get_field(params, "request", dict)
        agent_type = get_field(request, "subagent_type", str)
        subagent = self.registry.subagents.get(agent_type)
        if subagent is None:
            return self.error(id, INVALID_PARAMS, f"unknown subagent: {agent_type}")
        assignment = Assignment(
            agent_type=agent_type,
            prompt=str(request.get("prompt") or ""),
            description=str(request.get("description") or ""),
            raw=request,
        )
        self._send_response(id, {"dispatchId": dispatch_id})
        self.server.start(
            ("dispatch", dispatch_id),
            subagent.function,
            subagent.function.bind(assignment),
            self._encode_dispatch_result,
            self._encode_dispatch_failure,
            meta=params,
            on_item=self._encode_dispatch_status,
            collects=False,  # as in `_execute`
        )
        return None

    def _encode_dispatch_event(self, key: Any, event: Any) -> bytes:
        return self.notification("subagents/event", {"dispatchId": key[1], "event": event})

    def _encode_dispatch_status(self, call: HandlerCall, item: Any) -> bytes:
        return self._encode_dispatch_event(call.key, {"type": "status", "status": to_text(item)})

    def _encode_dispatch_result(self, key: Any, function: Function, value: Any) -> bytes:
        result = {
            "agent_type": function.name,
            "final_message": "" if value is None else to_text(value),
            "exit_reason": "completed",
        }
        return self._encode_dispatch_event(key, {"type": "completed", "result": result})

    def _encode_dispatch_failure(self, key: Any, function: Function, error: BaseException) -> bytes:
        return self._encode_dispatch_event(key, {"type": "failed", "error": describe(error)})

    def _cancel_dispatch(self, id: Any, params: Any) -> bytes | None:
        self.server.cancel(("dispatch", get_field(params, "dispatchId", str)))
        return self.result(id, {})

    def _handle_event(self, id: Any, params: Any) -> bytes | None:
        """Pass an event of the host to each sink that is registered for its kind. An event is a
        notification."""
        envelope = get_field(params, "envelope", dict)
        kind = str(envelope.get("kind", ""))
        for sink in self.registry.sinks.values():
            if kind.startswith(sink.kinds):
                self.server.start(
                    # A notification has no id, and several events can be open at one sink.
                    ("event", object()),
                    sink.function,
                    sink.function.bind(SinkEvent(kind, envelope)),
                    _encode_nothing,
                    _encode_nothing,
                )
        return None

    # -- inference ---------------------------------------------------------------------------

    def _list_models(self, id: Any, params: Any) -> bytes | None:
        provider = self.registry.providers.get(get_field(params, "engineId", str))
        if provider is None:
            return self.error(id, INVALID_PARAMS, f"unknown engine: {params['engineId']}")
        models = [providers.encode_roder_model(model) for model in provider.models]
        return self.result(id, {"models": models})

    def _stream_turn(self, id: Any, params: Any) -> bytes | None:
        """Start a turn of a provider, in the same steps as `_execute` starts a task."""
        provider = self.registry.providers.get(get_field(params, "engineId", str))
        if provider is None:
            return self.error(id, INVALID_PARAMS, f"unknown engine: {params['engineId']}")
        stream_id, request = get_field(params, "streamId", str), get_field(params, "request", dict)
        model, instructions = request.get("model"), request.get("instructions")
        turn = Turn(
            provider=provider.id,
            model=str(model.get("model", "")) if isinstance(model, dict) else "",
            messages=get_field(request, "transcript", list, None) or [],
            system=instructions.get("system") if isinstance(instructions, dict) else None,
            tools=get_field(request, "tools", list, None) or [],
            raw=request,
        )
        self._send_response(id, {"streamId": stream_id})
        self.server.start(
            ("turn", stream_id),
            provider.function,
            provider.function.bind(turn),
            self._encode_turn_end,
            self._encode_turn_failure,
            meta=params,
            on_item=self._encode_turn_item,
            collects=False,  # as in `_execute`
        )
        return None

    def _encode_turn_event(self, key: Any, event: Any) -> bytes:
        return self.notification("inference/event", {"streamId": key[1], "event": event})

    def _encode_turn_item(self, call: HandlerCall, item: Any) -> bytes:
        return self._encode_turn_event(call.key, providers.encode_roder_event(item))

    def _encode_turn_end(self, key: Any, function: Function, value: Any) -> bytes:
        # The items of a generator were sent when it yielded them. Other functions return theirs.
        events = (
            []
            if function.is_generator
            else map(providers.encode_roder_event, providers.list_items(value))
        )
        last = {"Completed": {"stop_reason": "end_turn", "provider_response_id": None}}
        return b"".join(self._encode_turn_event(key, event) for event in (*events, last))

    def _encode_turn_failure(self, key: Any, function: Function, error: BaseException) -> bytes:
        return self._encode_turn_event(key, {"Failed": {"message": describe(error)}})


def _encode_nothing(key: Any, function: Function, value: Any) -> bytes:
    """Return no bytes: a notification has no reply. The server has reported an exception."""
    return b""


def _recognises(first: bytes, message: Mapping[str, Any] | None) -> bool:
    """Return whether the first message of a host belongs to this dialect."""
    method = message.get("method") if message is not None and "jsonrpc" in message else None
    return type(method) is str and method.startswith("extension/")


def _format_manifest(identity: Identity, command: Sequence[str]) -> str:
    """Return the text of the manifest. `command` is the command line that runs the extension."""
    registry = identity.registry
    lines = [
        *toml_entries(id=identity.name, name=identity.name, version=identity.version),
        *toml_entries(api_version="^0.1", description=identity.description),
        "",
        "[launch]",
        *toml_entries(command=command[0], args=list(command[1:])),
    ]
    if kinds := sorted({kind for sink in registry.sinks.values() for kind in sink.kinds}):
        lines += toml_entries(event_filter_kinds=kinds)  # still in [launch]
    if registry.callables:
        lines += [
            "",
            "[[provides]]",
            *toml_entries(type="tool_provider", id=f"{identity.name}-tools"),
        ]
    for name, function in registry.callables.items():
        lines += ["", "[[provides.tools]]"]
        lines += toml_entries(name=name, description=function.description)
        lines += [f"parameters = {toml_value(function.input_schema)}"]
    for name in registry.streams:
        lines += ["", "[[provides]]", *toml_entries(type="task_executor", id=name)]
    for name in registry.providers:
        lines += ["", "[[provides]]", *toml_entries(type="inference_engine", id=name)]
    for type_, handlers in (
        ("subagent_dispatcher", registry.subagents),
        ("event_sink", registry.sinks),
    ):
        if handlers:
            service = f"{identity.name}-{type_.rpartition('_')[2]}"
            lines += ["", "[[provides]]", *toml_entries(type=type_, id=service)]
    return "\n".join(lines) + "\n"


# The lines of the test in a new project that call its provider. `client` is the extension.
_PROVIDER_TEST = """\
            [model] = await client.inference.list_models()
            assert model.id == "parrot-1"
"""

DIALECT = SdkDialect(
    RoderEndpoint,
    _recognises,
    templates=("tool", "provider"),
    manifest_file="roder-extension.toml",
    write_manifest=_format_manifest,
    repeats_manifest=True,
    provider_test=_PROVIDER_TEST,
)
