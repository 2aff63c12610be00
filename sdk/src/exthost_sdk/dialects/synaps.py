"""The extension's side of the synaps dialect: JSON-RPC 2.0 in frames with a Content-Length header.

The dialect has tools, hooks, commands and providers. A stream is both a tool and a command: called
as a command, it sends its items one by one. Progress of a command is sent as a task (`task.start`,
`task.update`, `task.done`). In requests to the host about its memory (`memory.append` and others)
this module fills in the namespace, which is the extension's id. The host calls only those hooks
that the extension's manifest lists. A sidecar is a further program that the host starts for the
extension. A call of a tool, and its reply (each after the header `Content-Length: N`):

    {"jsonrpc": "2.0", "id": 1, "method": "tool.call",
     "params": {"name": "shout", "input": {"text": "hi"}}}
    {"jsonrpc": "2.0", "id": 1, "result": "HI"}
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from exthost_sdk import answers
from exthost_sdk.endpoints import providers
from exthost_sdk.endpoints.endpoint import Identity
from exthost_sdk.endpoints.jsonrpc import INVALID_PARAMS, JsonRpcEndpoint, get_field
from exthost_sdk.endpoints.sdk_dialect import SdkDialect
from exthost_sdk.errors import InvalidArguments
from exthost_sdk.serving.call import HandlerCall
from exthost_sdk.serving.server import Server
from exthost_sdk.types.function import Function
from exthost_sdk.types.json_text import encode, to_text
from exthost_sdk.wire.framing import HeaderFraming, with_header

PROTOCOL_VERSION = 1
# With this version a host also calls the hook `on_usage`.
_USAGE_VERSION = 2

# The permission that each hook of synaps needs.
SYNAPS_HOOKS = {
    "before_tool_call": "tools.intercept",
    "after_tool_call": "tools.intercept",
    "before_message": "privacy.llm_content",
    "on_message_complete": "privacy.llm_content",
    "on_compaction": "privacy.llm_content",
    "on_session_start": "session.lifecycle",
    "on_session_end": "session.lifecycle",
    "on_usage": "privacy.llm_content",
}

_HEADER = b"content-length"


class SynapsEndpoint(JsonRpcEndpoint):
    """The extension's side of a synaps connection."""

    name = "synaps"
    supported_kinds = frozenset({"tools", "hooks", "providers", "editors of settings", "sidecar"})
    supported_hooks = tuple(SYNAPS_HOOKS)
    framing = HeaderFraming
    max_bytes = 4 * 2**20
    frame = staticmethod(with_header)

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        self._tools = {**self.registry.tools, **self.registry.streams}
        self._commands = dict(self.registry.callables)
        self._plugin_id = identity.name
        self._tasks: set[Any] = set()  # the ids of running commands that have reported progress
        self.methods = {
            "initialize": self._initialize,
            "tool.call": self._call_tool,
            "command.invoke": self._invoke,
            "hook.handle": self._handle_hook,
            "provider.complete": self._complete,
            "provider.stream": self._stream,
            "info.get": self._info,
            "settings.editor.open": self._open_editor,
            "settings.editor.key": self._press_key,
            "settings.editor.commit": self._commit_value,
            "sidecar.spawn_args": self._find_sidecar,
            "config.changed": self._config_changed,
            "shutdown": self._shutdown,
        }

    def request(self, number: int, method: str, params: Any) -> bytes:
        if method.startswith("memory.") and isinstance(params, dict):
            params = {"namespace": self._plugin_id, **params}
        message = {"jsonrpc": "2.0", "method": method, "params": params, "id": number}
        return self.frame_within_limit(encode(message), f"request {method}")

    # -- handshake and shutdown --------------------------------------------------------------

    def _initialize(self, id: Any, params: Any) -> bytes | None:
        self._plugin_id = get_field(params, "plugin_id", str, self._plugin_id)
        self.config = dict(get_field(params, "config", dict, None) or {})
        tools = [
            {
                "name": name,
                "description": function.description,
                "input_schema": function.input_schema,
            }
            for name, function in self._tools.items()
        ]
        entries = {"tools": tools, "providers": self._encode_providers()}
        capabilities = {kind: listed for kind, listed in entries.items() if listed}
        # The host sends the version of the manifest.
        version = get_field(params, "extension_protocol_version", int, PROTOCOL_VERSION)
        protocol = version if version == _USAGE_VERSION else PROTOCOL_VERSION
        result = {"protocol_version": protocol, "capabilities": capabilities}
        return self.result(id, result)

    def _encode_providers(self) -> list[dict[str, Any]]:
        return [
            {
                "id": provider.id,
                "display_name": provider.name,
                "description": provider.description,
                "models": [providers.encode_synaps_model(model) for model in provider.models],
            }
            for provider in self.registry.providers.values()
        ]

    def _info(self, id: Any, params: Any) -> bytes | None:
        build = {"backend": "python", "features": [], "version": self.identity.version}
        return self.result(id, {"build": build, "capabilities": [], "models": []})

    def _config_changed(self, id: Any, params: Any) -> None:
        key = get_field(params, "key", str)
        self.config = {**self.config, key: params.get("value")}

    def _shutdown(self, id: Any, params: Any) -> bytes | None:
        self.server.stop()
        return self.result(id, None)

    # -- tools and commands ------------------------------------------------------------------

    def _call_tool(self, id: Any, params: Any) -> bytes | None:
        name = get_field(params, "name", str)
        function = self._tools.get(name)
        if function is None:
            return self.error(id, INVALID_PARAMS, f"unknown tool: {name}")
        return self.run(
            id, function, params.get("input"), self.encode_value_reply, self.encode_error_reply
        )

    def _invoke(self, id: Any, params: Any) -> bytes | None:
        """Run a command that a person has typed. Its response is sent when the handler ends."""
        name = get_field(params, "command", str)
        function = self._commands.get(name)
        if function is None:
            return self.error(id, INVALID_PARAMS, f"unknown command: {name}")
        argv = [str(argument) for argument in get_field(params, "args", list, None) or []]
        try:
            arguments = function.bind_command_line(argv)
        except InvalidArguments as error:
            return self.encode_error_reply(id, function, error)
        self.server.start(
            id,
            function,
            arguments,
            self._encode_command_reply,
            self._encode_command_failure,
            token=params.get("request_id"),
            on_item=self._encode_command_output,
        )
        return None

    def _encode_command_output(self, call: HandlerCall, item: Any) -> bytes:
        is_table = isinstance(item, dict) and item.keys() == {"headers", "rows"}
        text = None if is_table else to_text(item)
        event = {"kind": "table", **item} if is_table else {"kind": "text", "content": text}
        return self.notification("command.output", {"request_id": call.token, "event": event})

    def progress(
        self, call: HandlerCall, current: float, total: float | None, message: str
    ) -> bytes | None:
        """Report the progress of a command as that of a task, which the first report starts."""
        if call.token is None:  # a tool, not a command: the dialect has no progress of tools
            return None
        task, name = _task_id(call.key), call.function.name
        start = b""
        if call.key not in self._tasks:
            self._tasks.add(call.key)
            start = self.notification("task.start", {"id": task, "label": name, "kind": "generic"})
        update = {"id": task, "current": current, "total": total, "message": message or None}
        known_fields = {key: value for key, value in update.items() if value is not None}
        return start + self.notification("task.update", known_fields)

    def _encode_command_reply(self, id: Any, function: Function, value: Any) -> bytes:
        reply = self.encode_result(id, value)
        return self._end_task(id) + reply

    def _encode_command_failure(self, id: Any, function: Function, error: BaseException) -> bytes:
        reply = self.encode_error_reply(id, function, error)
        return self._end_task(id) + reply

    def _end_task(self, id: Any) -> bytes:
        if id not in self._tasks:
            return b""
        self._tasks.discard(id)
        return self.notification("task.done", {"id": _task_id(id)})

    # -- hooks -------------------------------------------------------------------------------

    def _handle_hook(self, id: Any, params: Any) -> bytes | None:
        kind = get_field(params, "kind", str)
        function = self.registry.hooks.get(kind)
        if function is None:
            return self.result(id, {"action": "continue"})
        tool = params.get("tool_runtime_name") or params.get("tool_name")
        event = answers.HookEvent(
            hook=kind,
            tool=tool,
            arguments=params.get("tool_input"),
            message=params.get("message"),
            raw=params,
        )
        return self.run(id, function, event, self._encode_hook_reply, self.encode_error_reply)

    def _encode_hook_reply(self, id: Any, function: Function, answer: Any) -> bytes:
        return self.encode_result(id, _encode_hook_answer(answer))

    # -- widgets, settings, sidecar ----------------------------------------------------------

    def widget(self, id: str, fields: Mapping[str, Any] | None) -> bytes | None:
        if fields is None:
            return self.notification("widget.dismiss", {"id": id})
        return self.notification("widget.upsert", {"id": id, **fields})

    def _open_editor(self, id: Any, params: Any) -> bytes | None:
        return self._run_editor(id, params, "open")

    def _press_key(self, id: Any, params: Any) -> bytes | None:
        return self._run_editor(id, params, "key", key=get_field(params, "key", str))

    def _commit_value(self, id: Any, params: Any) -> bytes | None:
        value = params.get("value") if type(params) is dict else None
        return self._run_editor(id, params, "commit", value=value)

    def _run_editor(self, id: Any, params: Any, action: Any, **fields: Any) -> bytes | None:
        category, field = get_field(params, "category", str), get_field(params, "field", str)
        function = self.registry.editors.get(f"{category}.{field}")
        if function is None:
            return self.error(id, INVALID_PARAMS, f"{category}.{field} has no editor")
        event = answers.EditorEvent(action, category, field, **fields)
        return self.run(id, function, event, self._encode_editor_reply, self.encode_error_reply)

    def _encode_editor_reply(self, id: Any, function: Function, answer: Any) -> bytes:
        """Return the notification that the answer stands for, and the response after it."""
        match answer:
            case answers.Render() | answers.Commit() | answers.Close():
                method = f"settings.editor.{type(answer).__name__.lower()}"
                given = answer._asdict().items()
                # None means that a field is not set, except that Commit may store None.
                params = {
                    key: value
                    for key, value in given
                    if value is not None or type(answer) is answers.Commit
                }
                return self.notification(method, params) + self.encode_result(id, None)
        return self.encode_result(id, answer)

    def _find_sidecar(self, id: Any, params: Any) -> bytes | None:
        function = self.registry.sidecar
        if function is None:
            return self.result(id, {"args": []})
        return self.run(id, function, None, self._encode_sidecar_reply, self.encode_error_reply)

    def _encode_sidecar_reply(self, id: Any, function: Function, answer: Any) -> bytes:
        return self.encode_result(id, answer if isinstance(answer, dict) else {"args": answer})

    # -- providers ---------------------------------------------------------------------------

    def _complete(self, id: Any, params: Any) -> bytes | None:
        return self._run_provider(id, params, streams=False)

    def _stream(self, id: Any, params: Any) -> bytes | None:
        return self._run_provider(id, params, streams=True)

    def _run_provider(self, id: Any, params: Any, *, streams: bool) -> bytes | None:
        name = get_field(params, "provider_id", str)
        provider = self.registry.providers.get(name)
        if provider is None:
            return self.error(id, INVALID_PARAMS, f"unknown provider: {name}")
        turn = answers.Turn(
            provider=name,
            model=get_field(params, "model_id", str),
            messages=get_field(params, "messages", list),
            system=get_field(params, "system_prompt", str, None),
            tools=get_field(params, "tools", list, None) or [],
            raw=params,
        )
        on_item = self._encode_provider_event if streams else None
        return self.run(
            id,
            provider.function,
            turn,
            self._encode_completion,
            self.encode_error_reply,
            on_item=on_item,
        )

    def _encode_provider_event(self, call: HandlerCall, item: Any) -> bytes:
        event = providers.encode_synaps_event(item)
        return self.notification("provider.stream.event", {"event": event})

    def _encode_completion(self, id: Any, function: Function, items: Any) -> bytes:
        return self.encode_result(id, providers.encode_synaps_completion(items))


