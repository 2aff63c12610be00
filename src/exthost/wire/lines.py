"""A frame is a line: everything up to `\\n`. Blank lines are no frames.

Survives what children really print: a byte-order mark at the very beginning, `\\r\\n`, blank lines,
stray text (which comes out as a frame; the codec calls it noise). A line longer than the cap is
let go up to its newline, in flat memory, and reported as one `Skipped` with how it began.
"""

from exthost.errors import UsageError
from exthost.wire.framing import (
    EVIDENCE_BYTES,
    LARGE_READ_BYTES,
    READ_BYTES,
    Broken,
    Bytes,
    Item,
    Skipped,
)

BOM = b"\xef\xbb\xbf"


class Lines:
    """Line framing with a cap on the bytes before the newline."""

    __slots__ = ("_cap", "_fresh", "_open", "_skipped", "_skipped_head", "wants")

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._fresh = True  # nothing seen yet: a byte-order mark may still come
        self._open: bytearray | None = None  # a line begun in an earlier read
        self._skipped = 0  # bytes of an over-long line let go so far
        self._skipped_head = b""
        self.wants = READ_BYTES

    def feed(self, data: Bytes) -> list[Item]:
        if type(data) is not bytes:
            return self._feed_large(data)
        parts = data.split(b"\n")
        rest = parts.pop()
        if self._fresh or self._skipped or self._open is not None or len(data) > self._cap:
            items = self._finish_each(parts)
        else:  # the way of nearly every read: whole lines, and no room for one that is too long
            items = [part for part in parts if part and not part.isspace()]
        if rest:
            self._begin(rest)
        return items

    def _feed_large(self, data: Bytes) -> list[Item]:
        """The same for what was read inside a long line: one copy, one search of it."""
        if self._open is None:
            return self.feed(bytes(data))
        searched = len(self._open)
        self._open += data
        newline = self._open.find(b"\n", searched)
        if newline < 0:
            self._begin(b"")
            return []
        rest = bytes(self._open[newline + 1 :])
        del self._open[newline:]
        line = self._finish(b"")
        items = self.feed(rest) if rest else []
        return items if line is None else [line, *items]

    def _finish_each(self, parts: list[bytes]) -> list[Item]:
        return [item for part in parts if (item := self._finish(part)) is not None]

    def _finish(self, part: bytes) -> Item | None:
        """The line that `part` ends, unless it is blank."""
        if self._open is not None or self._skipped:
            self._begin(part)
            if self._skipped:
                item: Item = Skipped("too long", self._skipped_head, self._skipped)
                self._skipped, self._skipped_head = 0, b""
                return item
            line: bytes | bytearray | None = self._open
            self._open = None
            self.wants = READ_BYTES
        else:
            line = part
        assert line is not None
        fresh, self._fresh = self._fresh, False
        if len(line) > self._cap:
            return Skipped("too long", bytes(line[:EVIDENCE_BYTES]), len(line))
        if fresh:
            line = line.removeprefix(BOM)
        return line if line and not line.isspace() else None

    def _begin(self, part: bytes) -> None:
        """Keep the part of a line whose end has not come yet; let it go once it is too long."""
        if self._skipped:
            self._skipped += len(part)
            wanting = EVIDENCE_BYTES - len(self._skipped_head)
            if wanting > 0:  # only under a cap that is smaller still
                self._skipped_head += part[:wanting]
            return
        if self._open is None:
            self._open = bytearray(part)
        else:
            self._open += part
        if len(self._open) > self._cap:
            self._skipped = len(self._open)
            self._skipped_head = bytes(self._open[:EVIDENCE_BYTES])
            self._open = None
            self._fresh = False
            self.wants = READ_BYTES
        elif len(self._open) >= READ_BYTES:
            self.wants = LARGE_READ_BYTES

    def end(self) -> Broken | None:
        if self._skipped:
            return Broken("the output ended inside an over-long line", self._skipped_head)
        if self._open is None:
            return None
        begun = self._open.removeprefix(BOM) if self._fresh else self._open
        if not begun or begun.isspace():
            return None
        return Broken("the output ended inside a line", bytes(begun[:EVIDENCE_BYTES]))

    def wrap(self, payload: bytes) -> bytes:
        if len(payload) > self._cap:
            raise too_large(len(payload), self._cap)
        return payload + b"\n"

    def join(self, payloads: list[bytes]) -> bytes:
        return b"\n".join([*payloads, b""])

    def around(self, size: int) -> tuple[bytes, bytes]:
        if size > self._cap:
            raise too_large(size, self._cap)
        return b"", b"\n"


def too_large(size: int, cap: int) -> UsageError:
    """What the caller is told who asks for a message beyond the cap; nothing was written."""
    return UsageError(
        "X1303",
        f"this message is {size:,} bytes long, over the limit of {cap:,}",
        help="send less at a time, or raise limits.max_message for this extension",
    )
