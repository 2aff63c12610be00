"""Counts how many bytes each extension has in the store, and enforces the limit (`limits.store`).

The host writes to the store for an extension, so the limits of the extension's process do not apply
to it. An extension stores records (`memory`) and settings (`stored_settings`).

`charge` runs in the same transaction as the write that it counts, so that either both are stored or
none. What is counted is what the file contains. The content of a record counts twice, because the
search index has a copy. Its tags count twice, because they are in the record and in the table of
tags. Each record or setting also counts a fixed amount.
"""

import sqlite3

# The size of a row in addition to its text, for numbers and indexes.
_ROW_BYTES = 64

_TABLE = """CREATE TABLE IF NOT EXISTS usage (
    extension TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID"""


class QuotaExceeded(Exception):
    """A write would exceed the quota of its extension."""

    def __init__(self, quota: int, in_use: int, needed: int) -> None:
        super().__init__(
            f"its store is full: {in_use} of {quota} bytes are in use, and this needs {needed} more"
        )
        self.quota = quota


def record_bytes(content: str, tags: str, meta: str | None) -> int:
    """Return the bytes that are counted for a record. `tags` and `meta` are JSON text."""
    texts = 2 * len(content.encode()) + 2 * len(tags.encode())
    return texts + len((meta or "").encode()) + _ROW_BYTES


def setting_bytes(key: str, value: str) -> int:
    """Return the bytes that are counted for a setting."""
    return len(key.encode()) + len(value.encode()) + _ROW_BYTES


def charge(
    connection: sqlite3.Connection, extension: str, added: int, quota: int | None = None
) -> None:
    """Add `added` bytes to the count of an extension. The number is negative if a value is replaced
    by a shorter one.

    Raises QuotaExceeded if bytes are added and the sum exceeds `quota`; None is unlimited. An
    extension that is over its quota can still make its data smaller.
    """
    connection.execute(_TABLE)
    in_use = used(connection, extension)
    if quota is not None and added > 0 and in_use + added > quota:
        raise QuotaExceeded(quota, in_use, added)
    connection.execute("INSERT OR REPLACE INTO usage VALUES (?, ?)", (extension, in_use + added))


def used(connection: sqlite3.Connection, extension: str) -> int:
    """Return the count of an extension in bytes."""
    row = connection.execute("SELECT bytes FROM usage WHERE extension = ?", (extension,)).fetchone()
    return 0 if row is None else int(row[0])
