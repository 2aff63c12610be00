"""The interface of codecs, which convert frames (the bytes of one message) to messages and back.

Each dialect has a codec. Each session (the conversation with one process) creates its own codec
object, for one role, so a codec may remember what it sent.
"""

from enum import Enum
from typing import Any, Protocol, runtime_checkable

from exthost.model.messages import Id, Incoming, Message


class Role(Enum):
    """The end of the pipe for which a codec works: the host, or the extension (GUEST)."""

    HOST = "host"
    GUEST = "guest"


class Codec(Protocol):
    """Encodes and decodes the messages of one session.

    A codec may also have two optional methods. `decode_replies(frames)` returns one `(id, result)`
    for each frame, or None if any frame is not a plain reply (see `jsontext.reply_decoder`).
    `may_be_reply(head)` returns False if a frame that begins with these bytes cannot be a reply. A
    large frame of that kind is read slowly, because no call waits for it.
    """

    def request(self, method: str, params: Any, id: Id) -> bytes:
        """Return the payload of a request. It is the same as `encode(Request(…))`, without the
        cost of a Request object for each call."""

    def forget_last_request(self) -> None:
        """Forget the last request, because it was too large for a frame and was not sent. Codecs
        that do not remember their requests do nothing."""

    def encode(self, message: Message) -> bytes:
        """Return the payload of a message. Raises UsageError if the dialect has no such message."""

    def decode(self, frame: bytes | bytearray | memoryview) -> Incoming:
        """Return the message in this frame, a Batch of several messages, or Noise for a frame that
        is ignored. Raises ProtocolViolation for a frame that must end the session."""

    def reply_id_in_prefix(self, head: bytes) -> Id | None:
        """Return the id in the first bytes of a reply; None if they do not contain an id."""


@runtime_checkable
class Positional(Protocol):
    """A codec of an extension that cannot find in a frame which method is requested, because the
    messages of the dialect carry neither ids nor method names."""

    def expect(self, method: str) -> None:
        """Decode the next frame as a request of this method."""
