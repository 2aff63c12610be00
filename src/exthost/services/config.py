"""What is configured for each extension, by itself or by the program around the host.

Keys and values are text, one space for each extension, kept in the store. Whoever watches is told
of each change that is made through this host, after it is safe, in the order of the changes; what
other hosts change is found by `elsewhere`.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

from exthost.services.store import Store

__all__ = ["Configs"]

_TABLE = """CREATE TABLE IF NOT EXISTS config (
    extension TEXT, key TEXT, value TEXT NOT NULL, PRIMARY KEY (extension, key)) WITHOUT ROWID"""


class _Watcher(NamedTuple):
    extension: str
    keys: frozenset[str] | None
    tell: Callable[[str, str], None]


class Configs:
    """The configs of every extension in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watchers: list[_Watcher] = []

    def get(self, extension: str, key: str) -> Any:
        """A future of the value, or of None."""
        return self._store.read(lambda connection: _get(connection, extension, key))

    def some(self, extension: str, keys: tuple[str, ...]) -> Any:
        """A future of those of these keys that have a value."""

        def read(connection: sqlite3.Connection) -> dict[str, str]:
            found = {key: _get(connection, extension, key) for key in keys}
            return {key: value for key, value in found.items() if value is not None}

        return self._store.read(read)

    def set(self, extension: str, key: str, value: str) -> Any:
        """A future, done when it is safe. Then call `changed`."""
        return self._store.write(lambda connection: _set(connection, extension, key, value))

    def changed(self, extension: str, key: str, value: str) -> None:
        """Tell those who watch. In the thread of those who are told."""
        for one in tuple(self._watchers):
            if one.extension == extension and (one.keys is None or key in one.keys):
                one.tell(key, value)

    @property
    def is_watched(self) -> bool:
        """Whether anybody wants to be told."""
        return bool(self._watchers)

    def watch(
        self, extension: str, keys: frozenset[str] | None, tell: Callable[[str, str], None]
    ) -> Callable[[], None]:
        """Tell of each change of these keys, or of any (None); returns what ends that."""
        watcher = _Watcher(extension, keys, tell)
        self._watchers.append(watcher)

        def end() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return end


def _get(connection: sqlite3.Connection, extension: str, key: str) -> str | None:
    try:
        row = connection.execute(
            "SELECT value FROM config WHERE extension = ? AND key = ?", (extension, key)
        ).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise
    return None if row is None else str(row[0])


def _set(connection: sqlite3.Connection, extension: str, key: str, value: str) -> None:
    connection.execute(_TABLE)
    connection.execute("INSERT OR REPLACE INTO config VALUES (?, ?, ?)", (extension, key, value))
