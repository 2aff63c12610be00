r"""Helpers of the tests of framings: feed bytes in pieces of any size, and collect the output.

A framing cuts a stream of bytes into frames, each of which is one message; here a frame is a line:

    output = feed_all(Lines(100), b"{}\n[]\n")
    assert output == FramingOutput([b"{}", b"[]"], None)
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from exthost.wire.framing import READ_BYTES, Broken, Framing, Item, Skipped


class FramingOutput(NamedTuple):
    """The items that a framing returned for some bytes, and the error at the end of the input."""

    items: list[bytes | Skipped | Broken]
    end: Broken | None

    @property
    def frames(self) -> list[bytes]:
        return [item for item in self.items if isinstance(item, bytes)]

    @property
    def skipped(self) -> list[Skipped]:
        return [item for item in self.items if isinstance(item, Skipped)]

    @property
    def broken(self) -> Broken | None:
        """The error that ended the framing, which must be the last item."""
        last = self.items[-1] if self.items else None
        return last if isinstance(last, Broken) else None


def feed_chunks(framing: Framing, chunks: Iterable[bytes]) -> FramingOutput:
    """Feed the chunks one after another, then end the input."""
    items = [to_bytes(item) for chunk in chunks for item in framing.feed(chunk)]
    return FramingOutput(items, framing.end())


def feed_all(framing: Framing, data: bytes) -> FramingOutput:
    """Feed all bytes at once, then end the input."""
    return feed_chunks(framing, [data])


def to_bytes(item: Item) -> bytes | Skipped | Broken:
    """Return a frame as bytes, whichever type the framing uses for it."""
    assert type(item) in (bytes, bytearray, memoryview, Skipped, Broken), f"{item!r} is not an item"
    return bytes(item) if isinstance(item, bytearray | memoryview) else item


def feed_through_read_buffer(
    framing: Framing, chunks: Iterable[bytes], memory: type = bytearray
) -> FramingOutput:
    """Feed the chunks as a reader does that reads large frames into the buffer of the framing."""
    items: list[bytes | Skipped | Broken] = []
    for chunk in chunks:
        while chunk:
            space = framing.read_buffer(memory) if framing.read_size > READ_BYTES else None
            if space is None:
                output, chunk = framing.feed(chunk), b""
            else:
                part, chunk = chunk[: len(space)], chunk[len(space) :]
                space[: len(part)] = part
                output = framing.commit(len(part))
            items += [to_bytes(item) for item in output]
    return FramingOutput(items, framing.end())


def split_into_bytes(data: bytes) -> list[bytes]:
    return [data[n : n + 1] for n in range(len(data))]


def split_at(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Return the data, split at these offsets. A piece may be empty."""
    offsets = [0, *sorted(min(offset, len(data)) for offset in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(offsets)]
