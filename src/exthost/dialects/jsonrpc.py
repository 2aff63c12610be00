"""What codecs of JSON messages have in common, whichever members their dialect gives a message.

A frame is decoded once. The commonest message, a reply of an id and a result and nothing else,
is handed over at once as a bare pair; any other object goes to the dialect's own `read`; what is
no object is noise, unless the dialect has `batches`: then a list of objects is as many messages.
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

_BLANK = ord(" ")  # the largest byte that is white space
_OPENS = b'{["'


class Reader(Protocol):
    """What a dialect adds: the meaning of an object that is not the plainest of replies."""

    def read(self, said: dict[str, Any], frame: Bytes) -> Message | Noise: ...


def noise(frame: Bytes, why: str) -> Noise:
    """A frame that is no message, and as much of it as a person needs to recognise it."""
    return Noise(bytes(frame[:EVIDENCE_BYTES]), why)


def decoder(
    members: int,
    marker: str | None = None,
    not_json: Callable[[Bytes, str], Incoming] = noise,
    batches: bool = False,
) -> Callable[[Any, Bytes], Incoming]:
    """The method `decode` of a codec in which the plainest reply has so many members: an id, a
    result and, if there is one, a marker. `not_json` says what a frame is that holds no JSON, or
    raises; with `batches` a frame may hold a list of messages. A closure, since it is on the way
    of every call."""

    def decode(self: Reader, frame: Bytes) -> Incoming:
        try:
            said = decode_fast(frame)
            if len(said) == members:
                result = said["result"]
                number = said["id"]
                # Python takes true for 1 and 2.0 for 2: those could answer what they do not mean.
                if type(number) is int and number >= 0 and (marker is None or marker in said):
                    return number, result
        except (KeyError, TypeError, IndexError):
            pass  # an object, or another value, that is not so plain
        except Exception:
            if frame and frame[0] > _BLANK and frame[0] not in _OPENS:  # stray text, maybe much
                return not_json(frame, "not JSON")
            try:
                said = jsontext.decode(frame)
            except jsontext.NotJson as reason:
                return not_json(frame, str(reason))
        if type(said) is dict:
            return self.read(said, frame)
        if batches and type(said) is list and any(type(one) is dict for one in said):
            return Batch(tuple(_one_of(self, one, frame) for one in said))
        return noise(frame, "not a JSON object")

    return decode


def _one_of(codec: Reader, one: Any, frame: Bytes) -> Message | Noise:
    """One message of a batch; what is none is told beside the others."""
    return codec.read(one, frame) if type(one) is dict else noise(frame, "not a JSON object")


def written(asked: dict[str, Any]) -> bytes:
    """An object as text, by the fast way or, where that refuses, by the one that knows why."""
    try:
        return encode_fast(asked)
    except Exception:
        return jsontext.encode(asked)


class JsonRpc:
    """JSON-RPC 2.0, which says the same things at both ends; a dialect adds `request`, `read`."""

    __slots__ = ()

    decode = decoder(members=3, marker="jsonrpc")
    decode_replies = staticmethod(jsontext.reply_decoder("jsonrpc"))

    def request(self, method: str, params: Any, id: Id) -> bytes:
        return written({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def answer(self, id: Id | None, answer: dict[str, Any]) -> dict[str, Any]:
        """A reply as an object, in the order in which its members are written."""
        return {"jsonrpc": "2.0", "id": id, **answer}

    def encode(self, message: Message) -> bytes:
        match message:
            case Request(method, params, number):
                assert number is not None, "the session numbers every request"
                return self.request(method, params, number)
            case Notification(method, params):
                said = {"jsonrpc": "2.0", "method": method, "params": params}
            case Reply(number, result):
                said = self.answer(number, {"result": result})
            case Failure(number, text, code, data):
                error = {"code": -32000 if code is None else code, "message": text}
                if data is not None:
                    error["data"] = data
                said = self.answer(number, {"error": error})
        return jsontext.encode(said)

    def forget_last_request(self) -> None:
        """Do nothing: this codec remembers no requests."""

    def reply_id_in_prefix(self, head: bytes) -> Id | None:
        return jsontext.leading_id(head)


def failure_of(number: Id | None, error: Any, unknown: str) -> Failure:
    """A JSON-RPC error as it should be, or as much of it as can be made out: of one without a
    message, all of it is data."""
    if type(error) is str:
        return Failure(number, error)
    said = error if type(error) is dict else {}
    text, code = said.get("message"), said.get("code")
    return Failure(
        number,
        text if type(text) is str else unknown,
        code if type(code) in (int, str) else None,
        said.get("data") if type(text) is str else error,
    )
