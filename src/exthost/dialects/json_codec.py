"""Shared parts of JSON codecs, and the JSON-RPC 2.0 codec itself.

A frame is decoded once. The commonest message, a reply with an id and a result and nothing else, is
returned as a bare pair. Any other object goes to the dialect's own `read`. Anything that is not an
object is noise, unless the dialect has `batches`: then a list of objects is a batch of messages.
"""

from collections.abc import Callable
from typing import Any, Protocol

from exthost.messages import (
    Batch,
    Failure,
    Id,
    Incoming,
    Message,
    Noise,
    Notification,
    Reply,
    Request,
)
from exthost.wire import jsontext
from exthost.wire.framing import EVIDENCE_BYTES, Bytes
from exthost.wire.jsontext import decode_fast, encode_fast

_SPACE = ord(" ")  # the largest byte that is white space
_JSON_START = b'{["'  # the first byte of an object, a list or a string


class Reader(Protocol):
    """What a dialect adds: it reads every object but the plainest reply."""

    def read(self, fields: dict[str, Any], frame: Bytes) -> Message | Noise: ...


def noise(frame: Bytes, why: str) -> Noise:
    """Return a frame that is not a message as noise, cut to what a person needs to recognise it."""
    return Noise(bytes(frame[:EVIDENCE_BYTES]), why)


def decoder(
    members: int,
    marker: str | None = None,
    not_json: Callable[[Bytes, str], Incoming] = noise,
    batches: bool = False,
) -> Callable[[Any, Bytes], Incoming]:
    """Return the method `decode` of a codec.

    members   how many members the plainest reply has: an id, a result and, if there is one, a
              marker
    marker    a member that every message must have
    not_json  returns what a frame is that is not JSON, or raises
    batches   whether a frame may hold a list of messages

    It is a closure because every reply passes through it.
    """

    def decode(self: Reader, frame: Bytes) -> Incoming:
        try:
            fields = decode_fast(frame)
            if len(fields) == members:
                result = fields["result"]
                number = fields["id"]
                # In Python True == 1 and 2.0 == 2: such an id would match a request it does not
                # belong to.
                if type(number) is int and number >= 0 and (marker is None or marker in fields):
                    return number, result
        except (KeyError, TypeError, IndexError):
            pass  # an object, or another value, that is not so plain
        except Exception:
            # Stray text, of which there may be much, is not decoded a second time.
            if frame and frame[0] > _SPACE and frame[0] not in _JSON_START:
                return not_json(frame, "not JSON")
            try:
                fields = jsontext.decode(frame)
            except jsontext.NotJson as reason:
                return not_json(frame, str(reason))
        if type(fields) is dict:
            return self.read(fields, frame)
        if batches and type(fields) is list and any(type(item) is dict for item in fields):
            return Batch(tuple(_batch_member(self, item, frame) for item in fields))
        return noise(frame, "not a JSON object")

    return decode


def _batch_member(codec: Reader, part: Any, frame: Bytes) -> Message | Noise:
    """Return one message of a batch, or noise for what is not a message."""
    return codec.read(part, frame) if type(part) is dict else noise(frame, "not a JSON object")


def to_json(fields: dict[str, Any]) -> bytes:
    """Return an object as JSON text. The fast encoder comes first; if it refuses, the other one
    encodes the object or raises with the reason."""
    try:
        return encode_fast(fields)
    except Exception:
        return jsontext.encode(fields)


class JsonRpc:
    """JSON-RPC 2.0, the same in both roles. A dialect adds `read`, and its own `request` if its
    members have another order."""

    __slots__ = ()

    decode = decoder(members=3, marker="jsonrpc")
    decode_replies = staticmethod(jsontext.reply_decoder("jsonrpc"))

    def request(self, method: str, params: Any, id: Id) -> bytes:
        return to_json({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def answer(self, id: Id | None, answer: dict[str, Any]) -> dict[str, Any]:
        """Return a reply as an object, its members in the order in which they are written."""
        return {"jsonrpc": "2.0", "id": id, **answer}

    def encode(self, message: Message) -> bytes:
        match message:
            case Request(method, params, number):
                assert number is not None, "the session numbers every request"
                return self.request(method, params, number)
            case Notification(method, params):
                fields = {"jsonrpc": "2.0", "method": method, "params": params}
            case Reply(number, result):
                fields = self.answer(number, {"result": result})
            case Failure(number, text, code, data):
                error = {"code": -32000 if code is None else code, "message": text}
                if data is not None:
                    error["data"] = data
                fields = self.answer(number, {"error": error})
        return jsontext.encode(fields)

    def forget_last_request(self) -> None:
        """Do nothing: this codec remembers no requests."""

    def reply_id_in_prefix(self, head: bytes) -> Id | None:
        return jsontext.leading_id(head)


def failure_of(number: Id | None, error: Any, unknown: str) -> Failure:
    """Return a JSON-RPC error as a Failure. An error without a message gets the text `unknown`, and
    all of it is data."""
    if type(error) is str:
        return Failure(number, error)
    fields = error if type(error) is dict else {}
    text, code = fields.get("message"), fields.get("code")
    return Failure(
        number,
        text if type(text) is str else unknown,
        code if type(code) in (int, str) else None,
        fields.get("data") if type(text) is str else error,
    )
