"""The memory of extensions: records with a time and tags, newest first, a namespace for each.

Each namespace has its own tables, so that a search in one reads no pages of another. Records are
numbered from 1 without a gap, and their times never decrease, even if the clock does. So the order
of the numbers is the order of time, a span of time is a span of numbers, and "newest first" is
reading from the end.

**Content** is searched in blocks of records (`text_index.py`); the last records, which do not fill
a block yet, are read one by one.

**Tags.** A prefix that matches few records, or few different tags, is looked up in an index. One
that matches many records under many tags is so common that the newest records have matches.
"""

import heapq
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any, NamedTuple

from exthost.dialects.host_requests import Memory, Recall, Remember
from exthost.errors import UsageError
from exthost.host.api import text_index
from exthost.host.api.store import Store
from exthost.host.api.store_quota import charge, record_bytes
from exthost.wire import jsontext

__all__ = ["Memories"]

# Collecting and sorting this many numbers, or merging this many tags, takes a few milliseconds.
_FEW_MATCHES = 10_000
_FEW_TAGS = 250

# A block is full at this many records or bytes: few enough to be read at once.
_BLOCK_RECORDS = 1024
_BLOCK_BYTES = 256 * 1024

# An answer must fit into a message, and a request for everything must not fill our memory.
_ANSWER_BYTES = 3 * 2**20

# SQLite's integers are signed.
_MOST = 2**63 - 1


