"""mcp's codec: JSON-RPC 2.0, and the `_meta` that each era of the protocol needs in a request.

The codec remembers the era, because calls of raw methods need the envelope as well: the `_meta` of
`server/discover` is added to every later request, until `initialize` shows that the server is of
the older era. Params are left out if there are none, because many servers refuse null. Some servers
return a numeric id as text; it is read as the number. A line may have several messages, as
revisions before 2025-06-18 allow. Such a line is read in every revision, because a call whose reply
is dropped would wait in vain.
"""

from collections.abc import Mapping
from typing import Any

from exthost.dialects.json_codec import JsonRpc, decoder, failure_of, noise, to_json
from exthost.dialects.mcp.calls import ASKING
from exthost.messages import Id, Message, Noise, Notification, Reply, Request
from exthost.wire import jsontext
from exthost.wire.framing import Bytes

# Params up to this size are copied into a template, which is cheaper than two more objects.
_QUICK_BYTES = 16 * 1024


class Codec(JsonRpc):
    """JSON-RPC 2.0. The host's end adds the envelope of its era and the progress token."""

    __slots__ = ("_envelope", "_host", "_quick")

    decode = decoder(members=3, marker="jsonrpc", batches=True)

    def __init__(self, host: bool) -> None:
        self._host = host
        self._envelope: dict[str, Any] | None = None
        self._quick = _template({}) if host else b""

    def request(self, method: str, params: Any, id: Id) -> bytes:
        if self._host:
            if method == "tools/call" and type(params) is dict and "_meta" not in params:
                body = to_json(params)
                if 2 < len(body) <= _QUICK_BYTES and type(id) is int:
                    return self._quick % (id, body[:-1], id)
            if method in ASKING or self._envelope is not None:
                params = self._with_meta(method, params, id)
            elif method == "server/discover" and type(params) is dict:
                self._fix_era(params.get("_meta"))
        if params is None:
            return to_json({"jsonrpc": "2.0", "id": id, "method": method})
        return to_json({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def _with_meta(self, method: str, params: Any, id: Id) -> Any:
        """Return the params with their `_meta`. Members that the caller set take precedence."""
        envelope = self._envelope
        if method == "initialize":  # sent after discovery failed: the older era
            self._fix_era(None)
            return params
        if params is None:
            params = {}
        elif type(params) is not dict:
            return params
        own = params.get("_meta")
        meta = {"progressToken": id} if method in ASKING else {}
        if envelope is not None:
            meta |= envelope
        if isinstance(own, Mapping):
            meta |= own
        return {**params, "_meta": meta}

    def _fix_era(self, envelope: dict[str, Any] | None) -> None:
        self._envelope = envelope
        self._quick = _template(envelope or {})

    def encode(self, message: Message) -> bytes:
        if type(message) is Notification and message.params is None:
            return jsontext.encode({"jsonrpc": "2.0", "method": message.method})
        return super().encode(message)

    def read(self, fields: dict[str, Any], frame: Bytes) -> Message | Noise:
        id, method = fields.get("id"), fields.get("method")
        if "method" in fields:
            if type(method) is not str or not (id is None or type(id) in (int, str)):
                return noise(frame, "a method or an id of the wrong type")
            params = fields.get("params")
            return Notification(method, params) if id is None else Request(method, params, id)
        error = fields.get("error")
        if self._host:
            id = our_number(id)
        if error is not None and (id is None or type(id) in (int, str)):
            return failure_of(id, error, "(an error without a message)")
        if type(id) not in (int, str) or id is None:
            return noise(frame, "neither a method nor the id of a request")
        return Reply(id, fields.get("result"))


def _template(envelope: dict[str, Any]) -> bytes:
    """Return the text of a `tools/call`, the most frequent request, without id and params."""
    more = to_json(envelope)[1:-1].replace(b"%", b"%%")
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b,"_meta":{"progressToken":%d'
    return head + (b"," + more if more else b"") + b"}}}"


def our_number(id: Any) -> Any:
    """Return the id of one of our requests as a number, also if the server returned it as text."""
    if type(id) is str and id.isascii() and id.isdigit() and len(id) < 16:
        return int(id)
    return id
