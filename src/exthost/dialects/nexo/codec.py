"""The codec of nexo, for both contracts: JSON-RPC 2.0, one object per line, read leniently.

{"jsonrpc":"2.0","method":"tools/call","params":{"name":"add","arguments":{}},"id":1}
{"jsonrpc":"2.0","result":3,"id":1}
"""

from typing import Any

from exthost.dialects.codec import Role
from exthost.dialects.json_codec import JsonRpc, failure_of, noise, to_json
from exthost.model.messages import Id, Incoming, Notification, Reply, Request
from exthost.wire import jsontext
from exthost.wire.framing import Bytes


class NexoCodec(JsonRpc):
    """A codec for JSON-RPC 2.0 that writes the id as the last field. The host and the extension use
    the same codec."""

    __slots__ = ()

    def request(self, method: str, params: Any, id: Id) -> bytes:
        return to_json({"jsonrpc": "2.0", "method": method, "params": params, "id": id})

    def answer(self, id: Id | None, answer: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", **answer, "id": id}

    def read(self, fields: dict[str, Any], frame: Bytes) -> Incoming:
        number = fields.get("id")
        if "method" in fields:
            method, params = fields["method"], fields.get("params")
            if type(method) is not str:
                return noise(frame, "its method is not text")
            return (
                Notification(method, params) if number is None else Request(method, params, number)
            )
        if type(number) is not int and type(number) is not str:
            return noise(frame, "neither a method nor the id of a request")
        result, error = fields.get("result"), fields.get("error")
        if result is not None or error is None:
            return Reply(number, result)
        return failure_of(number, error, jsontext.display_text(error))


def make_codec(role: Role) -> NexoCodec:
    """Return the codec of a new session."""
    return NexoCodec()