def _task_id(id: Any) -> str:
    return f"call-{id}"


def _encode_hook_answer(answer: Any) -> Any:
    """Return the answer of a hook as a result of the dialect."""
    match answer:
        case None:
            return {"action": "continue"}
        case answers.Block(reason):
            return {"action": "block", "reason": reason}
        case answers.Modify(arguments):
            return {"action": "modify", "input": arguments}
        case answers.Confirm(message):
            return {"action": "confirm", "message": message}
        case answers.Inject(content):
            return {"action": "inject", "content": content}
        case answers.Replace(output):
            return {"action": "replace", "output": output}
    return answers.own_hook_answer(answer)


def _recognises(first: bytes, message: Mapping[str, Any] | None) -> bool | None:
    """Return whether the first bytes of a host belong to this dialect; None if more are needed."""
    # The only dialect whose frames have headers.
    header = first.lstrip()[: len(_HEADER)].lower()
    if header == _HEADER:
        return True
    # The bytes so far may be the beginning of the header: None asks for more.
    return None if header and _HEADER.startswith(header) else False


def _format_manifest(identity: Identity, command: Sequence[str]) -> str:
    """Return the text of the manifest. `command` is the command line that runs the extension."""
    registry = identity.registry
    hooks = [name for name in registry.hooks if name in SYNAPS_HOOKS]
    permissions = dict.fromkeys(SYNAPS_HOOKS[name] for name in hooks)
    if registry.tools or registry.streams:
        permissions["tools.register"] = None
    if registry.providers:
        permissions["providers.register"] = None
    if registry.replaces_output and "after_tool_call" in hooks:
        permissions["tools.transform_output"] = None
    extension = {
        "protocol_version": 2 if "on_usage" in hooks else 1,
        "runtime": "process",
        "command": command[0],
        "args": list(command[1:]),
        "permissions": list(permissions),
        "hooks": [{"hook": name} for name in hooks],
    }
    document = {
        "name": identity.name,
        "version": identity.version,
        "description": identity.description,
        "extension": extension,
    }
    return json.dumps(document, indent=2) + "\n"


# The lines of the test in a new project that call its provider. `client` is the extension.
_PROVIDER_TEST = """\
            said = [{"role": "user", "content": "hello there"}]
            completion = await client.providers.complete("parrot-1", said)
            assert completion.content[0]["text"] == "hello there "
"""

DIALECT = SdkDialect(
    SynapsEndpoint,
    _recognises,
    templates=("tool", "hook", "provider"),
    manifest_file=".synaps-plugin/plugin.json",
    write_manifest=_format_manifest,
    provider_test=_PROVIDER_TEST,
)
