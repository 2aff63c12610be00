"""nexo: JSON-RPC 2.0, one object a line: tools and hooks.

Arguments may carry `_meta`, which the host adds and a handler finds in its context. Items of a
stream and progress are notifications, which a host may ignore. A request to the host is refused by
the host unless it has a handler for it.
"""

from typing import Any

from exthost.sdk.answers import Block, Confirm, HookEvent, Inject, Modify
from exthost.sdk.dialects.endpoint import Identity
from exthost.sdk.dialects.jsonrpc import INVALID_PARAMS, JsonRpcEndpoint, member
from exthost.sdk.serving.call import NOTHING, Call
from exthost.sdk.serving.server import Server
from exthost.sdk.types.function import Function

HOOKS = ("before_message", "after_message", "before_tool_call", "after_tool_call")


class NexoEndpoint(JsonRpcEndpoint):
    """The extension's end of a nexo connection."""

    name = "nexo"
    offers = frozenset({"tools", "hooks"})

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        self._functions = dict(self.registry.callables)
        self._hooks = {name: hook for name, hook in self.registry.hooks.items() if name in HOOKS}
        self.methods = {
            "initialize": self._initialize,
            "tools/list": lambda id, params: self.result(id, {"tools": self._tools()}),
            "tools/call": self._call_tool,
            **{f"hooks/{name}": self._hook_method(name) for name in self._hooks},
        }

    def _initialize(self, id: Any, params: Any) -> bytes | None:
        hooks = list(self._hooks)
        result = {"server_version": self.identity.version, "tools": self._tools(), "hooks": hooks}
        return self.result(id, result)

    def _tools(self) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "description": function.description,
                "input_schema": function.input_schema,
            }
            for name, function in self._functions.items()
        ]

    def _call_tool(self, id: Any, params: Any) -> bytes | None:
        name = member(params, "name", str)
        arguments = params.get("arguments")
        function = self._functions.get(name)
        if function is None:
            # Not "method not found": the host would take that for an extension of an older kind.
            return self.error(id, INVALID_PARAMS, f"unknown tool: {name}")
        meta = arguments.get("_meta") if type(arguments) is dict else None
        return self.run(
            id,
            function,
            arguments,
            self.value_reply,
            self.error_reply,
            meta=meta if type(meta) is dict else NOTHING,
            on_item=self._item,
        )

    def _item(self, call: Call, item: Any) -> bytes:
        about = {"id": call.key, "name": call.function.name, "item": item}
        return self.notification("tools/item", about)

    def progress(self, call: Call, current: float, total: float | None, message: str) -> bytes:
        about = {"id": call.key, "progress": current, "total": total, "message": message}
        return self.notification("tools/progress", about)

    # -- hooks -------------------------------------------------------------------------------

    def _hook_method(self, name: str) -> Any:
        function = self._hooks[name]

        def handle(id: Any, params: Any) -> bytes | None:
            event = _event(name, params if type(params) is dict else {})
            return self.run(id, function, event, self._hook_reply, self.error_reply)

        return handle

    def _hook_reply(self, id: Any, function: Function, answer: Any) -> bytes:
        return self.encode_result(id, _hook_answer(answer))


def _event(name: str, raw: dict[str, Any]) -> HookEvent:
    return HookEvent(name, raw.get("tool_name"), raw.get("arguments"), raw.get("message"), raw)


def _hook_answer(answer: Any) -> Any:
    match answer:
        case Block(reason):
            return {"abort": True, "reason": reason}
        case Modify(arguments):
            return {"override": {"arguments": arguments}}
        case Confirm(message):  # nobody can be asked in this dialect, so it must not happen
            return {"abort": True, "reason": message}
        case Inject(content):
            return {"decision": "transform", "transformed_body": content}
    return answer


ENDPOINT = NexoEndpoint
