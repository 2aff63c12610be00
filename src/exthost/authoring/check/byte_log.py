"""The last bytes that were sent to a process and received from it, for the report."""

from collections import deque
from typing import Literal, TypeAlias

from exthost.errors import escape_controls

Direction: TypeAlias = Literal[">", "<"]

# A piece is one read or one write. How many pieces are kept, how many of them a finding shows, and
# how many bytes of each piece it shows.
KEPT_PIECES = 12
SHOWN_PIECES = 6
SHOWN_BYTES = 240


class ByteLog:
    """The last pieces of a conversation. `>` marks pieces that were sent, `<` pieces that were
    received."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: deque[tuple[Direction, bytearray]] = deque(maxlen=KEPT_PIECES)

    def add(self, direction: Direction, data: bytes, *, joins: bool = False) -> None:
        """Add bytes that were sent or received. With `joins` they continue the previous piece, so
        that a message that is written byte by byte becomes one piece."""
        if joins and self._pieces and self._pieces[-1][0] == direction:
            last = self._pieces[-1][1]
            last += data[: max(0, 4 * SHOWN_BYTES - len(last))]
        else:
            self._pieces.append((direction, bytearray(data[: 4 * SHOWN_BYTES])))

    def clear(self) -> None:
        """Remove all pieces, so that findings show nothing before the next message."""
        self._pieces.clear()

    def format_last(self, offending: bytes = b"") -> tuple[str, ...]:
        """Return the last pieces as text, up to the received piece that contains the `offending`
        bytes; without such a piece, up to the end."""
        pieces = list(self._pieces)
        end = len(pieces)
        if offending:
            # A piece may end within the offending bytes, so only their beginning is searched for.
            head = offending[:60]
            for position in range(len(pieces) - 1, -1, -1):
                if pieces[position][0] == "<" and head in pieces[position][1]:
                    end = position + 1
                    break
        chosen = pieces[max(0, end - SHOWN_PIECES) : end]
        return tuple(f"{direction} {format_bytes(data)}" for direction, data in chosen)


def format_bytes(data: bytes | bytearray) -> str:
    """Return bytes as text in one line, shortened. Control characters, and bytes that are not
    UTF-8, are escaped."""
    shortened = bytes(data[:SHOWN_BYTES])
    text = shortened.decode("utf-8", "backslashreplace")
    text = text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")
    return escape_controls(text) + ("…" if len(data) > SHOWN_BYTES else "")
