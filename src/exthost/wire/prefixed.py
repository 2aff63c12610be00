"""Length-prefixed framing: a big-endian 32-bit length, then a body of that many bytes.

A length of 0 is an empty frame. A length over the limit breaks the stream, because the framing then
cannot find the next frame. It is rejected before any memory is allocated for the body.
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

    __slots__ = ("_broken", "_buffer", "_length", "_max_bytes", "read_size")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._length: int | None = None  # None: inside the prefix
        self._buffer = bytearray()  # what has come of the prefix, or of the body
        self._broken = False
        self.read_size = READ_BYTES

    def feed(self, data: Bytes) -> list[Item]:
        view = memoryview(data)
        items: list[Item] = []
        at = 0
        while not self._broken:
            needed = _PREFIX_BYTES if self._length is None else self._length
            part = view[at : at + needed - len(self._buffer)]
            self._buffer += part
            at += len(part)
            if len(self._buffer) < needed:
                break
            if self._length is None:
                self._read_length(items)
            else:
                items.append(self._buffer)
                self._length, self._buffer = None, bytearray()
                self.read_size = READ_BYTES
        return items

    def _read_length(self, items: list[Item]) -> None:
        length = int.from_bytes(self._buffer, "big")
        if length > self._max_bytes:
            self._broken = True
            reason = f"a length of {length:,} bytes is over the limit of {self._max_bytes:,}"
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
        if self._broken or (self._length is None and not self._buffer):
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
