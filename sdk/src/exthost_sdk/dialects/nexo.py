"""The extension's side of the nexo dialect: JSON-RPC 2.0, one object per line, tools and hooks.

    {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
     "params": {"name": "shout", "arguments": {"text": "hi"}}}
    {"jsonrpc": "2.0", "id": 1, "result": "HI"}

nexo has two contracts, which are versions of the protocol with different methods. This module
speaks both; the params of `initialize` show which one the host speaks. In the second contract,
tools are called by `tool.invoke`, hooks by `hook.on_hook`, and the names of tools begin with the id
of the extension (`nexo_second`).

A handler finds in its context what the host sent about the call: in the first contract the `_meta`
field that the host may add to the arguments of a tool, in the second the id of the agent. The items
of a stream, and progress, are sent as notifications, which a host may ignore. The host answers a
request of the extension with an error unless it has a handler for that method.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from exthost_sdk import answers
from exthost_sdk.endpoints import nexo_second
from exthost_sdk.endpoints.endpoint import Identity
from exthost_sdk.endpoints.jsonrpc import (
    HANDLER_FAILED,
    INVALID_PARAMS,
    JsonRpcEndpoint,
    get_field,
)
from exthost_sdk.endpoints.sdk_dialect import SdkDialect
from exthost_sdk.endpoints.toml_text import toml_entries
from exthost_sdk.errors import InvalidArguments, ToolError, describe
from exthost_sdk.serving.call import EMPTY_MAPPING, HandlerCall
from exthost_sdk.serving.server import Server
from exthost_sdk.types.function import Function

HOOKS = nexo_second.HOOKS

# The error codes of `tool.invoke`.
_TOOL_NOT_FOUND = -33401
_BAD_ARGUMENT = -33402
_TOOL_FAILED = -33403


class NexoEndpoint(JsonRpcEndpoint):
    """The extension's side of a nexo connection."""

    name = "nexo"
    supported_kinds = frozenset({"tools", "hooks"})
    supported_hooks = HOOKS

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        self._functions = dict(self.registry.callables)
        self._hooks = {name: hook for name, hook in self.registry.hooks.items() if name in HOOKS}
        self.methods = {
            "initialize": self._initialize,
            "tools/list": lambda id, params: self.result(id, {"tools": self._encode_tools()}),
            "tools/call": self._call_tool,
            **{f"hooks/{name}": self._make_hook_method(name) for name in self._hooks},
            # The second contract.
            "plugin.configure": self._configure,
            "tool.invoke": self._invoke_tool,
            "hook.on_hook": self._on_hook,
            "shutdown": self._shutdown,
        }
        self._own_id = nexo_second.plugin_id(identity.name)
        # The tools under their names in the second contract.
        self._prefixed = {
            nexo_second.tool_name(self._own_id, name): function
            for name, function in self._functions.items()
        }

    def _initialize(self, id: Any, params: Any) -> bytes | None:
        """Answer the handshake of the first contract, or pass it on to that of the second."""
        fields = params if type(params) is dict else {}
        if "nexo_version" in fields and "agent_version" not in fields:
            return self._initialize_second(id)
        hooks = list(self._hooks)
        result = {
            "server_version": self.identity.version,
            "tools": self._encode_tools(),
            "hooks": hooks,
        }
        return self.result(id, result)

    def _encode_tools(self) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "description": function.description,
                "input_schema": function.input_schema,
            }
            for name, function in self._functions.items()
        ]

    def _call_tool(self, id: Any, params: Any) -> bytes | None:
        name = get_field(params, "name", str)
        arguments = params.get("arguments")
        function = self._functions.get(name)
        if function is None:
            # Not METHOD_NOT_FOUND: a host would conclude that the extension is an older one without
            # tools/call, and send the call again with the method tools/NAME.
            return self.error(id, INVALID_PARAMS, f"unknown tool: {name}")
        meta = arguments.get("_meta") if type(arguments) is dict else None
        return self.run(
            id,
            function,
            arguments,
            self.encode_value_reply,
            self.encode_error_reply,
            meta=meta if type(meta) is dict else EMPTY_MAPPING,
            on_item=self._encode_item,
        )

    def _encode_item(self, call: HandlerCall, item: Any) -> bytes:
        params = {"id": call.key, "name": call.function.name, "item": item}
        return self.notification("tools/item", params)

    def progress(
        self, call: HandlerCall, current: float, total: float | None, message: str
    ) -> bytes:
        params = {"id": call.key, "progress": current, "total": total, "message": message}
        return self.notification("tools/progress", params)

    # -- the second contract -----------------------------------------------------------------

    def _initialize_second(self, id: Any) -> bytes | None:
        identity = self.identity
        manifest = nexo_second.manifest(
            identity.name, identity.version, identity.description, self._functions, self._hooks
        )
        tools = [
            {
                "name": name,
                "description": function.description,
                "input_schema": function.input_schema,
            }
            for name, function in self._prefixed.items()
        ]
        result = {"manifest": manifest, "server_version": identity.version, "tools": tools}
        return self.result(id, result)

    def _configure(self, id: Any, params: Any) -> bytes | None:
        value = params.get("value") if type(params) is dict else None
        self.config = value if type(value) is dict else {"value": value}
        return self.result(id, {"ok": True})

    def _invoke_tool(self, id: Any, params: Any) -> bytes | None:
        name = get_field(params, "tool_name", str)
        function = self._prefixed.get(name)
        if function is None:
            return self.error(id, _TOOL_NOT_FOUND, f"unknown tool: {name}")
        arguments = params.get("args")
        return self.run(
            id,
            function,
            {} if arguments is None else arguments,
            self.encode_value_reply,
            self._encode_tool_error,
            meta={"agent_id": params.get("agent_id")},
            on_item=self._encode_item,
        )

    def _encode_tool_error(self, id: Any, function: Function, error: BaseException) -> bytes:
        if isinstance(error, InvalidArguments):
            details = {"details": error.problems}
            return self.encode_error(id, _BAD_ARGUMENT, error.message, details)
        if isinstance(error, ToolError) and error.code != HANDLER_FAILED:
            return self.encode_error(id, error.code, describe(error), error.data)
        data = error.data if isinstance(error, ToolError) else None
        return self.encode_error(id, _TOOL_FAILED, describe(error), data)

    def _on_hook(self, id: Any, params: Any) -> bytes | None:
        name = get_field(params, "hook_name", str)
        if name not in self._hooks:
            return self.result(id, None)
        handle = self._make_hook_method(name)
        answer: bytes | None = handle(id, params.get("event"))
        return answer

    def _shutdown(self, id: Any, params: Any) -> bytes | None:
        self.server.stop()
        return self.result(id, {"ok": True})

    # -- hooks -------------------------------------------------------------------------------

    def _make_hook_method(self, name: str) -> Any:
        function = self._hooks[name]

        def handle(id: Any, params: Any) -> bytes | None:
            event = _decode_event(name, params if type(params) is dict else {})
            return self.run(id, function, event, self._encode_hook_reply, self.encode_error_reply)

        return handle

    def _encode_hook_reply(self, id: Any, function: Function, answer: Any) -> bytes:
        return self.encode_result(id, _encode_hook_answer(answer))


