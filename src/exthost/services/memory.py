"""What extensions want to remember: records with a time and tags, newest first, one space each.

Each namespace has its own pair of tables, so that looking through one reads nobody else's pages.
Times never go backwards within a namespace, whatever the clock does: so the order of the rows is
the order of time, and "newest first" is reading a table from its end.

**Tags.** How few a prefix must match for its rows to be gathered and sorted, and how few different
tags for the newest of each to be merged, are counted before anything is read; a prefix that
matches much, and many tags, is common enough to be met soon by looking at the newest records one
by one.

**Content** is looked through from the newest on, in lower case; where that differs from what was
said, it is kept beside it. Durable when acknowledged, as everything in the store.
"""

import heapq
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from exthost.dialects.wishes import Memory, Recall, Remember
from exthost.errors import UsageError
from exthost.services.store import Store
from exthost.wire import jsontext

__all__ = ["Memories"]

# Gathering and sorting so many ids takes a few milliseconds.
_FEW_MATCHES = 10_000

# Asking for the newest of each of so many tags does, too.
_FEW_TAGS = 100

# An answer has to fit into a message; and whoever asks for everything must not have us hold it.
_ANSWER_BYTES = 3 * 2**20

# SQLite's integers are signed.
_MOST = 2**63 - 1


class Memories:
    """Every namespace of one store."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now

    def append(self, namespace: str, wish: Remember) -> Any:
        """A future of the time under which it is kept, done when it is safe."""
        at = int(self._now() * 1000)
        return self._store.write(lambda connection: _append(connection, namespace, wish, at))

    def query(self, namespace: str, wish: Recall) -> Any:
        """A future of what was kept, newest first."""
        return self._store.read(lambda connection: _query(connection, namespace, wish))


_NAMESPACES = """CREATE TABLE IF NOT EXISTS namespaces (id INTEGER PRIMARY KEY, name TEXT UNIQUE)"""

_TABLES = """
CREATE TABLE records_{n} (
    id INTEGER PRIMARY KEY, at INTEGER NOT NULL, content TEXT NOT NULL, folded TEXT,
    tags TEXT NOT NULL, meta TEXT);
