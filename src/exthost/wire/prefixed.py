"""Length-prefixed framing: a big-endian 32-bit length, then a body of that many bytes.

The body `hello` is sent as `00 00 00 05 68 65 6c 6c 6f`. `framing` documents the methods. A length
of 0 is an empty frame. A length over the limit breaks the stream, because the framing then cannot
find the next frame. It is rejected before any memory is allocated for the body.
"""

from exthost.wire.framing import (
    EVIDENCE_BYTES,
    LARGE_READ_BYTES,
    READ_BYTES,
    Broken,
    Bytes,
    Item,
    NoReadBuffer,
)
from exthost.wire.lines import too_large_error

_PREFIX_BYTES = 4

# The extension has the same limit and checks the length as well. A higher limit in the host would
# therefore not help.
_SEND_LESS = "send less at a time: the extension has this limit, too, and would end the connection"


class Prefixed(NoReadBuffer):
    """Length-prefixed framing. `max_bytes` is the largest body that is accepted or sent."""

    __slots__ = ("_buffer", "_is_broken", "_length", "_max_bytes", "read_size")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._length: int | None = None  # None: inside the prefix
        self._buffer = bytearray()  # the bytes of the prefix or body that have come so far
        self._is_broken = False
        self.read_size = READ_BYTES

    def feed(self, data: Bytes) -> list[Item]:
        view = memoryview(data)
        items: list[Item] = []
        position = 0
        while not self._is_broken:
            needed = _PREFIX_BYTES if self._length is None else self._length
            part = view[position : position + needed - len(self._buffer)]
            self._buffer += part
            position += len(part)
            if len(self._buffer) < needed:  # `data` is used up
                break
            if self._length is None:
                self._read_length(items)
            else:
                items.append(self._buffer)
                self._length, self._buffer = None, bytearray()
                self.read_size = READ_BYTES
        return items

    def _read_length(self, items: list[Item]) -> None:
        """Read the complete prefix. If its length is over the limit, add a Broken to `items`."""
        length = int.from_bytes(self._buffer, "big")
        if length > self._max_bytes:
            self._is_broken = True
            reason = f"a length of {length:,} bytes is over the limit of {self._max_bytes:,}"
            # A common mistake: text that the extension prints is read as a length.
            if self._buffer.isascii() and self._buffer.decode().isprintable():
                text = self._buffer.decode()
                reason = f"{reason}; these bytes are the text {text!r}: was it printed to stdout?"
            items.append(Broken(reason, bytes(self._buffer)))
            return
        self._length = length
        self._buffer.clear()
        if length > READ_BYTES:
            self.read_size = LARGE_READ_BYTES

    def end(self) -> Broken | None:
        if self._is_broken or (self._length is None and not self._buffer):
            return None
        if self._length is None:
            reason = f"the output ended after {len(self._buffer)} of 4 bytes of a length"
        else:
            reason = f"the output ended after {len(self._buffer):,} of {self._length:,} bytes"
        return Broken(reason, bytes(self._buffer[:EVIDENCE_BYTES]))

    def wrap(self, payload: bytes) -> bytes:
        return self.frame_parts(len(payload))[0] + payload

    def frame_parts(self, size: int) -> tuple[bytes, bytes]:
        if size > self._max_bytes:
            raise too_large_error(size, self._max_bytes, _SEND_LESS)
        return size.to_bytes(_PREFIX_BYTES, "big"), b""
