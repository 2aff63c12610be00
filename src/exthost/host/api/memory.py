"""The memory of extensions: stores records with a time and tags, and finds them, newest first.

An extension sends a request to store a record, such as the text "prefers short answers" with the
tag `user:7`, and later a request for the newest records whose tags begin with `user:`.

Each extension has a namespace with its own tables, so that a search in one reads no pages of
another. Records are numbered from 1 without gaps, and their times never decrease, even if the clock
is set back. So the order of the numbers is the order of the times, and a span of time is a range of
numbers.

**Search by content.** Full blocks of records are searched with an index (`text_index`). The newest
records, which do not fill a block yet, are read one by one.

**Search by tag prefix.** If few records match, or many records with few different tags, they are
looked up in an index. If many records with many different tags match, the records are read one by
one from the newest on: since many match, the requested number is soon found.
"""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from exthost.dialects.host_requests import Memory
from exthost.errors import UsageError
from exthost.host.api import text_index
from exthost.wire import jsontext

if TYPE_CHECKING:
    import sqlite3

    from exthost.dialects.host_requests import Recall, Remember
    from exthost.host.api.store import Store


# The most records, and the most different tags, that "few" means above. Collecting and sorting
# this many record numbers, or merging the records of this many tags, takes a few milliseconds.
_FEW_MATCHES = 10_000
_FEW_TAGS = 250

# A block is full at this many records or bytes, and is then small enough to be read at once.
_BLOCK_RECORDS = 1024
_BLOCK_BYTES = 256 * 1024

# The largest answer: it must fit into a message, and must not exhaust the memory of the host.
_MAX_ANSWER_BYTES = 3 * 2**20

# The size of a record in an answer in addition to its texts, for the names of its fields.
_RECORD_BYTES = 128

# The largest integer of SQLite.
_MAX_INTEGER = 2**63 - 1


