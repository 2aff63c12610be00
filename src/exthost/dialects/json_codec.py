"""The parts that codecs of JSON messages have in common, and a codec for JSON-RPC 2.0.

The most frequent message is a reply with an id and a result and no other field. It is returned as a
plain tuple (id, result). The method `read` of the dialect's codec converts any other JSON object. A
frame that is not a JSON object is not a message (`Noise`), except that with `batches` a list of
objects is a batch of messages. A frame is the bytes of one message, such as a line:

    {"jsonrpc":"2.0","id":1,"result":5}                →  (1, 5)
    {"jsonrpc":"2.0","method":"log","params":{…}}      →  what `read` returns, a Notification
    starting…                                          →  Noise
"""

from collections.abc import Callable
from typing import Any, Protocol

from exthost.model.messages import (
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
    """The part of a codec that a dialect supplies. `read` converts any object except the simplest
    reply."""

    def read(self, fields: dict[str, Any], frame: Bytes) -> Message | Noise: ...


def noise(frame: Bytes, reason: str) -> Noise:
    """Return a frame that is not a message as Noise. Only its first bytes are kept, for errors."""
    is_whole = bytes(frame[:1]) == b"{" and bytes(frame[-8:]).rstrip().endswith(b"}")
    return Noise(bytes(frame[:EVIDENCE_BYTES]), reason, is_whole)


def decoder(
    members: int,
    marker: str | None = None,
    not_json: Callable[[Bytes, str], Incoming] = noise,
    batches: bool = False,
) -> Callable[[Any, Bytes], Incoming]:
    """Return the method `decode` of a codec.

    members   the number of fields of the simplest reply: an id, a result and the marker, if any
    marker    a field that every message must have, such as `jsonrpc`; None for no such field
    not_json  returns the message for a frame that is not JSON, or raises ProtocolViolation
    batches   whether a frame may contain a list of messages

    The method is a closure over these values, because that is faster than attributes, and every
    reply passes through it.
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
            pass  # not the simplest reply: another object, or a value that is not an object
        except jsontext.DECODE_ERRORS:
            # Text that cannot be JSON, such as log lines, is not decoded a second time.
            if frame and frame[0] > _SPACE and frame[0] not in _JSON_START:
                return not_json(frame, "not JSON")
            try:
                fields = jsontext.decode(frame)
            except jsontext.NotJson as reason:
                return not_json(frame, str(reason))
        if type(fields) is dict:
            return self.read(fields, frame)
        if batches and type(fields) is list and any(type(item) is dict for item in fields):
            return Batch(tuple(_read_batch_item(self, item, frame) for item in fields))
        return noise(frame, "not a JSON object")

    return decode


def _read_batch_item(codec: Reader, item: Any, frame: Bytes) -> Message | Noise:
    """Return one message of a batch, or Noise for an item that is not an object."""
    return codec.read(item, frame) if type(item) is dict else noise(frame, "not a JSON object")


def to_json(fields: dict[str, Any]) -> bytes:
    """Return an object as JSON text. If the fast encoder fails, the slower one encodes the object,
    or raises UsageError with the reason."""
    try:
        return encode_fast(fields)
    except jsontext.ENCODE_ERRORS:
        return jsontext.encode(fields)


class JsonRpc:
    """A codec for JSON-RPC 2.0, the same in both roles. A subclass adds `read`, and overrides
    `request` if the fields of its requests have another order."""

    __slots__ = ()

    decode = decoder(members=3, marker="jsonrpc")
    decode_replies = staticmethod(jsontext.reply_decoder("jsonrpc"))
    may_be_reply = staticmethod(jsontext.may_be_reply)

    def request(self, method: str, params: Any, id: Id) -> bytes:
        return to_json({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def answer(self, id: Id | None, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the object of a reply, with its fields in the order in which they are written."""
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
    """Return a JSON-RPC error as a Failure. An error that has no message gets the text `unknown`,
    and the whole error becomes the data."""
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
