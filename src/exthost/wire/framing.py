"""The interface of a framing: it finds the messages in the bytes of a stream.

The bytes of one message are a frame: for example a line (`lines`), or a body after its length
(`prefixed`). A framing for lines, to which two reads are passed:

    framing.feed(b'{"id": 1}\\n{"i')      returns [b'{"id": 1}']
    framing.feed(b'd": 2}\\n')            returns [b'{"id": 2}']
    framing.wrap(b'{"id": 3}')            returns b'{"id": 3}\\n', for the other direction

A framing has no clock and does no I/O. The codec of the dialect decodes the frames.

A framing distinguishes four outcomes, and none of them raises an exception:

- *more bytes are needed*: the list that `feed` returns is empty;
- *garbage*: the list has a `Skipped` item (the framing can continue) or a `Broken` item (it cannot
  continue, so this is always the last item);
- *end between frames*: `end()` returns None;
- *end inside a frame*: `end()` returns a `Broken`.

Garbage is an item in the list and not an exception, so the frames before it in the same read are
not lost, and every way of cutting the same bytes into reads gives the same items.

**Cost.** Each byte is searched once and copied once. Small frames are slices of the read. A frame
larger than one read is collected in one growing buffer, which then becomes the frame. Inside a
large frame, `read_size` asks for larger reads, and a framing with a `read_buffer` is read into
directly. After a read with very many tiny frames, `read_size` asks for smaller reads, because one
read is handled in one iteration of the event loop.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview

# The default size of a pipe on Linux: a larger read costs a larger allocation and returns no more.
READ_BYTES = 64 * 1024

# The size of a read inside a large frame: as much as the largest pipe can contain (by default on
# Linux), so that few reads are needed.
LARGE_READ_BYTES = 1024 * 1024

# The size of a read after a read of very many tiny frames. To handle 64 KiB of them took a third of
# a second, in which the event loop did nothing else.
TINY_FRAMES_READ_BYTES = 4 * 1024

# No message of any dialect is shorter. Shorter frames are not messages, or are an attack.
SHORTEST_MESSAGE_BYTES = 8

# How many bytes of a bad frame are kept: enough to show to a person, or to find the id of the
# message in. The whole frame is not kept, because the extension determines its size.
EVIDENCE_BYTES = 4096

# How many bytes of an incomplete frame are examined: enough for the short fields, such as the id,
# that usually come before a large field.
HEAD_BYTES = 256


class Skipped(NamedTuple):
    """Bytes that are not part of any frame.

    `head` has the first of them, `size` is their number. For a frame that is too long, `size` is
    the number of bytes that had come when the framing discarded it.
    """

    reason: Literal["too long", "not a frame"]
    head: bytes
    size: int


class Broken(NamedTuple):
    """The stream cannot be read any further. `head` shows the bytes that caused it."""

    reason: str
    head: bytes


Item: TypeAlias = bytes | bytearray | memoryview | Skipped | Broken

# A bytearray, or an object with the same `find` and slices, such as an anonymous memory map.
Memory: TypeAlias = Any


class NoReadBuffer:
    """Base class of framings that have no read buffer: all bytes come through `feed`."""

    __slots__ = ()

    suffix = None
    is_at_line_start = False
    is_discarding = False

    def read_buffer(self, allocate: Callable[[int], Memory]) -> memoryview | None:
        return None

    def commit(self, count: int) -> list[Item]:
        raise AssertionError("this framing has no read buffer")

    def release(self) -> None:
        pass

    def incomplete_head(self) -> bytes:
        return b""


def next_read_size(last_read_bytes: int, frame_count: int) -> int:
    """Return the size of the next read. `frame_count` frames were in the last read."""
    has_tiny_frames = frame_count * SHORTEST_MESSAGE_BYTES > last_read_bytes
    if last_read_bytes >= TINY_FRAMES_READ_BYTES and has_tiny_frames:
        return TINY_FRAMES_READ_BYTES
    return READ_BYTES


class Framing(Protocol):
    """Reads the frames of one stream, and frames payloads for the other direction."""

    read_size: int
    """The largest number of bytes that the next read should return."""

    @property
    def suffix(self) -> bytes | None:
        """The bytes that follow each payload, such as a newline, if a framed payload is only the
        payload and these bytes; else None."""

    @property
    def is_at_line_start(self) -> bool:
        """Whether frames are lines, and the next byte is the first of a line. False at the very
        first line, which may begin with a byte-order mark."""

    @property
    def is_discarding(self) -> bool:
        """Whether the next byte belongs to a frame that was reported as too long."""

    def feed(self, data: Bytes) -> list[Item]:
        """Take the bytes of one read; return the frames that they complete."""

    def read_buffer(self, allocate: Callable[[int], Memory]) -> memoryview | None:
        """Return the memory that the next read of a large frame should fill, or None if the bytes
        of the next read should be passed to `feed`.

        `allocate` returns memory of the given size without writing to it, or None.
        """

    def commit(self, count: int) -> list[Item]:
        """Take `count` bytes that were read into the read buffer; return the frames that they
        complete. These are valid until the next read."""

    def release(self) -> None:
        """Free the memory that is kept for the next large frame."""

    def incomplete_head(self) -> bytes:
        """Return the first `HEAD_BYTES` bytes of the incomplete frame, as far as they have come. A
        framing whose frames cannot be recognised by them returns b""."""

    def end(self) -> Broken | None:
        """Handle the end of the stream. Return a Broken if it comes inside a frame, else None."""

    def wrap(self, payload: bytes) -> bytes:
        """Return the framed payload. Raises UsageError when the payload is too large."""

    def frame_parts(self, size: int) -> tuple[bytes, bytes]:
        """Return the bytes before and after a payload of this size.

        A caller that writes the three parts need not copy a large payload. Raises UsageError when
        the payload is too large.
        """
