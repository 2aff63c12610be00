"""The interface of a framing: it turns bytes into frames, and payloads into framed bytes.

A framing has no clock and does no I/O. It returns frames; decoding them is the codec's work.

`feed` tells four outcomes apart, and none of them raises:

- *more bytes are needed*: the list is empty;
- *garbage*: a `Skipped` item (the framing can continue) or a `Broken` item (it cannot; this is
  always the last item);
- *end between frames*: `end()` returns None;
- *end inside a frame*: `end()` returns a `Broken`.

Garbage is an item in the list and not an exception, so the frames before it in the same read are
not lost, and every way of cutting the same bytes into reads gives the same items.

**Cost.** Each byte is searched once and copied once. Small frames are slices of the read. A frame
larger than one read is collected in one growing buffer, which then becomes the frame. Inside a
large frame, `read_size` asks for larger reads, and a framing with a `read_buffer` is read into
directly. When a read held very many tiny frames, `read_size` asks for smaller reads, because one
read is handled in one step of the event loop.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview

# The pipe's own default size: larger reads cost an allocation each and return no more.
READ_BYTES = 64 * 1024

# The size of a read inside a large frame: few reads, of whatever the pipe holds.
LARGE_READ_BYTES = 1024 * 1024

# The size of a read after a flood of tiny frames: 64 KiB of them took a third of a second.
TINY_FRAMES_READ_BYTES = 4 * 1024

# No message of any dialect is shorter; noise, and an attack, can be.
SHORTEST_MESSAGE_BYTES = 8

# Enough to show to a person, or to find an id in. Limited, since a child decides how much it sends.
EVIDENCE_BYTES = 4096


class Skipped(NamedTuple):
    """Bytes that are not part of any frame.

    `head` holds the first of them, `size` is their number. For a frame that is too long, `size` is
    the number of bytes after which the framing knew that.
    """

    why: Literal["too long", "not a frame"]
    head: bytes
    size: int


class Broken(NamedTuple):
    """The stream cannot be read any further. `head` shows the bytes that caused it."""

    why: str
    head: bytes


Item: TypeAlias = bytes | bytearray | memoryview | Skipped | Broken

# A bytearray, or an object with the same `find` and slices, such as an anonymous memory map.
Memory: TypeAlias = Any


class NoReadBuffer:
    """The part of a framing that is always fed and never read into directly."""

    __slots__ = ()

    suffix = None

    def read_buffer(self, allocate: Callable[[int], Memory]) -> memoryview | None:
        return None

    def commit(self, count: int) -> list[Item]:
        raise AssertionError("this framing has no read buffer")

    def release(self) -> None:
        pass


def next_read_size(size: int, frames: int) -> int:
    """Return the size of the read after one of `size` bytes that held this many frames."""
    tiny = size >= TINY_FRAMES_READ_BYTES and frames * SHORTEST_MESSAGE_BYTES > size
    return TINY_FRAMES_READ_BYTES if tiny else READ_BYTES


class Framing(Protocol):
    """Reads the frames of one stream, and frames payloads for the other direction."""

    read_size: int
    """The largest number of bytes that the next read should return."""

    @property
    def suffix(self) -> bytes | None:
        """The bytes that follow each payload, if a frame is only the payload and these bytes."""

    def feed(self, data: Bytes) -> list[Item]:
        """Take the bytes of one read; return the frames that they complete."""

    def read_buffer(self, allocate: Callable[[int], Memory]) -> memoryview | None:
        """Return the memory that the next read of a large frame should fill, or None to be fed.
        `allocate` returns memory of the given size without touching it, or None."""

    def commit(self, count: int) -> list[Item]:
        """Take `count` bytes that were read into the read buffer; return the frames that they
        complete. These are valid until the next read."""

    def release(self) -> None:
        """Free the memory that is kept for the next large frame."""

    def end(self) -> Broken | None:
        """Handle the end of the stream. Return a Broken if it comes inside a frame, else None."""

    def wrap(self, payload: bytes) -> bytes:
        """Return the framed payload. Raises UsageError when the payload is too large."""

    def frame_parts(self, size: int) -> tuple[bytes, bytes]:
        """Return the bytes before and after a payload of this size.

        A caller that writes the three parts need not copy a large payload. Raises UsageError when
        the payload is too large.
        """