def _decode_event(name: str, raw: dict[str, Any]) -> answers.HookEvent:
    return answers.HookEvent(
        hook=name,
        tool=raw.get("tool_name"),
        arguments=raw.get("arguments"),
        message=raw.get("message"),
        raw=raw,
    )


def _encode_hook_answer(answer: Any) -> Any:
    """Return the answer of a hook as a result of the dialect; None lets the event happen."""
    match answer:
        case None:
            return None
        case answers.Block(reason):
            return {"abort": True, "reason": reason}
        case answers.Modify(arguments):
            return {"override": {"arguments": arguments}}
        # The dialect has no way to ask a person. So an action that needs a confirmation is aborted.
        case answers.Confirm(message):
            return {"abort": True, "reason": message}
        case answers.Inject(content):
            return {"decision": "transform", "transformed_body": content}
        case answers.Replace(output):
            return {"override": {"result": output}}
    return answers.own_hook_answer(answer)


def _recognises(first: bytes, message: Mapping[str, Any] | None) -> bool:
    """Return whether the first message of a host belongs to this dialect."""
    # nexo and mcp both begin with initialize; only that of mcp has a protocolVersion.
    if message is None or "jsonrpc" not in message or message.get("method") != "initialize":
        return False
    params = message.get("params")
    return type(params) is not dict or "protocolVersion" not in params


def _format_manifest(identity: Identity, command: Sequence[str]) -> str:
    """Return the text of the manifest. `command` is the command line that runs the extension."""
    hooks = [name for name in identity.registry.hooks if name in nexo_second.HOOKS]
    lines = [
        "[plugin]",
        *toml_entries(id=identity.name, version=identity.version, description=identity.description),
        "",
        "[capabilities]",
        *toml_entries(tools=list(identity.registry.callables), hooks=hooks),
        "",
        "[transport]",
        *toml_entries(kind="stdio", command=command[0], args=list(command[1:])),
    ]
    return "\n".join(lines) + "\n"


def second_nexo_manifest(identity: Identity, command: Sequence[str]) -> str:
    """Return the manifest of nexo's second contract; `command` is what starts the extension from
    its folder."""
    registry = identity.registry
    document = nexo_second.manifest(
        identity.name,
        identity.version,
        identity.description,
        registry.callables,
        registry.hooks,
    )
    plugin = document["plugin"]
    extends = plugin.pop("extends")
    lines = [
        *toml_entries(manifest_version=2),
        "",
        "[plugin]",
        *toml_entries(**plugin),
        "",
        "[plugin.entrypoint]",
        *toml_entries(command=command[0], args=list(command[1:])),
        "",
        "[plugin.extends]",
        *toml_entries(**extends),
    ]
    return "\n".join(lines) + "\n"


DIALECT = SdkDialect(
    NexoEndpoint,
    _recognises,
    templates=("tool", "hook"),
    manifest_file="plugin.toml",
    write_manifest=_format_manifest,
)
