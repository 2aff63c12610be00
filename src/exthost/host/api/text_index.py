"""A full-text index: finds the records that contain a text without reading every record.

The contents of about a thousand records are stored a second time, in lower case, as one block.
SQLite's full-text search (FTS5 with the trigram tokenizer) records which blocks contain which
trigrams (three consecutive characters). Only the blocks that contain every trigram of the search
text are read. An index of blocks has a tenth of the size of an index of single records, and
searching a block is faster than merging the index entries of its records.

A search text of one or two characters, which may be a whole word in Chinese or Japanese, is padded
to three characters. When a block is indexed, all its characters and pairs of characters are padded
in the same way and added.

If SQLite has no trigram tokenizer, every block is read. Blocks that are not indexed yet are read,
too: a SQLite without the tokenizer wrote them. They are indexed later, a few at each write.

A block never changes. It contains the texts of consecutive records, and its number is that of the
first of them. In this module `n` is the number of a namespace: the records of one extension (see
`memory`).
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache
from itertools import pairwise

_log = logging.getLogger("exthost.text_index")

# The tables of a new namespace.
TABLES = ("CREATE TABLE text_blocks_{n} (first INTEGER PRIMARY KEY, text BLOB NOT NULL)",)

# The index stores no text and no positions, only which blocks contain a trigram. Python converts
# the texts to lower case, as it does for the comparison; SQLite's conversion differs for some
# letters.
_INDEX = """CREATE VIRTUAL TABLE IF NOT EXISTS text_index_{n} USING fts5(
    text, content = '', detail = none, tokenize = 'trigram case_sensitive 1')"""

# Separates the texts of a block. The byte does not occur in UTF-8.
_SEPARATOR = b"\xff"

# SQLite's tokenizer stops at a NUL, so it is replaced.
_NUL, _REPLACEMENT = "\0", "\ufffd"

# Pads short texts to a trigram. It is a private-use character, which is rare in texts.
_PADDING = "\ue000"

# The most trigrams in a search, and the beginning of its text that they are taken from. More would
# rarely exclude another block, and FTS5 limits the size of an expression.
_MAX_TRIGRAMS = 60
_MAX_SEARCHED_CHARS = 1000

# The most blocks that one write indexes. There is more than one only if earlier blocks are not
# indexed yet.
_MAX_BLOCKS_AT_ONCE = 5


@cache
def has_trigram_index() -> bool:
    """Return whether SQLite has the trigram tokenizer (3.34 and later, built with FTS5)."""
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute(_INDEX.format(n=0))
    except sqlite3.OperationalError as error:
        _log.warning(
            "SQLite %s has no trigram index (%s); searching memory for words reads all of it",
            sqlite3.sqlite_version,
            error,
        )
        return False
    return True


def add_block(connection: sqlite3.Connection, n: int, first: int, texts: Iterable[str]) -> None:
    """Store these texts as a block, and index it. The first text belongs to the record `first`."""
    block = _SEPARATOR.join(text.lower().encode() for text in texts)
    connection.execute(f"INSERT INTO text_blocks_{n} VALUES (?, ?)", (first, block))
    if has_trigram_index():
        connection.execute(_INDEX.format(n=n))
        _index_blocks(connection, n)


def _index_blocks(connection: sqlite3.Connection, n: int) -> None:
    """Index the next blocks that are not indexed yet."""
    query = f"SELECT first, text FROM text_blocks_{n} WHERE first > ? ORDER BY first LIMIT ?"
    last_indexed = _find_last_indexed(connection, n)
    for first, block in connection.execute(query, (last_indexed, _MAX_BLOCKS_AT_ONCE)).fetchall():
        text = block.replace(_SEPARATOR, b"\n").decode().replace(_NUL, _REPLACEMENT)
        insert = f"INSERT INTO text_index_{n} (rowid, text) VALUES (?, ?)"
        connection.execute(insert, (first, text + _padded_parts(text)))


def _padded_parts(text: str) -> str:
    """Return every character and every pair of characters of the text once, each padded to
    three."""
    pairs = {first + second for first, second in pairwise(text)}
    return "".join(part.ljust(3, _PADDING) for part in sorted(pairs | set(text)))


def _find_last_indexed(connection: sqlite3.Connection, n: int) -> int:
    """Return the number of the last block in the index, or 0."""
    query = f"SELECT rowid FROM text_index_{n} ORDER BY rowid DESC LIMIT 1"
    row = connection.execute(query).fetchone()
    return row[0] if row is not None else 0


def find(connection: sqlite3.Connection, n: int, text: str, first: int, last: int) -> Iterator[int]:
    """Yield the records from `first` to `last` that contain this text, newest first. Upper and
    lower case are the same."""
    pattern = text.lower().encode()
    statement = f"SELECT text FROM text_blocks_{n} WHERE first = ?"
    for start in _find_candidates(connection, n, text.lower(), last):
        (block,) = connection.execute(statement, (start,)).fetchone()
        records = [start + position for position in _find_positions(block, pattern)]
        yield from (record for record in reversed(records) if first <= record <= last)
        if start <= first:
            return


def _find_candidates(connection: sqlite3.Connection, n: int, text: str, last: int) -> Iterator[int]:
    """Yield the blocks up to `last` that may contain this text, newest first. Blocks that are not
    indexed always may."""
    query = f"SELECT first FROM text_blocks_{n} WHERE first BETWEEN ? AND ? ORDER BY first DESC"
    last_indexed = 0
    if has_trigram_index() and _has_index(connection, n):
        last_indexed = _find_last_indexed(connection, n)
    yield from (row[0] for row in connection.execute(query, (last_indexed + 1, last)))
    if last_indexed:
        name = f"text_index_{n}"
        query = f"SELECT rowid FROM {name} WHERE {name} MATCH ? AND rowid <= ? ORDER BY rowid DESC"
        last = min(last, last_indexed)
        yield from (row[0] for row in connection.execute(query, (_match_expression(text), last)))


def _has_index(connection: sqlite3.Connection, n: int) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return connection.execute(query, (f"text_index_{n}",)).fetchone() is not None


def _match_expression(text: str) -> str:
    """Return an FTS5 expression for the blocks that contain every trigram of this text."""
    text = text[:_MAX_SEARCHED_CHARS].replace(_NUL, _REPLACEMENT).ljust(3, _PADDING)
    trigrams = dict.fromkeys(
        text[offset : offset + 3] for offset in range(len(text) - 2)
    )  # an ordered set
    quoted = ('"' + trigram.replace('"', '""') + '"' for trigram in trigrams)
    return " AND ".join(list(quoted)[:_MAX_TRIGRAMS])


def _find_positions(block: bytes, pattern: bytes) -> Iterator[int]:
    """Yield the positions, from 0, of the texts in a block that contain these bytes."""
    position = start = 0
    offset = block.find(pattern)
    while offset >= 0:
        position += block.count(_SEPARATOR, start, offset)
        yield position
        start = block.find(_SEPARATOR, offset)
        offset = block.find(pattern, start) if start >= 0 else -1
