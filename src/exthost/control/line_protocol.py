"""An asyncio protocol that reads lines into memory of its own.

A plain protocol gets each read in a new object of 256 KiB, which costs more than everything else
about a short line. Here all reads of a connection go into one buffer.
"""

import asyncio

from exthost.wire.framing import Item
from exthost.wire.lines import Lines

__all__ = ["LineProtocol"]

# As much as lies in the kernel's buffers of a local socket. Memory that no read has touched is only
# reserved.
_BUFFER_BYTES = 256 * 1024


class LineProtocol(asyncio.BufferedProtocol):
    """One connection. A subclass handles `lines_received`."""

    def __init__(self, max_line: int) -> None:
        self._framing = Lines(max_line)
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        items = self._framing.feed(bytes(self._buffer[:nbytes]))
        if items:
            self.lines_received(items)

    def lines_received(self, items: list[Item]) -> None:
        """Handle the lines that one read completed."""
        raise NotImplementedError
