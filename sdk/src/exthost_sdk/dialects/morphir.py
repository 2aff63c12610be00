"""The extension's side of the morphir dialect.

Each message is one JSON object on a line of its own; an error is a plain string:

    {"id": 1, "method": "greet", "params": {"name": "Ada"}}
    {"id": 1, "result": "Hello, Ada!"}

Every registered tool, stream and command is a method under its own name, and the host sees all of
them as tools. The items of a stream are sent as notifications with the method `item`. Progress is
sent as a log line, since the dialect has no message for it. The dialect has neither requests to the
host nor a message that cancels a call.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from exthost_sdk.endpoints.endpoint import (
    Endpoint,
    Identity,
    can_be_id,
    progress_text,
)
from exthost_sdk.endpoints.sdk_dialect import SdkDialect
from exthost_sdk.errors import describe
from exthost_sdk.serving.call import HandlerCall
from exthost_sdk.serving.server import Server
from exthost_sdk.types.function import Function
from exthost_sdk.types.json_text import decode, encode
from exthost_sdk.wire.framing import LineFraming


class MorphirEndpoint(Endpoint):
    """The extension's side of a morphir connection."""

    name = "morphir"
    supported_kinds = frozenset({"tools"})  # streams and commands are among the tools
    framing = LineFraming

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        self._functions = dict(self.registry.callables)
        # Methods that every extension has. They take the params and return the result.
        self._builtin_methods: dict[str, Callable[[Any], Any]] = {
            "initialize": self._initialize,
            "capabilities": self._capabilities,
            "health_check": lambda params: {"status": "healthy"},
        }

    def receive(self, frame: bytes) -> bytes | None:
        """Handle a request: call the handler or the built-in method that it names."""
        try:
            message = decode(frame)
            id, method = message["id"], message["method"]
            if not can_be_id(id):
                raise TypeError("an invalid id")
        except (ValueError, RecursionError, KeyError, TypeError):
            text = f"exthost.sdk: the host sent a message that is not a request: {frame[:200]!r}"
            print(text, file=sys.stderr)
            return None
        function = self._functions.get(method) if type(method) is str else None
        if function is not None:
            return self.run(
                id,
                function,
                message.get("params"),
                self._encode_reply,
                self._encode_failure,
                on_item=self._encode_item,
            )
        builtin = self._builtin_methods.get(method) if type(method) is str else None
        if builtin is not None:
            return encode({"id": id, "result": builtin(message.get("params"))}) + b"\n"
        return encode({"id": id, "error": f"method not found: {method}"}) + b"\n"

    def _initialize(self, params: Any) -> Any:
        self.config = params if isinstance(params, dict) else {}
        return {"name": self.identity.name, "version": self.identity.version}

    def _capabilities(self, params: Any) -> Any:
        return [
            {
                "name": name,
                "description": function.description,
                "params_schema": function.input_schema,
                **_encode_return_schema(function),
            }
            for name, function in self._functions.items()
        ]

    def _encode_reply(self, id: Any, function: Function, value: Any) -> bytes:
        return encode({"id": id, "result": value}) + b"\n"

    def _encode_failure(self, id: Any, function: Function, error: BaseException) -> bytes:
        return encode({"id": id, "error": describe(error)}) + b"\n"

    def _encode_item(self, call: HandlerCall, item: Any) -> bytes:
        return encode({"method": "item", "params": {"id": call.key, "item": item}}) + b"\n"

    def progress(
        self, call: HandlerCall, current: float, total: float | None, message: str
    ) -> bytes:
        return self.log(call, "info", progress_text(current, total, message))

    def log(self, call: HandlerCall, level: str, text: str) -> bytes:
        return encode({"method": "log", "params": {"level": level, "message": text}}) + b"\n"


def _encode_return_schema(function: Function) -> dict[str, Any]:
    """Return the `return_schema` field of a tool; empty if its result has no schema."""
    schema = None if function.is_generator else function.output_schema
    return {} if schema is None else {"return_schema": schema}


def _recognises(first: bytes, message: Mapping[str, Any] | None) -> bool:
    """Return whether the first message of a host belongs to this dialect."""
    # The only dialect with JSON that is not JSON-RPC.
    return message is not None and "jsonrpc" not in message and type(message.get("method")) is str


DIALECT = SdkDialect(MorphirEndpoint, _recognises, templates=("tool",))
