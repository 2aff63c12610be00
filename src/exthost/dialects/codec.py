"""What a codec is: frames ↔ messages, for one session in one role.

Made anew for each session, so that it may remember what it said.
"""

from typing import Any, Protocol, runtime_checkable

from exthost.messages import Id, Incoming, Message


class Codec(Protocol):
    """Frames ↔ messages, for one session in one role. May remember what it said. One that has a
    `burst` decodes many answers at once, where frames are lines."""

    def request(self, method: str, params: Any, id: Id) -> bytes:
        """The payload of a request: `encode(Request(…))` without the Request, since every call
        asks for it."""

    def unsaid(self) -> None:
        """The last request did not go out: it was too large for a frame. For a codec that
        remembers what it asked."""

    def encode(self, message: Message) -> bytes:
        """The payload of any message. Raises UsageError for what the dialect cannot say."""

    def decode(self, frame: bytes | bytearray | memoryview) -> Incoming:
        """The message in this frame, a Batch of several, or Noise. Raises ProtocolViolation if that
        is fatal here."""

    def answers(self, head: bytes) -> Id | None:
        """Which call a frame that was too long to keep would have answered, by its first bytes."""


@runtime_checkable
class Positional(Protocol):
    """A guest's codec that cannot tell from a frame which question it is: it must be told."""

    def expect(self, method: str) -> None:
        """What comes next is a question of this method."""
