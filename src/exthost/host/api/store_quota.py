"""How much of the store each extension uses, and the limit of it (`limits.store`).

An extension writes to the store through the host, so no limit of its own process counts it. Each
write changes the sum in the same transaction. Counted is what the file keeps: the content of a
record twice, since its search index has a copy, its tags twice, and a fixed amount for each record.
"""

import sqlite3

__all__ = ["QuotaExceeded", "charge", "record_bytes", "setting_bytes", "start_counting", "used"]

# What a row takes besides its text: numbers, and its part of indexes.
_ROW_BYTES = 64

_TABLE = """CREATE TABLE IF NOT EXISTS usage (
    extension TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID"""


class QuotaExceeded(Exception):
    """A write would exceed the quota of its extension."""

    def __init__(self, quota: int, in_use: int, wanted: int) -> None:
        super().__init__(
            f"its store is full: {in_use} of {quota} bytes are in use, and this needs {wanted} more"
        )
        self.quota = quota


def record_bytes(content: str, tags: str, meta: str | None) -> int:
    """Return what a record counts; tags and meta are JSON text."""
    texts = 2 * len(content.encode()) + 2 * len(tags.encode())
    return texts + len((meta or "").encode()) + _ROW_BYTES


def setting_bytes(key: str, value: str) -> int:
    """Return what a setting counts."""
    return len(key.encode()) + len(value.encode()) + _ROW_BYTES


def charge(
    connection: sqlite3.Connection, extension: str, added: int, quota: int | None = None
) -> None:
    """Add to what an extension uses. Raises QuotaExceeded if that is more than the quota and more
    than before; None is no quota."""
    connection.execute(_TABLE)
    in_use = used(connection, extension)
    if quota is not None and added > 0 and in_use + added > quota:
        raise QuotaExceeded(quota, in_use, added)
    connection.execute("INSERT OR REPLACE INTO usage VALUES (?, ?)", (extension, in_use + added))


def used(connection: sqlite3.Connection, extension: str) -> int:
    """Return how many bytes an extension uses."""
    row = connection.execute("SELECT bytes FROM usage WHERE extension = ?", (extension,)).fetchone()
    return 0 if row is None else int(row[0])


def start_counting(connection: sqlite3.Connection) -> None:
    """Count what a store contains that was written without quotas."""
    connection.execute(_TABLE)
    sizes: dict[str, int] = {}
    if _has_table(connection, "namespaces"):
        for n, name in connection.execute("SELECT id, name FROM namespaces").fetchall():
            size = f"""SELECT total(2 * length(CAST(content AS BLOB))
                + 2 * length(CAST(tags AS BLOB))
                + coalesce(length(CAST(meta AS BLOB)), 0) + {_ROW_BYTES}) FROM records_{n}"""
            sizes[name] = int(connection.execute(size).fetchone()[0])
    if _has_table(connection, "config"):
        for extension, key, value in connection.execute("SELECT * FROM config").fetchall():
            sizes[extension] = sizes.get(extension, 0) + setting_bytes(key, value)
    connection.executemany("INSERT OR REPLACE INTO usage VALUES (?, ?)", sizes.items())


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None
