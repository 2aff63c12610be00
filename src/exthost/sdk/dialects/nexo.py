"""The extension's side of the nexo dialect: JSON-RPC 2.0, one object per line, tools and hooks.

The host may add a `_meta` field to the arguments of a tool; a handler finds it in its context. The
items of a stream, and progress, are sent as notifications, which a host may ignore. The host
answers a request of the extension with an error unless it has a handler for that method.
"""

from typing import Any

from exthost.sdk.answers import Block, Confirm, HookEvent, Inject, Modify, own_hook_answer
from exthost.sdk.dialects.endpoint import Identity
from exthost.sdk.dialects.jsonrpc import INVALID_PARAMS, JsonRpcEndpoint, get_field
from exthost.sdk.serving.call import EMPTY_MAPPING, Call
from exthost.sdk.serving.server import Server
from exthost.sdk.types.function import Function

HOOKS = ("before_message", "after_message", "before_tool_call", "after_tool_call")


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
        }

    def _initialize(self, id: Any, params: Any) -> bytes | None:
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

    def _encode_item(self, call: Call, item: Any) -> bytes:
        params = {"id": call.key, "name": call.function.name, "item": item}
        return self.notification("tools/item", params)

    def progress(self, call: Call, current: float, total: float | None, message: str) -> bytes:
        params = {"id": call.key, "progress": current, "total": total, "message": message}
        return self.notification("tools/progress", params)

    # -- hooks -------------------------------------------------------------------------------

    def _make_hook_method(self, name: str) -> Any:
        function = self._hooks[name]

        def handle(id: Any, params: Any) -> bytes | None:
            event = _decode_event(name, params if type(params) is dict else {})
            return self.run(id, function, event, self._encode_hook_reply, self.encode_error_reply)

        return handle

    def _encode_hook_reply(self, id: Any, function: Function, answer: Any) -> bytes:
        return self.encode_result(id, _encode_hook_answer(answer))


def _decode_event(name: str, raw: dict[str, Any]) -> HookEvent:
    return HookEvent(name, raw.get("tool_name"), raw.get("arguments"), raw.get("message"), raw)


def _encode_hook_answer(answer: Any) -> Any:
    match answer:
        case None:
            return None
        case Block(reason):
            return {"abort": True, "reason": reason}
        case Modify(arguments):
            return {"override": {"arguments": arguments}}
        # The dialect has no way to ask a person. So an action that needs a confirmation is aborted.
        case Confirm(message):
            return {"abort": True, "reason": message}
        case Inject(content):
            return {"decision": "transform", "transformed_body": content}
    return own_hook_answer(answer)


ENDPOINT = NexoEndpoint
