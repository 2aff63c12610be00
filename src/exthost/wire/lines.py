"""Line framing: a frame is one line without its `\\n`. Blank lines are ignored.

The bytes `{"id": 1}\\n\\n{"id": 2}\\n` are the frames `{"id": 1}` and `{"id": 2}`. `framing`
documents the methods.

Accepts what real extensions print: a byte-order mark at the beginning, `\\r\\n`, blank lines and
text that is not a message. Such text becomes a frame; the codec then reports it as `Noise`. A line
that is longer than the limit is reported as one `Skipped` as soon as that is known, and discarded
up to its newline.

An incomplete line is kept in `_partial_line`, until it is large. The caller then reads directly
into `read_buffer`, and the line is kept there.
"""

from collections.abc import Callable

from exthost.errors import UsageError
from exthost.wire.framing import (
    EVIDENCE_BYTES,
    HEAD_BYTES,
    LARGE_READ_BYTES,
    READ_BYTES,
    Broken,
    Bytes,
    Item,
    Memory,
    Skipped,
    next_read_size,
)

# The largest byte that is white space: a line that begins with a larger byte is not blank.
_LAST_WHITE_SPACE = ord(" ")

# The byte-order mark in UTF-8. Some programs for Windows write it at the beginning.
BOM = b"\xef\xbb\xbf"


