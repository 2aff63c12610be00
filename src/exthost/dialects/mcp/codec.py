"""mcp's words on the wire: JSON-RPC 2.0, and what each era wants in the `_meta` of a request.

The surprises. The codec keeps the era, since raw calls need the envelope too: what discovery was
asked with goes with every request after it, until `initialize` shows that the server is of the
older one. Params are left out when there are none, since many servers take null for a mistake.
Some servers answer under the text of a number: that is read as the number. A line may hold several
messages, as revisions before 2025-06-18 allow; they are read in every revision, since a call whose
answer was passed over would wait for nothing.
"""

from collections.abc import Mapping
from typing import Any

from exthost.dialects.jsonrpc import JsonRpc, decoder, failure_of, noise, written
from exthost.dialects.mcp.calls import ASKING
from exthost.messages import Id, Message, Noise, Notification, Reply, Request
from exthost.wire import jsontext
from exthost.wire.framing import Bytes

# Params up to this size are copied into a template, which is cheaper than two more objects.
_QUICK_BYTES = 16 * 1024


class Codec(JsonRpc):
    """JSON-RPC 2.0; the host's end adds the envelope of its era and the progress token."""

    __slots__ = ("_envelope", "_host", "_quick")

    decode = decoder(members=3, marker="jsonrpc", batches=True)

    def __init__(self, host: bool) -> None:
        self._host = host
        self._envelope: dict[str, Any] | None = None
        self._quick = _template({}) if host else b""

    def request(self, method: str, params: Any, id: Id) -> bytes:
        if self._host:
            if method == "tools/call" and type(params) is dict and "_meta" not in params:
                body = written(params)
                if 2 < len(body) <= _QUICK_BYTES and type(id) is int:
                    return self._quick % (id, body[:-1], id)
            if method in ASKING or self._envelope is not None:
                params = self._dressed(method, params, id)
            elif method == "server/discover" and type(params) is dict:
                self._fix_era(params.get("_meta"))
        if params is None:
            return written({"jsonrpc": "2.0", "id": id, "method": method})
        return written({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def _dressed(self, method: str, params: Any, id: Id) -> Any:
        """The params with what belongs into their `_meta`; a caller's own word goes before."""
        envelope = self._envelope
        if method == "initialize":  # said after discovery came to nothing: the older era
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

    def read(self, said: dict[str, Any], frame: Bytes) -> Message | Noise:
        id, method = said.get("id"), said.get("method")
        if "method" in said:
            if type(method) is not str or not (id is None or type(id) in (int, str)):
                return noise(frame, "a method or an id of the wrong type")
            params = said.get("params")
            return Notification(method, params) if id is None else Request(method, params, id)
        error = said.get("error")
        if self._host:
            id = our_number(id)
        if error is not None and (id is None or type(id) in (int, str)):
            return failure_of(id, error, "(an error without a message)")
        if type(id) not in (int, str) or id is None:
            return noise(frame, "neither a method nor the id of a request")
        return Reply(id, said.get("result"))


def _template(envelope: dict[str, Any]) -> bytes:
    """A call of a tool, the commonest request of all, but for its id and its params."""
    more = written(envelope)[1:-1].replace(b"%", b"%%")
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b,"_meta":{"progressToken":%d'
    return head + (b"," + more if more else b"") + b"}}}"


def our_number(id: Any) -> Any:
    """One of our ids, all of which are numbers, for one who gives it back as text."""
    if type(id) is str and id.isascii() and id.isdigit() and len(id) < 16:
        return int(id)
    return id
