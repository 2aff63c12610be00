"""Content-Length framing: header lines, a blank line, and a body of Content-Length bytes.

The message `{"id": 1}` is sent as

    Content-Length: 9\\r\\n
    \\r\\n
    {"id": 1}

`framing` documents the methods. Header names are trimmed and their case does not matter. Unknown
headers are ignored. Of several Content-Length headers the last is used; its value must be ASCII
digits only, after at most one plus sign, which the original host of this framing accepts. A line
without a colon is not a header and is reported as `Skipped`. Before the first frame, blank lines
and a byte-order mark are ignored.

Any other mistake breaks the stream, because the framing then cannot find the next frame.
"""

from exthost.wire.framing import (
    EVIDENCE_BYTES,
    HEAD_BYTES,
    LARGE_READ_BYTES,
    READ_BYTES,
    Broken,
    Bytes,
    Item,
    NoReadBuffer,
    Skipped,
    next_read_size,
)
from exthost.wire.lines import BOM

# The largest length of a header line, including its line end.
HEADER_LINE_BYTES = 1024

# How much of a wrong header line the error shows.
_SHOWN_BYTES = 80

# The largest number of digits: more than any allowed length has, and cheap for int().
_LENGTH_DIGITS = 12


class Headers(NoReadBuffer):
    """Content-Length framing. `max_bytes` is the largest body that is accepted from the extension.
    What the host sends has no limit."""

    __slots__ = (
        "_body",
        "_is_broken",
        "_is_first",
        "_length",
        "_line",
        "_max_bytes",
        "_seen_header",
        "read_size",
    )

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._is_first = True  # no frame has been completed yet
        self._line = bytearray()  # the beginning of an incomplete header line
        self._seen_header = False  # a line with a colon has come since the last frame
        self._length: int | None = None  # Content-Length; None until that header has come
        self._body: bytearray | None = None  # not None: inside a body
        self._is_broken = False
        self.read_size = READ_BYTES

    def feed(self, data: Bytes) -> list[Item]:
        data = bytes(data)  # bytes(data) does not copy if data is bytes
        view = memoryview(data)
        items: list[Item] = []
        position = 0
        while position < len(view) and not self._is_broken:
            if self._body is None:
                position = self._read_header(data, position, items)
            else:
                position = self._read_body(view, position, items)
        if self._body is None:
            self.read_size = next_read_size(len(view), len(items))
        return items

    def _read_header(self, data: bytes, start: int, items: list[Item]) -> int:
        """Read a header line, or the part of it in `data`, from the index `start`. Return the index
        after it."""
        allowed_bytes = HEADER_LINE_BYTES - len(self._line)
        newline = data.find(b"\n", start, start + allowed_bytes)
        if newline < 0:
            part = data[start : start + allowed_bytes]
            self._line += part
            if len(part) == allowed_bytes:
                self._break(items, "a header line is longer than 1024 bytes", bytes(self._line))
            return start + len(part)
        line = bytes(self._line) + data[start:newline]
        self._line.clear()
        self._handle_line(line.removesuffix(b"\r"), items)
        return newline + 1

    def _handle_line(self, line: bytes, items: list[Item]) -> None:
        if self._is_first:
            line = line.removeprefix(BOM)
        if not line.strip():
            self._end_headers(items)
            return
        name, colon, value = line.partition(b":")
        if not colon:
            items.append(Skipped("not a frame", line, len(line)))
            return
        self._seen_header = True
        if name.strip().lower() != b"content-length":
            return
        digits = value.strip().removeprefix(b"+")
        if not (digits.isdigit() and len(digits) <= _LENGTH_DIGITS):
            # The mark shows that the line was cut. Without it, a part of a secret is not hidden.
            shown = line if len(line) <= _SHOWN_BYTES else line[:_SHOWN_BYTES] + "…".encode()
            text = shown.decode("utf-8", "backslashreplace")
            self._break(items, f"Content-Length is not a plain number: {text!r}", line)
            return
        self._length = int(digits)

    def _end_headers(self, items: list[Item]) -> None:
        """Handle the blank line after the headers: the body follows."""
        if self._length is None:
            if self._is_first and not self._seen_header:  # a blank line before the first frame
                return
            self._break(items, "the headers have no Content-Length", b"")
            return
        if self._length > self._max_bytes:
            reason = f"Content-Length {self._length:,} is over the limit of {self._max_bytes:,}"
            self._break(items, reason, b"")
            return
        self._body = bytearray()
        if self._length == 0:
            self._complete_frame(items)
        elif self._length > READ_BYTES:
            self.read_size = LARGE_READ_BYTES

    def _read_body(self, view: memoryview, start: int, items: list[Item]) -> int:
        """Read the body, or the part of it in `view`, from the index `start`. Return the index
        after it."""
        assert self._body is not None and self._length is not None
        part = view[start : start + self._length - len(self._body)]
        self._body += part
        if len(self._body) == self._length:
            self._complete_frame(items)
        return start + len(part)

    def _complete_frame(self, items: list[Item]) -> None:
        assert self._body is not None
        items.append(self._body)
        self._body = self._length = None
        self._is_first = self._seen_header = False
        self.read_size = READ_BYTES

    def _break(self, items: list[Item], reason: str, head: bytes) -> None:
        self._is_broken = True
        items.append(Broken(reason, head[:EVIDENCE_BYTES]))

    def incomplete_head(self) -> bytes:
        return bytes((self._body or b"")[:HEAD_BYTES])

    def end(self) -> Broken | None:
        if self._is_broken:
            return None  # `feed` has reported it
        if self._body is not None:
            reason = (
                f"the output ended after {len(self._body):,} of {self._length:,} bytes of a body"
            )
            return Broken(reason, bytes(self._body[:EVIDENCE_BYTES]))
        if self._line or self._seen_header:
            return Broken("the output ended inside the headers", bytes(self._line))
        return None

    def wrap(self, payload: bytes) -> bytes:
        return self.frame_parts(len(payload))[0] + payload

    def frame_parts(self, size: int) -> tuple[bytes, bytes]:
        return b"Content-Length: %d\r\n\r\n" % size, b""