class Memories:
    """The records of every namespace in one store. `now` returns the time in seconds since 1970."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now

    def append(self, namespace: str, action: Remember, quota: int | None = None) -> Any:
        """Store a record; return a future of its time in milliseconds since 1970, which is done
        when the record is on disk. The future raises QuotaExceeded if the namespace would then have
        more than `quota` bytes; None is unlimited."""
        at = int(self._now() * 1000)
        return self._store.write(
            lambda connection: insert_record(connection, namespace, action, at, quota)
        )

    def query(self, namespace: str, action: Recall) -> Any:
        """Return a future of the records that match, newest first."""
        return self._store.read(lambda connection: find_records(connection, namespace, action))


# -- storing -----------------------------------------------------------------------------------

_NAMESPACES = """
CREATE TABLE IF NOT EXISTS namespaces (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE,
    last_in_block INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0)"""

_TABLES = (
    """CREATE TABLE records_{n} (
        id INTEGER PRIMARY KEY, at INTEGER NOT NULL, content TEXT NOT NULL,
        tags TEXT NOT NULL, meta TEXT)""",
    "CREATE INDEX records_{n}_at ON records_{n} (at)",
    "CREATE TABLE tags_{n} (tag TEXT, record INTEGER, PRIMARY KEY (tag, record)) WITHOUT ROWID",
    *text_index.TABLES,
)


class _Namespace(NamedTuple):
    """A row of the table `namespaces`.

    n              the number of the namespace, which is in the names of its tables
    last_in_block  the number of the last record that is in a block, or 0
    bytes          the size of the records that are in no block yet
    """

    n: int
    last_in_block: int = 0
    bytes: int = 0


def insert_record(
    connection: sqlite3.Connection,
    namespace: str,
    action: Remember,
    at: int,
    quota: int | None = None,
) -> int:
    """Store a record and return its time: `at` (milliseconds since 1970), or that of the previous
    record, whichever is later."""
    tags = jsontext.encode(action.tags).decode()
    meta = None if action.meta is None else jsontext.encode(action.meta).decode()
    # Imported here, with its module sqlite3, because most hosts store nothing.
    from exthost.host.api.store_quota import charge, record_bytes

    charge(connection, namespace, record_bytes(action.content, tags, meta), quota)
    space = _find_namespace(connection, namespace) or _create_namespace(connection, namespace)
    n = space.n
    newest = connection.execute(f"SELECT at FROM records_{n} ORDER BY id DESC LIMIT 1").fetchone()
    at = max(at, newest[0]) if newest is not None else at
    statement = f"INSERT INTO records_{n} (at, content, tags, meta) VALUES (?, ?, ?, ?)"
    record = connection.execute(statement, (at, action.content, tags, meta)).lastrowid
    assert record is not None
    connection.executemany(
        f"INSERT OR IGNORE INTO tags_{n} VALUES (?, ?)", [(tag, record) for tag in action.tags]
    )
    size = space.bytes + len(action.content.encode())
    if record - space.last_in_block >= _BLOCK_RECORDS or size >= _BLOCK_BYTES:
        _add_block(connection, space)
        space, size = space._replace(last_in_block=record), 0
    statement = "UPDATE namespaces SET last_in_block = ?, bytes = ? WHERE id = ?"
    connection.execute(statement, (space.last_in_block, size, n))
    return at


def _find_namespace(connection: sqlite3.Connection, namespace: str) -> _Namespace | None:
    import sqlite3  # here, because most hosts store nothing

    try:
        row = connection.execute(
            "SELECT id, last_in_block, bytes FROM namespaces WHERE name = ?", (namespace,)
        ).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):  # the first namespace creates the table
            return None
        raise
    return None if row is None else _Namespace(*row)


def _create_namespace(connection: sqlite3.Connection, namespace: str) -> _Namespace:
    connection.execute(_NAMESPACES)
    n = connection.execute("INSERT INTO namespaces (name) VALUES (?)", (namespace,)).lastrowid
    assert n is not None
    for table in _TABLES:
        connection.execute(table.format(n=n))
    return _Namespace(n)


def _add_block(connection: sqlite3.Connection, space: _Namespace) -> None:
    """Add the records that are in no block yet as a block."""
    statement = f"SELECT content FROM records_{space.n} WHERE id > ? ORDER BY id"
    texts = [row[0] for row in connection.execute(statement, (space.last_in_block,))]
    text_index.add_block(connection, space.n, space.last_in_block + 1, texts)


# -- finding -----------------------------------------------------------------------------------

# A row of a table of records, with these columns. `at` is the time in milliseconds since 1970;
# `tags` and `meta` are JSON.
_Row = tuple[int, int, str, str, str | None]
_COLUMNS = "id, at, content, tags, meta"


def find_records(connection: sqlite3.Connection, namespace: str, action: Recall) -> list[Memory]:
    """Return the records that match, newest first."""
    space = _find_namespace(connection, namespace)
    span = _find_span(connection, space.n, action) if space is not None else None
    if space is None or span is None:
        return []
    candidates = _read_candidates(connection, space, action, *span)
    matches = (row for row in candidates if _matches(row, action))
    return _to_memories(islice(matches, min(action.limit, _MAX_INTEGER)))


def _find_span(connection: sqlite3.Connection, n: int, action: Recall) -> tuple[int, int] | None:
    """Return the numbers of the first and the last record of the requested time, or None."""
    since = 0 if action.since_ms is None else min(action.since_ms, _MAX_INTEGER)
    until = _MAX_INTEGER if action.until_ms is None else min(action.until_ms, _MAX_INTEGER)
    statement = f"SELECT id FROM records_{n} WHERE at >= ? ORDER BY at, id LIMIT 1"
    first = connection.execute(statement, (since,)).fetchone()
    statement = f"SELECT id FROM records_{n} WHERE at <= ? ORDER BY at DESC, id DESC LIMIT 1"
    last = connection.execute(statement, (until,)).fetchone()
    return None if first is None or last is None else (first[0], last[0])


def _read_candidates(
    connection: sqlite3.Connection, space: _Namespace, action: Recall, first: int, last: int
) -> Iterable[_Row]:
    """Return all rows from `first` to `last` that match, newest first, and possibly other rows: the
    index that is used may cover only one of the conditions. The indexes are tried in this order:
    few records with the tag prefix, the content, few tags with the prefix; else all rows."""
    n, prefix = space.n, action.tag_prefix
    numbers: Iterable[int] | None = None  # of the records that an index has found
    if prefix is not None:
        numbers = _find_few_tagged(connection, n, prefix, first, last)
    if numbers is None and action.content_contains:
        numbers = _find_content(connection, space, action.content_contains, first, last)
    elif numbers is None and prefix is not None:
        numbers = _merge_few_tags(connection, n, prefix, first, last)
    if numbers is not None:
        statement = f"SELECT {_COLUMNS} FROM records_{n} WHERE id = ?"
        return (connection.execute(statement, (number,)).fetchone() for number in numbers)
    statement = f"SELECT {_COLUMNS} FROM records_{n} WHERE id BETWEEN ? AND ? ORDER BY id DESC"
    return connection.execute(statement, (first, last))


def _matches(row: _Row, action: Recall) -> bool:
    """Return whether a record has a tag with the requested prefix, and contains the requested
    text."""
    _, _, content, tags, _ = row
    prefix, text = action.tag_prefix, action.content_contains
    if prefix is not None and not any(tag.startswith(prefix) for tag in json.loads(tags)):
        return False
    return not text or text.lower() in content.lower()


def _find_few_tagged(
    connection: sqlite3.Connection, n: int, prefix: str, first: int, last: int
) -> Iterable[int] | None:
    """Return the records that have a tag with this prefix; None if there are many."""
    condition, bounds = _tag_condition(prefix)
    statement = f"SELECT 1 FROM tags_{n} WHERE {condition} LIMIT 1 OFFSET ?"
    if connection.execute(statement, (*bounds, _FEW_MATCHES)).fetchone() is not None:
        return None
    rows = connection.execute(f"SELECT record FROM tags_{n} WHERE {condition}", bounds)
    return sorted({row[0] for row in rows if first <= row[0] <= last}, reverse=True)


def _merge_few_tags(
    connection: sqlite3.Connection, n: int, prefix: str, first: int, last: int
) -> Iterable[int] | None:
    """Return the records that have a tag with this prefix, merged from one sorted list per tag;
    None if there are many different tags."""
    tags = list(islice(_read_tags(connection, n, prefix), _FEW_TAGS + 1))
    if len(tags) > _FEW_TAGS:
        return None
    statement = f"""SELECT record FROM tags_{n}
        WHERE tag = ? AND record BETWEEN ? AND ? ORDER BY record DESC"""
    lists = [connection.execute(statement, (tag, first, last)) for tag in tags]
    merged = heapq.merge(*lists, reverse=True)
    # groupby removes duplicates: a record may have several of these tags.
    return (row[0] for row, _ in groupby(merged))


def _read_tags(connection: sqlite3.Connection, n: int, prefix: str) -> Iterator[str]:
    """Yield the different tags with this prefix, in their order."""
    condition, bounds = _tag_condition(prefix)
    # The lower bound of the range is replaced by the last tag. With both lower bounds SQLite would
    # search the index by one and skip rows by the other.
    next_condition = condition.replace(">=", ">", 1)
    statement = f"SELECT min(tag) FROM tags_{n} WHERE "
    row = connection.execute(statement + condition, bounds).fetchone()
    while row[0] is not None:
        yield row[0]
        row = connection.execute(statement + next_condition, (row[0], *bounds[1:])).fetchone()


def _tag_condition(prefix: str) -> tuple[str, list[str]]:
    """Return an SQL condition for the tags with this prefix, as a range that an index can search,
    and its parameters."""
    # The upper bound is the smallest text that is greater than every text with the prefix: the
    # prefix with its last character increased. A last character that is the greatest of Unicode is
    # dropped. The code points from U+D800 to U+DFFF (surrogates) are not characters.
    shorter = prefix.rstrip("\U0010ffff")
    if not shorter:
        return "tag >= ?", [prefix]
    increased = ord(shorter[-1]) + 1
    increased = 0xE000 if increased == 0xD800 else increased
    return "tag >= ? AND tag < ?", [prefix, shorter[:-1] + chr(increased)]


def _find_content(
    connection: sqlite3.Connection, space: _Namespace, text: str, first: int, last: int
) -> Iterator[int]:
    """Yield the records whose content contains this text, in upper or lower case, newest first."""
    n, lowered = space.n, text.lower()
    first_unblocked = max(first, space.last_in_block + 1)  # the first record that is in no block
    statement = f"SELECT id, content FROM records_{n} WHERE id BETWEEN ? AND ? ORDER BY id DESC"
    for number, content in connection.execute(statement, (first_unblocked, last)):
        if lowered in content.lower():
            yield number
    yield from text_index.find(connection, n, text, first, min(last, space.last_in_block))


def _to_memories(rows: Iterable[_Row]) -> list[Memory]:
    """Return the rows as values. Raises UsageError if they are too large for one answer."""
    records = []
    size = 0
    for _, at, content, tags, meta in rows:
        texts = len(content.encode()) + len(tags.encode()) + len((meta or "").encode())
        size += texts + _RECORD_BYTES
        if size > _MAX_ANSWER_BYTES:
            raise UsageError(
                "X1350",
                f"the answer would be larger than {_MAX_ANSWER_BYTES} bytes",
                help="request fewer records, by `limit` or by time",
            )
        meta_value = None if meta is None else json.loads(meta)
        records.append(Memory(at, content, tuple(json.loads(tags)), meta_value))
    return records
