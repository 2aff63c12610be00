"""An index of texts: finds the records that contain some words without reading every record.

The texts of about a thousand records are kept a second time, in lower case, as one block. SQLite's
full-text index (FTS5 with its trigram tokenizer) knows which blocks contain which three characters
in a row, and only blocks with all those of the words are read. An index of blocks is a tenth of
the size of an index of records, and a block is searched faster than the index of its records would
be merged.

Words of one or two characters, which are whole words in Chinese and Japanese, are padded to
three; so are all characters and pairs of a block when it is indexed.

Where SQLite has no such index every block is read. Blocks that are not indexed yet are read as
well: stores of an earlier format, and those written where there was no index, are indexed a few
blocks at a time. A block never changes. It holds the texts of consecutive records, and its number
is that of the first one.
"""

import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache
from itertools import pairwise

__all__ = ["TABLES", "add_block", "find", "has_trigram_index", "migrate_from_format_1"]

_log = logging.getLogger("exthost.text_index")

TABLES = ("CREATE TABLE text_blocks_{n} (first INTEGER PRIMARY KEY, text BLOB NOT NULL)",)

# The index holds no text and no positions: only which blocks have a trigram. The texts are lowered
# by Python, whose rule the caller's comparison uses; SQLite's own differs for some letters.
_INDEX = """CREATE VIRTUAL TABLE IF NOT EXISTS text_index_{n} USING fts5(
    text, content = '', detail = none, tokenize = 'trigram case_sensitive 1')"""

# Between two texts: a byte that UTF-8 does not use.
_SEPARATOR = b"\xff"

# SQLite's tokenizer stops at a NUL.
_NUL, _REPLACEMENT = "\0", "\ufffd"

# Fills words up to a trigram: a character for private use, rare in text.
_PADDING = "\ue000"

# More trigrams rarely exclude another block, and FTS5 limits the size of an expression.
_MOST_TRIGRAMS = 60

# How many blocks one write indexes at most; more than one only if the index is behind.
_BLOCKS_AT_ONCE = 5


@cache
def has_trigram_index() -> bool:
    """Return whether this SQLite has the index (3.34 and later, built with FTS5)."""
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
    """Keep these texts as a block; the first text belongs to the record `first`."""
    block = _SEPARATOR.join(text.lower().encode() for text in texts)
    connection.execute(f"INSERT INTO text_blocks_{n} VALUES (?, ?)", (first, block))
    if has_trigram_index():
        connection.execute(_INDEX.format(n=n))
        _index_blocks(connection, n)


def _index_blocks(connection: sqlite3.Connection, n: int) -> None:
    """Index the next blocks that are not indexed yet."""
    query = f"SELECT first, text FROM text_blocks_{n} WHERE first > ? ORDER BY first LIMIT ?"
    after = _last_indexed(connection, n)
    for first, block in connection.execute(query, (after, _BLOCKS_AT_ONCE)).fetchall():
        text = block.replace(_SEPARATOR, b"\n").decode().replace(_NUL, _REPLACEMENT)
        insert = f"INSERT INTO text_index_{n} (rowid, text) VALUES (?, ?)"
        connection.execute(insert, (first, text + _short_words(text)))


def _short_words(text: str) -> str:
    """Return every character and every pair of the text once, padded to three."""
    pairs = {first + second for first, second in pairwise(text)}
    return "".join(word.ljust(3, _PADDING) for word in sorted(pairs | set(text)))


def _last_indexed(connection: sqlite3.Connection, n: int) -> int:
    """Return the number of the last block in the index, or 0."""
    query = f"SELECT rowid FROM text_index_{n} ORDER BY rowid DESC LIMIT 1"
    row = connection.execute(query).fetchone()
    return row[0] if row is not None else 0


def find(
    connection: sqlite3.Connection, n: int, words: str, first: int, last: int
) -> Iterator[int]:
    """Yield the records from `first` to `last` that contain these words, newest first.

    Upper and lower case are the same.
    """
    pattern = words.lower().encode()
    read = f"SELECT text FROM text_blocks_{n} WHERE first = ?"
    for start in _candidates(connection, n, words.lower(), last):
        (block,) = connection.execute(read, (start,)).fetchone()
        records = [start + position for position in _positions(block, pattern)]
        yield from (record for record in reversed(records) if first <= record <= last)
        if start <= first:
            return


def _candidates(connection: sqlite3.Connection, n: int, words: str, last: int) -> Iterator[int]:
    """Yield the blocks that may contain these words, newest first."""
    query = f"SELECT first FROM text_blocks_{n} WHERE first BETWEEN ? AND ? ORDER BY first DESC"
    indexed = 0
    if has_trigram_index() and _has_index(connection, n):
        indexed = _last_indexed(connection, n)
    yield from (row[0] for row in connection.execute(query, (indexed + 1, last)))
    if indexed:
        name = f"text_index_{n}"
        query = f"SELECT rowid FROM {name} WHERE {name} MATCH ? AND rowid <= ? ORDER BY rowid DESC"
        last = min(last, indexed)
        yield from (row[0] for row in connection.execute(query, (_match_expression(words), last)))


def _has_index(connection: sqlite3.Connection, n: int) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return connection.execute(query, (f"text_index_{n}",)).fetchone() is not None


def _match_expression(words: str) -> str:
    """Return the trigrams of these words as an FTS5 expression."""
    words = words.replace(_NUL, _REPLACEMENT).ljust(3, _PADDING)
    trigrams = dict.fromkeys(words[at : at + 3] for at in range(len(words) - 2))
    quoted = ('"' + trigram.replace('"', '""') + '"' for trigram in trigrams)
    return " AND ".join(list(quoted)[:_MOST_TRIGRAMS])


def _positions(block: bytes, pattern: bytes) -> Iterator[int]:
    """Yield which texts of a block contain these bytes, counted from 0."""
    position = start = 0
    at = block.find(pattern)
    while at >= 0:
        position += block.count(_SEPARATOR, start, at)
        yield position
        start = block.find(_SEPARATOR, at)
        at = block.find(pattern, start) if start >= 0 else -1


def migrate_from_format_1(connection: sqlite3.Connection) -> None:
    """Take over the blocks of the first format, in which each had a table of hashes beside it."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'chapters_[0-9]*'"
    for (name,) in connection.execute(query).fetchall():
        n = name.removeprefix("chapters_")
        connection.execute(f"ALTER TABLE {name} RENAME TO text_blocks_{n}")
        connection.execute(f"DROP TABLE signs_{n}")
