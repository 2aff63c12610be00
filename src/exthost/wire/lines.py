"""Line framing: a frame is one line without its `\\n`. Blank lines are ignored.

Accepts what real children print: a byte-order mark at the beginning, `\\r\\n`, blank lines and
stray text. Stray text becomes a frame; the codec reports it as noise. A line over the cap is
reported as one `Skipped` as soon as it exceeds the cap, and discarded up to its newline.
"""

from collections.abc import Callable

from exthost.errors import UsageError
from exthost.wire.framing import (
    EVIDENCE_BYTES,
    LARGE_READ_BYTES,
    READ_BYTES,
    Broken,
    Bytes,
    Item,
    Memory,
    Skipped,
    next_read_size,
)

_BLANK = ord(" ")  # the largest byte that is white space
BOM = b"\xef\xbb\xbf"


class Lines:
    """Line framing with a cap on the bytes before the newline."""

    __slots__ = (
        "_cap",
        "_discarding",
        "_enough",
        "_fresh",
        "_memory",
        "_open",
        "_used",
        "read_size",
    )

    suffix = b"\n"

    def __init__(self, cap: int) -> None:
        self._cap = cap
        # This many bytes show that a line is too long, and are enough to report its beginning.
        self._enough = max(cap + 1, EVIDENCE_BYTES)
        self._fresh = True  # no byte has come yet: a byte-order mark is possible
        # The beginning of an incomplete line; None between lines
        self._open: bytearray | None = None
        self._discarding = False  # inside an over-long line that has been reported
        self._memory: Memory = None  # the read buffer for a long line
        self._used = 0  # bytes of it in use; not 0: it holds the incomplete line
        self.read_size = READ_BYTES

    def feed(self, data: Bytes) -> list[Item]:
        if type(data) is not bytes:
            return self._feed_large(data)
        midway = self._open is not None or self._discarding or self._fresh
        last = len(data) - 1
        if not midway and 0 < last <= self._cap and data.find(b"\n") == last and data[0] > _BLANK:
            return [data[:last]]  # one whole line: the common case of a single reply
        items: list[Item] = []
        begin, end = 0, data.rfind(b"\n") + 1
        if midway and end:
            begin = data.find(b"\n") + 1
            self._take(data[: begin - 1], items)
            self._close(items)
        if begin < end:
            items += self._lines(data[begin:end])
        self.read_size = next_read_size(len(data), len(items))
        if end <= last:
            self._take(data[end:], items)
        return items

    def _lines(self, lines: bytes) -> list[Item]:
        """Return the frames in these whole lines."""
        if len(lines) <= self._cap:  # nearly every read: no line can be over-long
            # A line whose first byte is above white space is not blank: most need no second check.
            parts = lines.split(b"\n")
            return [part for part in parts if part > b"!" or (part and not part.isspace())]
        items: list[Item] = []
        for part in lines.split(b"\n")[:-1]:
            self._take(part, items)
            self._close(items)
        return items

    def _feed_large(self, data: Bytes) -> list[Item]:
        """Do the same for bytes read inside a long line, with one copy and one search."""
        if self._open is None:
            return self.feed(bytes(data))
        searched = len(self._open)
        self._open += data
        newline = self._open.find(b"\n", searched)
        items: list[Item] = []
        if newline < 0:
            self._take(b"", items)
            return items
        rest = bytes(self._open[newline + 1 :])
        del self._open[newline:]
        self._take(b"", items)
        self._close(items)
        return [*items, *self.feed(rest)] if rest else items

    def read_buffer(self, allocate: Callable[[int], Memory]) -> memoryview | None:
        if self._memory is None:
            self._memory = allocate(self._enough + LARGE_READ_BYTES)
            if self._memory is None:
                return None
        if self._open is not None:
            self._used = len(self._open)
            self._memory[: self._used] = self._open
            self._open = None
        return memoryview(self._memory)[self._used : self._used + LARGE_READ_BYTES]

    def commit(self, count: int) -> list[Item]:
        begun, used = self._used, self._used + count
        newline: int = self._memory.find(b"\n", begun, used)
        if newline < 0 and used < self._enough:
            self._used = used
            return []
        self._used = 0
        self.read_size = READ_BYTES
        if newline < 0 or newline > self._cap:
            return self._discard(newline, used)
        line = memoryview(self._memory)[:newline]
        rest = bytes(self._memory[newline + 1 : used])
        if self._fresh and line[:3] == BOM:
            line = line[3:]
        self._fresh = False
        blank = line[0] <= _BLANK and bytes(line).isspace()
        return [*([] if blank else [line]), *(self.feed(rest) if rest else [])]

    def _discard(self, newline: int, used: int) -> list[Item]:
        """Report the over-long line in the read buffer, discard it, and continue after it."""
        size = self._enough if newline < 0 or newline > self._enough else newline
        head = bytes(self._memory[: min(size, EVIDENCE_BYTES)])
        rest = bytes(self._memory[newline + 1 : used]) if newline >= 0 else b""
        self.release()
        self._fresh = False
        self._discarding = newline < 0
        return [Skipped("too long", head, size), *(self.feed(rest) if rest else [])]

    def release(self) -> None:
        if not self._used:
            self._memory = None

    def _take(self, part: bytes, items: list[Item]) -> None:
        """Add a part to the incomplete line.

        A line is reported and discarded as soon as it is too long. Its newline may never come, and
        a call that waits for the line must fail now.
        """
        if self._discarding:
            return
        if self._open is None:
            self._open = bytearray(part)
        else:
            self._open += part
        if len(self._open) >= self._enough:
            items.append(Skipped("too long", bytes(self._open[:EVIDENCE_BYTES]), self._enough))
            self._open = None
            self._discarding = True
            self._fresh = False
            self.read_size = READ_BYTES
        elif len(self._open) >= READ_BYTES:
            self.read_size = LARGE_READ_BYTES

    def _close(self, items: list[Item]) -> None:
        """Complete the line: its newline has come."""
        line, self._open = self._open, None
        self._discarding = False
        self.read_size = READ_BYTES
        if line is None:
            return
        fresh, self._fresh = self._fresh, False
        if len(line) > self._cap:
            items.append(Skipped("too long", bytes(line), len(line)))
            return
        if fresh:
            line = line.removeprefix(BOM)
        if line and not line.isspace():
            items.append(line)

    def end(self) -> Broken | None:
        if self._discarding:
            return Broken("the output ended inside an over-long line", b"")
        if self._used:
            self._open, self._used = bytearray(self._memory[: self._used]), 0
        if self._open is None:
            return None
        if len(self._open) > self._cap:
            return Broken("the output ended inside an over-long line", bytes(self._open))
        begun = self._open.removeprefix(BOM) if self._fresh else self._open
        if not begun or begun.isspace():
            return None
        return Broken("the output ended inside a line", bytes(begun[:EVIDENCE_BYTES]))

    def wrap(self, payload: bytes) -> bytes:
        if len(payload) > self._cap:
            raise too_large_error(len(payload), self._cap)
        return payload + b"\n"

    def frame_parts(self, size: int) -> tuple[bytes, bytes]:
        if size > self._cap:
            raise too_large_error(size, self._cap)
        return b"", b"\n"


def too_large_error(
    size: int,
    cap: int,
    help: str = "send less at a time, or raise limits.max_message for this extension",
) -> UsageError:
    """Return the error for a message over the cap, of which nothing was written."""
    return UsageError(
        "X1303",
        f"this message is {size:,} bytes long, over the limit of {cap:,}",
        help=help,
    )
