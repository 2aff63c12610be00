"""The four messages every dialect is translated into, and what is not a message at all.

Owns the neutral form and nothing else: no bytes, no dialect, no rules about ids.
A codec turns frames into these and back; a session moves them about.

They are named tuples and not dataclasses because two are made for each call, and a frozen
dataclass costs three times as much to make. The surprise that buys: tuples of different kinds
with equal members compare equal, so tests compare the type as well.
"""

from typing import Any, NamedTuple, TypeAlias

Id: TypeAlias = int | str


class Request(NamedTuple):
    """A question. Outbound, `id` is left None and the session numbers it."""

    method: str
    params: Any = None
    id: Id | None = None


class Reply(NamedTuple):
    """An answer. `id` is None in dialects that answer by order."""

    id: Id | None
    result: Any = None


class Failure(NamedTuple):
    """An answer that says no."""

    id: Id | None
    message: str
    code: int | str | None = None
    data: Any = None


class Notification(NamedTuple):
    """Something told, never answered."""

    method: str
    params: Any = None


class Noise(NamedTuple):
    """Bytes of a child that are no message of its dialect, and why not."""

    data: bytes
    why: str


PlainReply: TypeAlias = tuple[Id, Any]
"""`(id, result)`: how a codec may hand over the commonest of all messages. Making a Reply of it
costs as much as decoding it did."""

Message: TypeAlias = Request | Reply | Failure | Notification


class Batch(NamedTuple):
    """Several messages that came in one frame, in their order."""

    messages: tuple[Message | Noise, ...]


Incoming: TypeAlias = PlainReply | Message | Noise | Batch