class Memories:
    """The memories of every namespace in one store."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now

    def append(self, namespace: str, action: Remember, quota: int | None = None) -> Any:
        """Return a future of the record's time; it is done when the record is on disk. It raises
        QuotaExceeded if the namespace would have more bytes than `quota`."""
        at = int(self._now() * 1000)
        return self._store.write(
            lambda connection: append(connection, namespace, action, at, quota)
        )

    def query(self, namespace: str, action: Recall) -> Any:
        """Return a future of the records that match, newest first."""
        return self._store.read(lambda connection: query(connection, namespace, action))


# -- keeping -----------------------------------------------------------------------------------

_NAMESPACES = """
CREATE TABLE IF NOT EXISTS namespaces (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE,
    closed INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0)"""

_TABLES = (
    """CREATE TABLE records_{n} (
        id INTEGER PRIMARY KEY, at INTEGER NOT NULL, content TEXT NOT NULL,
        tags TEXT NOT NULL, meta TEXT)""",
    "CREATE INDEX records_{n}_at ON records_{n} (at)",
    "CREATE TABLE tags_{n} (tag TEXT, record INTEGER, PRIMARY KEY (tag, record)) WITHOUT ROWID",
    *text_index.TABLES,
)


class _Space(NamedTuple):
    """A namespace: its number, the last record in a block, the bytes that are in no block yet."""

    n: int
    closed: int = 0
    bytes: int = 0


def append(
    connection: sqlite3.Connection,
    namespace: str,
    action: Remember,
    at: int,
    quota: int | None = None,
) -> int:
    """Store a record, at this time or that of the record before it, whichever is later."""
    tags = jsontext.encode(action.tags).decode()
    meta = None if action.meta is None else jsontext.encode(action.meta).decode()
    charge(connection, namespace, record_bytes(action.content, tags, meta), quota)
    space = _space(connection, namespace) or _new_space(connection, namespace)
    n = space.n
    last = connection.execute(f"SELECT at FROM records_{n} ORDER BY id DESC LIMIT 1").fetchone()
    at = max(at, last[0]) if last is not None else at
    statement = f"INSERT INTO records_{n} (at, content, tags, meta) VALUES (?, ?, ?, ?)"
    record = connection.execute(statement, (at, action.content, tags, meta)).lastrowid
    assert record is not None
    connection.executemany(
        f"INSERT OR IGNORE INTO tags_{n} VALUES (?, ?)", [(tag, record) for tag in action.tags]
    )
    size = space.bytes + len(action.content.encode())
    if record - space.closed >= _BLOCK_RECORDS or size >= _BLOCK_BYTES:
        _add_block(connection, space)
        space, size = space._replace(closed=record), 0
    connection.execute(
        "UPDATE namespaces SET closed = ?, bytes = ? WHERE id = ?", (space.closed, size, n)
    )
    return at


def _space(connection: sqlite3.Connection, namespace: str) -> _Space | None:
    try:
        row = connection.execute(
            "SELECT id, closed, bytes FROM namespaces WHERE name = ?", (namespace,)
        ).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise
    return None if row is None else _Space(*row)


def _new_space(connection: sqlite3.Connection, namespace: str) -> _Space:
    connection.execute(_NAMESPACES)
    n = connection.execute("INSERT INTO namespaces (name) VALUES (?)", (namespace,)).lastrowid
    assert n is not None
    for table in _TABLES:
        connection.execute(table.format(n=n))
    return _Space(n)


def _add_block(connection: sqlite3.Connection, space: _Space) -> None:
    statement = f"SELECT content FROM records_{space.n} WHERE id > ? ORDER BY id"
    texts = [row[0] for row in connection.execute(statement, (space.closed,))]
    text_index.add_block(connection, space.n, space.closed + 1, texts)


# -- finding -----------------------------------------------------------------------------------

_Row = tuple[int, int, str, str, str | None]
_COLUMNS = "id, at, content, tags, meta"


def query(connection: sqlite3.Connection, namespace: str, action: Recall) -> list[Memory]:
    """Return the records that match, newest first."""
    space = _space(connection, namespace)
    span = _span(connection, space.n, action) if space is not None else None
    if space is None or span is None:
        return []
    rows = _rows(connection, space, action, *span)
    fitting = (row for row in rows if _matches(row, action))
    return _checked_size(islice(fitting, min(action.limit, _MOST)))


def _span(connection: sqlite3.Connection, n: int, action: Recall) -> tuple[int, int] | None:
    """Return the first and the last record of the requested time."""
    since = 0 if action.since_ms is None else min(action.since_ms, _MOST)
    until = _MOST if action.until_ms is None else min(action.until_ms, _MOST)
    statement = f"SELECT id FROM records_{n} WHERE at >= ? ORDER BY at, id LIMIT 1"
    first = connection.execute(statement, (since,)).fetchone()
    statement = f"SELECT id FROM records_{n} WHERE at <= ? ORDER BY at DESC, id DESC LIMIT 1"
    last = connection.execute(statement, (until,)).fetchone()
    return None if first is None or last is None else (first[0], last[0])


def _rows(
    connection: sqlite3.Connection, space: _Space, action: Recall, first: int, last: int
) -> Iterable[_Row]:
    """Return rows that may match, newest first, found in the cheapest way."""
    n, prefix = space.n, action.tag_prefix
    numbers: Iterable[int] | None = None
    if prefix is not None:
        numbers = _few_tagged(connection, n, prefix, first, last)
    if numbers is None and action.content_contains:
        numbers = _containing(connection, space, action.content_contains, first, last)
    elif numbers is None and prefix is not None:
        numbers = _merge_tags(connection, n, prefix, first, last)
    if numbers is not None:
        statement = f"SELECT {_COLUMNS} FROM records_{n} WHERE id = ?"
        return (connection.execute(statement, (number,)).fetchone() for number in numbers)
    statement = f"SELECT {_COLUMNS} FROM records_{n} WHERE id BETWEEN ? AND ? ORDER BY id DESC"
    return connection.execute(statement, (first, last))


def _matches(row: _Row, action: Recall) -> bool:
    _, _, content, tags, _ = row
    prefix, words = action.tag_prefix, action.content_contains
    if prefix is not None and not any(tag.startswith(prefix) for tag in json.loads(tags)):
        return False
    return not words or words.lower() in content.lower()


def _few_tagged(
    connection: sqlite3.Connection, n: int, prefix: str, first: int, last: int
) -> Iterable[int] | None:
    """Return the records with such a tag; None if there are many."""
    tags, ends = _tag_range(prefix)
    many = f"SELECT 1 FROM tags_{n} WHERE {tags} LIMIT 1 OFFSET ?"
    if connection.execute(many, (*ends, _FEW_MATCHES)).fetchone() is not None:
        return None
    rows = connection.execute(f"SELECT record FROM tags_{n} WHERE {tags}", ends)
    return sorted({row[0] for row in rows if first <= row[0] <= last}, reverse=True)


def _merge_tags(
    connection: sqlite3.Connection, n: int, prefix: str, first: int, last: int
) -> Iterable[int] | None:
    """Return the records with such a tag, merged from one list per tag; None for many tags."""
    tags = list(islice(_tags(connection, n, prefix), _FEW_TAGS + 1))
    if len(tags) > _FEW_TAGS:
        return None
    statement = f"""SELECT record FROM tags_{n}
        WHERE tag = ? AND record BETWEEN ? AND ? ORDER BY record DESC"""
    each = [connection.execute(statement, (tag, first, last)) for tag in tags]
    merged = heapq.merge(*each, reverse=True)
    return (row[0] for row, _ in groupby(merged))  # a record may have several of them


def _tags(connection: sqlite3.Connection, n: int, prefix: str) -> Iterator[str]:
    """Yield the different tags that begin with this."""
    tags, ends = _tag_range(prefix)
    # One lower bound and no two: SQLite would search by the first and skip by the second.
    after = tags.replace(">=", ">", 1)
    row = connection.execute(f"SELECT min(tag) FROM tags_{n} WHERE {tags}", ends).fetchone()
    while row[0] is not None:
        yield row[0]
        statement = f"SELECT min(tag) FROM tags_{n} WHERE {after}"
        row = connection.execute(statement, (row[0], *ends[1:])).fetchone()


def _tag_range(prefix: str) -> tuple[str, list[str]]:
    """Return the tags that begin with this as a range of the index."""
    # The text right after all of them, in SQLite's order of bytes; surrogates are no characters.
    for at in range(len(prefix) - 1, -1, -1):
        following = ord(prefix[at]) + 1
        following = 0xE000 if following == 0xD800 else following
        if following <= 0x10FFFF:
            return "tag >= ? AND tag < ?", [prefix, prefix[:at] + chr(following)]
    return "tag >= ?", [prefix]


def _containing(
    connection: sqlite3.Connection, space: _Space, words: str, first: int, last: int
) -> Iterator[int]:
    """Yield the records whose content contains these words, newest first."""
    n, low, lowered = space.n, max(first, space.closed + 1), words.lower()
    statement = f"SELECT id, content FROM records_{n} WHERE id BETWEEN ? AND ? ORDER BY id DESC"
    for number, content in connection.execute(statement, (low, last)):
        if lowered in content.lower():
            yield number
    yield from text_index.find(connection, n, words, first, min(last, space.closed))


def _checked_size(rows: Iterable[_Row]) -> list[Memory]:
    records = []
    size = 0
    for _, at, content, tags, meta in rows:
        size += len(content.encode()) + len(tags.encode()) + len((meta or "").encode())
        if size > _ANSWER_BYTES:
            raise UsageError(
                "X1350",
                f"the answer would be larger than {_ANSWER_BYTES} bytes",
                help="ask for fewer records, by `limit` or by time",
            )
        meta_value = None if meta is None else json.loads(meta)
        records.append(Memory(at, content, tuple(json.loads(tags)), meta_value))
    return records
