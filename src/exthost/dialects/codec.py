"""The interface of a codec: it turns frames into messages and back, for one session in one role.

A codec is made anew for each session, so it may remember what it sent.
"""

from enum import Enum
from typing import Any, Protocol, runtime_checkable

from exthost.messages import Id, Incoming, Message


class Role(Enum):
    """The side of the pipe that a codec works for. The same dialect serves both."""

    HOST = "host"
    GUEST = "guest"


class Codec(Protocol):
    """Encodes and decodes the messages of one session.

    A codec may also have `decode_replies(frames)`. It returns one `(id, result)` for each frame,
    or None if any frame is not a plain reply (see `jsontext.reply_decoder`).
    """

    def request(self, method: str, params: Any, id: Id) -> bytes:
        """Return the payload of a request. This is `encode(Request(…))` without the Request,
        because every call needs it."""

    def forget_last_request(self) -> None:
        """Forget the last request: it was too large for a frame and was not sent. Only codecs
        that remember their requests need to do anything."""

    def encode(self, message: Message) -> bytes:
        """Return the payload of a message. Raises UsageError for what the dialect cannot say."""

    def decode(self, frame: bytes | bytearray | memoryview) -> Incoming:
        """Return the message in this frame, a Batch of several, or Noise. Raises ProtocolViolation
        where such a frame ends the session."""

    def reply_id_in_prefix(self, head: bytes) -> Id | None:
        """Return the id of the call that a reply with these first bytes answers, if it shows."""


@runtime_checkable
class Positional(Protocol):
    """A guest's codec that cannot tell from a frame which method it asks for."""

    def expect(self, method: str) -> None:
        """Take the next frame for a request of this method."""
