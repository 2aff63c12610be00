"""Feeds bytes to a framing in pieces of any size, and collects what it returns."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from exthost.wire.framing import READ_BYTES, Broken, Framing, Item, Skipped


class Played(NamedTuple):
    """Everything that a framing returned for some bytes."""

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
        """Return what ended the framing, which must be the last item."""
        last = self.items[-1] if self.items else None
        return last if isinstance(last, Broken) else None


def play(framing: Framing, chunks: Iterable[bytes]) -> Played:
    """Feed the chunks one after another, then end the input."""
    items = [frozen(item) for chunk in chunks for item in framing.feed(chunk)]
    return Played(items, framing.end())


def whole(framing: Framing, data: bytes) -> Played:
    return play(framing, [data])


def frozen(item: Item) -> bytes | Skipped | Broken:
    """Return a frame as bytes, whichever type the framing uses for it."""
    assert type(item) in (bytes, bytearray, memoryview, Skipped, Broken), f"no item: {item!r}"
    return bytes(item) if isinstance(item, bytearray | memoryview) else item


def read_into(framing: Framing, chunks: Iterable[bytes], memory: type = bytearray) -> Played:
    """Do the same with a reader that reads large frames into the memory of the framing."""
    items: list[bytes | Skipped | Broken] = []
    for chunk in chunks:
        while chunk:
            space = framing.read_buffer(memory) if framing.read_size > READ_BYTES else None
            if space is None:
                got, chunk = framing.feed(chunk), b""
            else:
                part, chunk = chunk[: len(space)], chunk[len(space) :]
                space[: len(part)] = part
                got = framing.commit(len(part))
            items += [frozen(item) for item in got]
    return Played(items, framing.end())


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Return the data, cut at these offsets. A piece may be empty."""
    edges = [0, *sorted(min(at, len(data)) for at in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]
