"""morphir: one JSON object a line, errors that are plain strings.

Every tool, stream and command is a method of its own. Items of a stream are notifications with the
method `item`, progress is a line of the log, and there are no requests to the host and no word for
cancelling.
"""

import sys
from collections.abc import Callable
from typing import Any

from exthost.sdk.dialects.endpoint import Endpoint, Identity, progress_text
from exthost.sdk.errors import describe
from exthost.sdk.serving.call import Call
from exthost.sdk.serving.server import Server
from exthost.sdk.types.function import Function
from exthost.sdk.types.json_text import decode, encode
from exthost.sdk.wire.framing import LineFraming


class MorphirEndpoint(Endpoint):
    """The extension's end of a morphir connection."""

    name = "morphir"
    offers = frozenset({"tools"})
    framing = LineFraming

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        self._functions = dict(self.registry.callables)
        self._own: dict[str, Callable[[Any], Any]] = {
            "initialize": self._initialize,
            "capabilities": self._capabilities,
            "health_check": lambda params: {"status": "healthy"},
        }

    def receive(self, frame: bytes) -> bytes | None:
        try:
            message = decode(frame)
            id, method = message["id"], message["method"]
            hash(id)  # raises TypeError for a list or an object, which cannot be the key of a call
        except (ValueError, RecursionError, KeyError, TypeError):
            text = f"exthost.sdk: the host sent a message that is not a request: {frame[:200]!r}"
            print(text, file=sys.stderr)
            return None
        function = self._functions.get(method) if type(method) is str else None
        if function is not None:
            reply, failure = self._reply, self._failure
            return self.run(id, function, message.get("params"), reply, failure, on_item=self._item)
        answer = self._own.get(method) if type(method) is str else None
        if answer is not None:
            return encode({"id": id, "result": answer(message.get("params"))}) + b"\n"
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
                **({} if (schema := _result_schema(function)) is None else schema),
            }
            for name, function in self._functions.items()
        ]

    def _reply(self, id: Any, function: Function, value: Any) -> bytes:
        return encode({"id": id, "result": value}) + b"\n"

    def _failure(self, id: Any, function: Function, error: BaseException) -> bytes:
        return encode({"id": id, "error": describe(error)}) + b"\n"

    def _item(self, call: Call, item: Any) -> bytes:
        return encode({"method": "item", "params": {"id": call.key, "item": item}}) + b"\n"

    def progress(self, call: Call, current: float, total: float | None, message: str) -> bytes:
        return self.log(call, "info", progress_text(current, total, message))

    def log(self, call: Call, level: str, text: str) -> bytes:
        return encode({"method": "log", "params": {"level": level, "message": text}}) + b"\n"


def _result_schema(function: Function) -> dict[str, Any] | None:
    schema = None if function.is_generator else function.output_schema
    return None if schema is None else {"return_schema": schema}


ENDPOINT = MorphirEndpoint