class Lines:
    """Line framing. `max_bytes` is the limit for the bytes of a line before its newline."""

    __slots__ = (
        "_discard_bytes",
        "_is_first_line",
        "_max_bytes",
        "_memory",
        "_partial_line",
        "_used",
        "is_discarding",
        "read_size",
    )

    suffix = b"\n"

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # A line is discarded when it has this many bytes: it is then too long, and its beginning is
        # long enough to be reported.
        self._discard_bytes = max(max_bytes + 1, EVIDENCE_BYTES)
        self._is_first_line = True  # only the first line may begin with a byte-order mark
        # The beginning of an incomplete line; None between lines.
        self._partial_line: bytearray | None = None
        self.is_discarding = False  # inside an over-long line that has been reported
        self._memory: Memory = None  # the read buffer for long lines; None until one comes
        self._used = 0  # bytes of an incomplete line in the read buffer; 0 if there is none
        self.read_size = READ_BYTES

    @property
    def is_at_line_start(self) -> bool:
        is_midway = self._partial_line is not None or self.is_discarding or self._used > 0
        return not (is_midway or self._is_first_line)

    def feed(self, data: Bytes) -> list[Item]:
        if type(data) is not bytes:
            return self._feed_large(data)
        # Whether `data` begins inside a line, or with the very first line, which may have a BOM.
        is_midway = self._partial_line is not None or self.is_discarding or self._is_first_line
        last = len(data) - 1
        if (
            not is_midway
            and 0 < last <= self._max_bytes
            and data.find(b"\n") == last
            and data[0] > _LAST_WHITE_SPACE
        ):
            return [data[:last]]  # one whole line: the common case of a single reply
        items: list[Item] = []
        begin, end = 0, data.rfind(b"\n") + 1
        if is_midway and end:
            begin = data.find(b"\n") + 1
            self._add_part(data[: begin - 1], items)
            self._complete_line(items)
        if begin < end:
            items += self._split_lines(data[begin:end])
        self.read_size = next_read_size(len(data), len(items))
        if end <= last:
            self._add_part(data[end:], items)
        return items

    def _split_lines(self, lines: bytes) -> list[Item]:
        """Return the frames of these complete lines."""
        if len(lines) <= self._max_bytes:  # true for nearly every read: no line can be too long
            # A line that sorts after b"!" does not begin with white space, so it is not blank. Few
            # lines need the second check. The empty part after the last newline is left out, too.
            parts = lines.split(b"\n")
            return [part for part in parts if part > b"!" or (part and not part.isspace())]
        items: list[Item] = []
        for part in lines.split(b"\n")[:-1]:
            self._add_part(part, items)
            self._complete_line(items)
        return items

    def _feed_large(self, data: Bytes) -> list[Item]:
        """Do the same as `feed` for a read inside a long line: copy and search its bytes once."""
        if self._partial_line is None:
            return self.feed(bytes(data))
        searched_bytes = len(self._partial_line)
        self._partial_line += data
        newline = self._partial_line.find(b"\n", searched_bytes)
        items: list[Item] = []
        if newline < 0:
            self._add_part(b"", items)  # only checks whether the line is too long
            return items
        rest = bytes(self._partial_line[newline + 1 :])
        del self._partial_line[newline:]
        self._add_part(b"", items)
        self._complete_line(items)
        return [*items, *self.feed(rest)] if rest else items

    def read_buffer(self, allocate: Callable[[int], Memory]) -> memoryview | None:
        if self._memory is None:
            self._memory = allocate(self._discard_bytes + LARGE_READ_BYTES)
            if self._memory is None:
                return None
        if self._partial_line is not None:
            self._used = len(self._partial_line)
            self._memory[: self._used] = self._partial_line
            self._partial_line = None
        return memoryview(self._memory)[self._used : self._used + LARGE_READ_BYTES]

    def commit(self, count: int) -> list[Item]:
        used = self._used + count
        newline: int = self._memory.find(b"\n", self._used, used)
        if newline < 0 and used < self._discard_bytes:
            self._used = used
            return []
        # The line is complete, or it is too long.
        self._used = 0
        self.read_size = READ_BYTES
        if newline < 0 or newline > self._max_bytes:
            return self._discard_line(newline, used)
        line = memoryview(self._memory)[:newline]
        rest = bytes(self._memory[newline + 1 : used])
        if self._is_first_line and line[:3] == BOM:
            line = line[3:]
        self._is_first_line = False
        # The buffer is read into only after the beginning of a long line, so `line` is not empty.
        is_blank = line[0] <= _LAST_WHITE_SPACE and bytes(line).isspace()
        return [*([] if is_blank else [line]), *(self.feed(rest) if rest else [])]

    def _discard_line(self, newline: int, used: int) -> list[Item]:
        """Report the over-long line in the read buffer, discard it, and continue after it.

        `newline` is the index of its end, or negative if that has not come. `used` is the number of
        bytes in the buffer.
        """
        # The same size as `_add_part` reports, however the line was cut into reads.
        size = self._discard_bytes if newline < 0 or newline > self._discard_bytes else newline
        head = bytes(self._memory[: min(size, EVIDENCE_BYTES)])
        rest = bytes(self._memory[newline + 1 : used]) if newline >= 0 else b""
        self.release()
        self._is_first_line = False
        self.is_discarding = newline < 0
        return [Skipped("too long", head, size), *(self.feed(rest) if rest else [])]

    def release(self) -> None:
        if not self._used:
            self._memory = None

    def incomplete_head(self) -> bytes:
        return bytes((self._memory if self._used else self._partial_line or b"")[:HEAD_BYTES])

    def _add_part(self, part: bytes, items: list[Item]) -> None:
        """Add a part to the incomplete line.

        A line is reported and discarded as soon as it is too long, not at its newline: the
        newline may never come, and the call that waits for the line must fail.
        """
        if self.is_discarding:
            return
        if self._partial_line is None:
            self._partial_line = bytearray(part)
        else:
            self._partial_line += part
        if len(self._partial_line) >= self._discard_bytes:
            items.append(
                Skipped("too long", bytes(self._partial_line[:EVIDENCE_BYTES]), self._discard_bytes)
            )
            self._partial_line = None
            self.is_discarding = True
            self._is_first_line = False
            self.read_size = READ_BYTES
        elif len(self._partial_line) >= READ_BYTES:
            self.read_size = LARGE_READ_BYTES

    def _complete_line(self, items: list[Item]) -> None:
        """Complete the line, because its newline has come."""
        line, self._partial_line = self._partial_line, None
        self.is_discarding = False
        self.read_size = READ_BYTES
        if line is None:
            return
        is_first_line, self._is_first_line = self._is_first_line, False
        if len(line) > self._max_bytes:
            items.append(Skipped("too long", bytes(line), len(line)))
            return
        if is_first_line:
            line = line.removeprefix(BOM)
        if line and not line.isspace():
            items.append(line)

    def end(self) -> Broken | None:
        if self.is_discarding:
            return Broken("the output ended inside an over-long line", b"")
        if self._used:
            self._partial_line, self._used = bytearray(self._memory[: self._used]), 0
        if self._partial_line is None:
            return None
        if len(self._partial_line) > self._max_bytes:
            return Broken("the output ended inside an over-long line", bytes(self._partial_line))
        line = self._partial_line.removeprefix(BOM) if self._is_first_line else self._partial_line
        if not line or line.isspace():
            return None
        return Broken("the output ended inside a line", bytes(line[:EVIDENCE_BYTES]))

    def wrap(self, payload: bytes) -> bytes:
        if len(payload) > self._max_bytes:
            raise too_large_error(len(payload), self._max_bytes)
        return payload + b"\n"

    def frame_parts(self, size: int) -> tuple[bytes, bytes]:
        if size > self._max_bytes:
            raise too_large_error(size, self._max_bytes)
        return b"", b"\n"


def too_large_error(
    size: int,
    max_bytes: int,
    help: str = "send less at a time, or raise limits.max_message for this extension",
) -> UsageError:
    """Return the error for a message that is over the limit, of which nothing was written."""
    return UsageError(
        "X1303",
        f"this message is {size:,} bytes long, over the limit of {max_bytes:,}",
        help=help,
    )