CREATE INDEX records_{n}_at ON records_{n} (at);
CREATE TABLE tags_{n} (tag TEXT, record INTEGER, PRIMARY KEY (tag, record)) WITHOUT ROWID;
"""


def _append(connection: sqlite3.Connection, namespace: str, wish: Remember, at: int) -> int:
    n = _number(connection, namespace) or _new_namespace(connection, namespace)
    folded = wish.content.lower()
    newest = connection.execute(f"SELECT at FROM records_{n} ORDER BY id DESC LIMIT 1").fetchone()
    at = max(at, newest[0]) if newest is not None else at
    row = (
        at,
        wish.content,
        folded if folded != wish.content else None,
        jsontext.encode(wish.tags).decode(),
        None if wish.meta is None else jsontext.encode(wish.meta).decode(),
    )
    told = f"INSERT INTO records_{n} (at, content, folded, tags, meta) VALUES (?, ?, ?, ?, ?)"
    record = connection.execute(told, row).lastrowid
    connection.executemany(
        f"INSERT OR IGNORE INTO tags_{n} VALUES (?, ?)", [(tag, record) for tag in wish.tags]
    )
    return at


def _number(connection: sqlite3.Connection, namespace: str) -> int | None:
    try:
        found = connection.execute(
            "SELECT id FROM namespaces WHERE name = ?", (namespace,)
        ).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise
    return None if found is None else int(found[0])


def _new_namespace(connection: sqlite3.Connection, namespace: str) -> int:
    connection.execute(_NAMESPACES)
    made = connection.execute("INSERT INTO namespaces (name) VALUES (?)", (namespace,))
    n = made.lastrowid
    assert n is not None
    for statement in _TABLES.format(n=n).split(";")[:-1]:
        connection.execute(statement)
    return n


def _query(connection: sqlite3.Connection, namespace: str, wish: Recall) -> list[Memory]:
    n = _number(connection, namespace)
    if n is None or wish.limit == 0:
        return []
    limit = min(wish.limit, _MOST)
    where, values = _conditions(wish)
    ids = _tagged(connection, n, wish, limit) if wish.tag_prefix is not None else None
    if ids is not None:
        rows = _of_ids(connection, n, ids, where, values)
        return _within_reason(islice(rows, limit))
    if wish.tag_prefix is not None:
        where.append("EXISTS (SELECT 1 FROM json_each(tags) WHERE substr(value, 1, ?) = ?)")
        values += [len(wish.tag_prefix), wish.tag_prefix]
    by_time = wish.since_ms is not None or wish.until_ms is not None
    order = "at DESC, id DESC" if by_time else "id DESC"
    condition = f"WHERE {' AND '.join(where)}" if where else ""
    asked = f"SELECT {_COLUMNS} FROM records_{n} {condition} ORDER BY {order} LIMIT ?"
    return _within_reason(connection.execute(asked, (*values, limit)))


_COLUMNS = "at, content, tags, meta"


def _conditions(wish: Recall) -> tuple[list[str], list[Any]]:
    """What must hold of a record itself."""
    where: list[str] = []
    values: list[Any] = []
    if wish.since_ms is not None:
        where.append("at >= ?")
        values.append(min(wish.since_ms, _MOST))
    if wish.until_ms is not None:
        where.append("at <= ?")
        values.append(min(wish.until_ms, _MOST))
    if wish.content_contains:
        where.append("instr(coalesce(folded, content), ?)")
        values.append(wish.content_contains.lower())
    return where, values


def _tagged(
    connection: sqlite3.Connection, n: int, wish: Recall, limit: int
) -> Iterable[int] | None:
    """The records with such a tag, newest first; None if it is better to look at all of them."""
    prefix = wish.tag_prefix
    assert prefix is not None
    span, ends = _span(prefix)
    asked = f"SELECT record FROM tags_{n} WHERE {span} LIMIT ?"
    few = [row[0] for row in connection.execute(asked, (*ends, _FEW_MATCHES + 1))]
    if len(few) <= _FEW_MATCHES:
        return sorted(set(few), reverse=True)
    if wish.content_contains or wish.since_ms is not None or wish.until_ms is not None:
        return None
    tags = list(islice(_tags(connection, n, prefix), _FEW_TAGS + 1))
    if len(tags) > _FEW_TAGS:
        return None
    newest = f"SELECT record FROM tags_{n} WHERE tag = ? ORDER BY record DESC LIMIT ?"
    each = [[row[0] for row in connection.execute(newest, (tag, limit))] for tag in tags]
    return dict.fromkeys(heapq.merge(*each, reverse=True))  # a record may have several of them


def _span(prefix: str) -> tuple[str, list[Any]]:
    """The tags that begin with this, as a range of the index."""
    if not prefix:
        return "tag >= ?", [""]
    # The text after all of them, in SQLite's order of bytes; surrogates are no characters.
    for at in range(len(prefix) - 1, -1, -1):
        following = ord(prefix[at]) + 1
        following = 0xE000 if following == 0xD800 else following
        if following <= 0x10FFFF:
            return "tag >= ? AND tag < ?", [prefix, prefix[:at] + chr(following)]
    return "tag >= ?", [prefix]


def _tags(connection: sqlite3.Connection, n: int, prefix: str) -> Iterator[str]:
    """The different tags that begin with this."""
    span, ends = _span(prefix)
    first = f"SELECT tag FROM tags_{n} WHERE {span} ORDER BY tag LIMIT 1"
    following = f"SELECT tag FROM tags_{n} WHERE {span} AND tag > ? ORDER BY tag LIMIT 1"
    row = connection.execute(first, ends).fetchone()
    while row is not None:
        yield row[0]
        row = connection.execute(following, (*ends, row[0])).fetchone()


def _of_ids(
    connection: sqlite3.Connection, n: int, ids: Iterable[int], where: list[str], values: list[Any]
) -> Iterator[tuple[Any, ...]]:
    condition = " AND ".join(["id = ?", *where])
    asked = f"SELECT {_COLUMNS} FROM records_{n} WHERE {condition}"
    for id in ids:
        yield from connection.execute(asked, (id, *values))


def _within_reason(rows: Iterable[tuple[Any, ...]]) -> list[Memory]:
    found = []
    size = 0
    for at, content, tags, meta in rows:
        size += len(content.encode()) + len(tags.encode()) + len((meta or "").encode())
        if size > _ANSWER_BYTES:
            raise UsageError(
                "X1350",
                f"the answer would be larger than {_ANSWER_BYTES} bytes",
                help="ask for fewer records, by `limit` or by time",
            )
        kept = None if meta is None else json.loads(meta)
        found.append(Memory(at, content, tuple(json.loads(tags)), kept))
    return found
