"""What every framing does: bytes in, frames out; no clock, no I/O, and nothing decoded but what a
codec wants to decode in bulk.

The four outcomes are told apart and none of them raises:

- *need more bytes*: the list is empty;
- *garbage*: a `Skipped` (the framing goes on) or a `Broken` (it cannot; always the last item);
- *end between frames*: `end()` returns None;
- *end inside a frame*: `end()` returns a `Broken`.

Because garbage is an item in the list and not an exception, the frames before it in the same read
are never lost, and any chunking of the same bytes gives the same items.

**Cost.** Each byte is looked at once and copied once: small frames are cut out of what was read;
a frame that outgrows a read is gathered in one growing buffer, which itself becomes the frame.
Where a large frame is under way `wants` asks the reader for larger reads, and a framing that has a
`space` for them is read into directly. Where what comes are crumbs it asks for smaller ones, since
each is looked at and a read is one step of the host's loop.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview

# The pipe's own default size: larger reads cost an allocation each and return no more.
READ_BYTES = 64 * 1024

# What a framing wants that is inside a large frame: as much as there is.
LARGE_READ_BYTES = 1024 * 1024

# What it wants while it is fed crumbs: 64 KiB of them held the loop for a third of a second.
CRUMBS_READ_BYTES = 4 * 1024

# No message of any dialect is shorter; noise, and an attack, can be.
SHORTEST_MESSAGE_BYTES = 8

# Enough to show a person, or to find an id in; a hostile child decides how much there is.
EVIDENCE_BYTES = 4096


class Skipped(NamedTuple):
    """Bytes that were passed over. `head` is how they began, `size` how many there were; of what is
    too long, how many it took to know that."""

    why: Literal["too long", "not a frame"]
    head: bytes
    size: int


class Broken(NamedTuple):
    """The stream cannot be read any further. `head` shows the bytes that did it."""

    why: str
    head: bytes


Item: TypeAlias = bytes | bytearray | memoryview | Skipped | Broken

Bulk: TypeAlias = Callable[[bytes], list[Any] | None]
"""What makes messages of whole lines at once; None: it would rather have them as frames."""

# A bytearray, or what has its `find` and its slices: an anonymous map, for example.
Memory: TypeAlias = Any


class Unspacious:
    """A framing that is always fed."""

    __slots__ = ()

    def space(self, allocate: Callable[[int], Memory]) -> memoryview | None:
        return None

    def filled(self, count: int) -> list[Item]:
        raise AssertionError("there was no space to be filled")

    def rest(self) -> None:
        pass


def read_after(size: int, pieces: int) -> int:
    """How much to read after a read of so many bytes that fell into so many pieces."""
    crumbs = size >= CRUMBS_READ_BYTES and pieces * SHORTEST_MESSAGE_BYTES > size
    return CRUMBS_READ_BYTES if crumbs else READ_BYTES


class Framing(Protocol):
    """One direction's reader, and the writer's two halves."""

    wants: int
    """How many bytes the next read may bring."""

    def feed(self, data: Bytes, bulk: Bulk | None = None) -> list[Item]:
        """Take what was read, return what is complete: frames, or messages where `bulk` made them
        of frames already."""

    def space(self, allocate: Callable[[int], Memory]) -> memoryview | None:
        """Where the next read of a large frame goes, if it is to go to a place; `filled` follows.
        `allocate` gives memory of this size, if it can, without touching it."""

    def filled(self, count: int) -> list[Item]:
        """So many bytes were read into the space. What is complete is good until the next read."""

    def rest(self) -> None:
        """Keep no memory for a next large frame."""

    def end(self) -> Broken | None:
        """No more bytes will come."""

    def wrap(self, payload: bytes) -> bytes:
        """The frame of a payload. Raises UsageError when that is too large."""

    def join(self, payloads: list[bytes]) -> bytes:
        """The frames of several payloads that are each known to be small enough."""

    def around(self, size: int) -> tuple[bytes, bytes]:
        """What goes before and after a payload of this size: for one too large to be copied into
        its frame. Raises UsageError when it is too large."""
