"""What every framing does: bytes in, frames out; no clock, no I/O, nothing decoded.

The four outcomes are told apart and none of them raises:

- *need more bytes*: the list is empty;
- *garbage*: a `Skipped` (the framing goes on) or a `Broken` (it cannot; always the last item);
- *end between frames*: `end()` returns None;
- *end inside a frame*: `end()` returns a `Broken`.

Because garbage is an item in the list and not an exception, the frames before it in the same read
are never lost, and any chunking of the same bytes gives the same items.

**Small and large frames.** Small ones come through `feed`, cut out of what was read. Once a frame
outgrows a read, `space` hands out the framing's own buffer, so that the reader can read straight
into it and report with `filled`; the finished buffer itself becomes the frame, uncopied. A frame
is therefore bytes, bytearray or memoryview, and good until the next `feed`, `space` or `filled`.
"""

from typing import Literal, NamedTuple, Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview

# Enough to show a person, or to find an id in; a hostile child decides how much there is.
EVIDENCE_BYTES = 4096


class Skipped(NamedTuple):
    """Bytes that were passed over. `head` is how they began, `size` how many there were."""

    why: Literal["too long", "not a frame"]
    head: bytes
    size: int


class Broken(NamedTuple):
    """The stream cannot be read any further. `head` shows the bytes that did it."""

    why: str
    head: bytes


Item: TypeAlias = Bytes | Skipped | Broken


class Framing(Protocol):
    """One direction's reader, and the writer's two halves."""

    def feed(self, data: bytes) -> list[Item]:
        """Take what was read, return what is complete."""

    def space(self) -> memoryview | None:
        """Where to read the next bytes of a large frame, or None: use `feed`."""

    def filled(self, count: int) -> list[Item]:
        """So many bytes were read into `space()`."""

    def end(self) -> Broken | None:
        """No more bytes will come."""

    def head(self, size: int) -> bytes:
        """What goes before a payload of this size."""

    tail: bytes
