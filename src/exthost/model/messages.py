"""The four types of message, the same in every dialect, and `Noise` for bytes that are not a
message.

These are values only: no bytes, no dialect, no rules about ids. The codec of a dialect translates
frames to messages and back; a session sends and receives them. In a dialect that uses JSON-RPC, for
example, `{"jsonrpc": "2.0", "id": 7, "method": "ping"}` is `Request("ping", None, 7)`, and
`{"jsonrpc": "2.0", "id": 7, "result": {}}` is `Reply(7, {})`.

Messages are named tuples and not dataclasses, because each call makes two of them and a frozen
dataclass takes three times as long to make. As a consequence, messages of different types with
equal fields compare equal, so tests compare the type as well.
"""

from typing import Any, NamedTuple, TypeAlias

Id: TypeAlias = int | str


class Request(NamedTuple):
    """A request. `id` is None in a request of the host until the session sends it."""

    method: str
    params: Any = None
    id: Id | None = None


class Reply(NamedTuple):
    """The reply to a request. `id` is None in dialects that match replies to requests by order."""

    id: Id | None
    result: Any = None


class Failure(NamedTuple):
    """An error reply."""

    id: Id | None
    message: str
    code: int | str | None = None
    data: Any = None


class Notification(NamedTuple):
    """A message that gets no reply."""

    method: str
    params: Any = None


class Noise(NamedTuple):
    """Bytes from an extension that are not a message of its dialect, and the reason.

    `is_whole` is whether they have the form of a whole message and contain something that the
    notation does not allow, such as NaN in JSON. `data` may be only their beginning."""

    data: bytes
    reason: str
    is_whole: bool = False


PlainReply: TypeAlias = tuple[Id, Any]
"""`(id, result)`: a codec may return the most common message in this form, because making a Reply
takes as long as decoding it."""

Message: TypeAlias = Request | Reply | Failure | Notification


class Batch(NamedTuple):
    """Several messages that arrived in one frame, in order."""

    messages: tuple[Message | Noise, ...]


Incoming: TypeAlias = PlainReply | Message | Noise | Batch
