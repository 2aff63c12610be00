"""An asyncio protocol that reads lines into memory of its own.

A plain protocol gets each read in a new object of 256 KiB, which costs more than everything else
about a short line. Here all reads of a process go into one buffer.
"""

import asyncio

from exthost.wire.framing import READ_BYTES, Item
from exthost.wire.lines import Lines

__all__ = ["LineProtocol"]

# Of all connections: what was read is copied before the next read.
_BUFFER = memoryview(bytearray(READ_BYTES))


class LineProtocol(asyncio.BufferedProtocol):
    """One connection. A subclass handles `lines_received`."""

    def __init__(self, max_line: int) -> None:
        self._framing = Lines(max_line)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        items = self._framing.feed(bytes(_BUFFER[:nbytes]))
        if items:
            self.lines_received(items)

    def lines_received(self, items: list[Item]) -> None:
        """Handle the lines that one read completed."""
        raise NotImplementedError
