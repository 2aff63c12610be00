"""synaps: JSON-RPC 2.0 in Content-Length frames: tools, hooks, commands and providers.

Streams are commands as well as tools: as a command they answer item by item. Progress is a task of
the command. Requests to the host (`memory.append`, `config.get` …) carry the plugin's own
namespace, which is filled in here. Which hooks are called stands in the plugin's manifest.
"""

from typing import Any

from exthost.sdk.answers import Block, Confirm, HookEvent, Inject, Modify, Turn
from exthost.sdk.dialects import providers
from exthost.sdk.dialects.endpoint import Identity
from exthost.sdk.dialects.jsonrpc import INVALID_PARAMS, JsonRpcEndpoint, member, text_of
from exthost.sdk.errors import InvalidArguments
from exthost.sdk.serving.call import Call
from exthost.sdk.serving.server import Server
from exthost.sdk.types.function import Function
from exthost.sdk.types.json_text import encode
from exthost.sdk.wire.framing import HeaderFraming, with_header

PROTOCOL_VERSION = 1


class SynapsEndpoint(JsonRpcEndpoint):
    """The plugin's end of a synaps connection."""

    name = "synaps"
    offers = frozenset({"tools", "hooks", "providers"})
    framing = HeaderFraming
    max_bytes = 4 * 2**20
    frame = staticmethod(with_header)

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        self._tools = {**self.registry.tools, **self.registry.streams}
        self._commands = dict(self.registry.callables)
        self._plugin_id = identity.name
        self._tasks: set[Any] = set()  # commands that have reported progress
        self.methods = {
            "initialize": self._initialize,
            "tool.call": self._call_tool,
            "command.invoke": self._invoke,
            "hook.handle": self._handle_hook,
            "provider.complete": self._complete,
            "provider.stream": self._stream,
            "info.get": self._info,
            "config.changed": self._config_changed,
            "shutdown": self._shutdown,
        }

    def request(self, number: int, method: str, params: Any) -> bytes:
        if method.startswith("memory.") and isinstance(params, dict):
            params = {"namespace": self._plugin_id, **params}
        message = {"jsonrpc": "2.0", "method": method, "params": params, "id": number}
        return self.frame(encode(message))

    # -- life --------------------------------------------------------------------------------

    def _initialize(self, id: Any, params: Any) -> bytes | None:
        self._plugin_id = member(params, "plugin_id", str, self._plugin_id)
        self.config = dict(member(params, "config", dict, None) or {})
        tools = [
            {
                "name": name,
                "description": function.description,
                "input_schema": function.input_schema,
            }
            for name, function in self._tools.items()
        ]
        offered = {"tools": tools, "providers": self._providers()}
        capabilities = {kind: listed for kind, listed in offered.items() if listed}
        result = {"protocol_version": PROTOCOL_VERSION, "capabilities": capabilities}
        return self.result(id, result)

    def _providers(self) -> list[dict[str, Any]]:
        return [
            {
                "id": provider.id,
                "display_name": provider.name,
                "description": provider.description,
                "models": [providers.synaps_model(model) for model in provider.models],
            }
            for provider in self.registry.providers.values()
        ]

    def _info(self, id: Any, params: Any) -> bytes | None:
        build = {"backend": "python", "features": [], "version": self.identity.version}
        return self.result(id, {"build": build, "capabilities": [], "models": []})

    def _config_changed(self, id: Any, params: Any) -> None:
        key = member(params, "key", str)
        self.config = {**self.config, key: params.get("value")}

    def _shutdown(self, id: Any, params: Any) -> bytes | None:
        self.server.stop()
        return self.result(id, None)

    # -- tools and commands ------------------------------------------------------------------

    def _call_tool(self, id: Any, params: Any) -> bytes | None:
        name = member(params, "name", str)
        function = self._tools.get(name)
        if function is None:
            return self.error(id, INVALID_PARAMS, f"unknown tool: {name}")
        return self.run(id, function, params.get("input"), self.value_reply, self.error_reply)

    def _invoke(self, id: Any, params: Any) -> bytes | None:
        name = member(params, "command", str)
        function = self._commands.get(name)
        if function is None:
            return self.error(id, INVALID_PARAMS, f"unknown command: {name}")
        words = [str(word) for word in member(params, "args", list, None) or []]
        try:
            arguments = function.bind_words(words)
        except InvalidArguments as error:
            return self.error_reply(id, function, error)
        self.server.start(
            id,
            function,
            arguments,
            self._command_reply,
            self._command_failure,
            token=params.get("request_id"),
            on_item=self._command_output,
        )
        return None

    def _command_output(self, call: Call, item: Any) -> bytes:
        table = isinstance(item, dict) and item.keys() == {"headers", "rows"}
        event = {"kind": "table", **item} if table else {"kind": "text", "content": text_of(item)}
        return self.notification("command.output", {"request_id": call.token, "event": event})

    def progress(
        self, call: Call, current: float, total: float | None, message: str
    ) -> bytes | None:
        if call.token is None:
            return None
        task, name = _task_id(call.key), call.function.name
        start = b""
        if call.key not in self._tasks:
            self._tasks.add(call.key)
            start = self.notification("task.start", {"id": task, "label": name, "kind": "generic"})
        update = {"id": task, "current": current, "total": total, "message": message or None}
        known = {key: value for key, value in update.items() if value is not None}
        return start + self.notification("task.update", known)

    def _command_reply(self, id: Any, function: Function, value: Any) -> bytes:
        reply = self.encode_result(id, value)
        return self._end_task(id) + reply

    def _command_failure(self, id: Any, function: Function, error: BaseException) -> bytes:
        return self._end_task(id) + self.error_reply(id, function, error)

    def _end_task(self, id: Any) -> bytes:
        if id not in self._tasks:
            return b""
        self._tasks.discard(id)
        return self.notification("task.done", {"id": _task_id(id)})

    # -- hooks -------------------------------------------------------------------------------

    def _handle_hook(self, id: Any, params: Any) -> bytes | None:
        kind = member(params, "kind", str)
        function = self.registry.hooks.get(kind)
        if function is None:
            return self.result(id, {"action": "continue"})
        tool = params.get("tool_runtime_name") or params.get("tool_name")
        message = params.get("message")
        event = HookEvent(kind, tool, params.get("tool_input"), message, params)
        return self.run(id, function, event, self._hook_reply, self.error_reply)

    def _hook_reply(self, id: Any, function: Function, answer: Any) -> bytes:
        return self.encode_result(id, _hook_answer(answer))

    # -- providers ---------------------------------------------------------------------------

    def _complete(self, id: Any, params: Any) -> bytes | None:
        return self._run_provider(id, params, streams=False)

    def _stream(self, id: Any, params: Any) -> bytes | None:
        return self._run_provider(id, params, streams=True)

    def _run_provider(self, id: Any, params: Any, *, streams: bool) -> bytes | None:
        name = member(params, "provider_id", str)
        provider = self.registry.providers.get(name)
        if provider is None:
            return self.error(id, INVALID_PARAMS, f"unknown provider: {name}")
        turn = Turn(
            name,
            member(params, "model_id", str),
            member(params, "messages", list),
            member(params, "system_prompt", str, None),
            member(params, "tools", list, None) or [],
            params,
        )
        on_item = self._provider_event if streams else None
        return self.run(
            id, provider.function, turn, self._completion, self.error_reply, on_item=on_item
        )

    def _provider_event(self, call: Call, item: Any) -> bytes:
        event = providers.synaps_event(item)
        return self.notification("provider.stream.event", {"event": event})

    def _completion(self, id: Any, function: Function, items: Any) -> bytes:
        return self.encode_result(id, providers.synaps_completion(items))


def _task_id(id: Any) -> str:
    return f"call-{id}"


def _hook_answer(answer: Any) -> Any:
    match answer:
        case None:
            return {"action": "continue"}
        case Block(reason):
            return {"action": "block", "reason": reason}
        case Modify(arguments):
            return {"action": "modify", "input": arguments}
        case Confirm(message):
            return {"action": "confirm", "message": message}
        case Inject(content):
            return {"action": "inject", "content": content}
    return answer


ENDPOINT = SynapsEndpoint
