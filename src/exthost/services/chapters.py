"""The texts of many records in one piece, so that words are found without reading every record.

Row by row a million records take seconds. So the text of each thousand or so is kept a second time,
in lower case, in one piece: a chapter. Beside it stand its signs, one bit for each two and each
three bytes that occur in it (by a hash), and a chapter that lacks a sign of the words in question
is not even read. Words that are rare or not there are found, or not found, in milliseconds; at
worst, when the signs say nothing, every chapter is read, at the speed of the disk's cache.

A chapter never changes. What it holds is numbered from its first record on, without a gap.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator

__all__ = ["TABLES", "close", "saying"]

TABLES = (
    "CREATE TABLE chapters_{n} (first INTEGER PRIMARY KEY, text BLOB NOT NULL)",
    "CREATE TABLE signs_{n} (first INTEGER PRIMARY KEY, bits BLOB NOT NULL)",
)

# Between the texts stands a byte that no UTF-8 has.
_BREAK = b"\xff"

# With so many bits a chapter of plain text sets one in twenty.
_SIGNS = 1 << 16


def close(connection: sqlite3.Connection, n: int, first: int, texts: Iterable[str]) -> None:
    """Keep these texts, of which the first belongs to the record of that number."""
    text = _BREAK.join(one.lower().encode() for one in texts)
    bits = bytearray(_SIGNS // 8)
    for sign in _signs(text, 2) | _signs(text, 3):
        bits[sign >> 3] |= 1 << (sign & 7)
    connection.execute(f"INSERT INTO chapters_{n} VALUES (?, ?)", (first, text))
    connection.execute(f"INSERT INTO signs_{n} VALUES (?, ?)", (first, bytes(bits)))


def saying(
    connection: sqlite3.Connection, n: int, words: str, first: int, last: int
) -> Iterator[int]:
    """The records from `first` to `last` that say this, in whatever case; the last ones first."""
    wanted = words.lower().encode()
    signs = _signs(wanted, 3) or _signs(wanted, 2)
    asked = f"SELECT first, bits FROM signs_{n} WHERE first <= ? ORDER BY first DESC"
    for begin, bits in connection.execute(asked, (last,)):
        if all(bits[sign >> 3] >> (sign & 7) & 1 for sign in signs):
            read = f"SELECT text FROM chapters_{n} WHERE first = ?"
            (text,) = connection.execute(read, (begin,)).fetchone()
            numbers = [begin + place for place in _places(text, wanted)]
            yield from (number for number in reversed(numbers) if first <= number <= last)
        if begin <= first:
            return


def _signs(text: bytes, size: int) -> set[int]:
    """A number below _SIGNS for each so many bytes in a row."""
    pieces = {text[at : at + size] for at in range(len(text) - size + 1)}
    return {zlib.crc32(piece) % _SIGNS for piece in pieces}


def _places(text: bytes, wanted: bytes) -> Iterator[int]:
    """Which texts of a chapter hold these words, counted from 0."""
    place = start = 0
    at = text.find(wanted)
    while at >= 0:
        place += text.count(_BREAK, start, at)
        yield place
        start = text.find(_BREAK, at)
        at = text.find(wanted, start) if start >= 0 else -1
