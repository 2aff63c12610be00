"""Settings of extensions in the store, written by themselves or by the program around the host.

Keys and values are text; each extension has its own keys. Subscribers are notified of each change
that is made through this host, after it is on disk, in the order of the changes. Changes by other
hosts are found by `external_changes`.
"""

import sqlite3
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from exthost.host.api.store import Store
from exthost.host.api.store_quota import charge, setting_bytes

__all__ = ["StoredSettings"]

_TABLE = """CREATE TABLE IF NOT EXISTS config (
    extension TEXT, key TEXT, value TEXT NOT NULL, PRIMARY KEY (extension, key)) WITHOUT ROWID"""


class _Subscriber(NamedTuple):
    extension: str
    keys: frozenset[str] | None
    notify: Callable[[str, str], None]


class StoredSettings:
    """The settings of every extension in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._subscribers: list[_Subscriber] = []
        self._latest: dict[str, dict[str, str]] = {}

    def get(self, extension: str, key: str) -> Any:
        """Return a future of the value, or of None."""
        return self._store.read(lambda connection: _get(connection, extension, key))

    def get_many(self, extension: str, keys: tuple[str, ...]) -> Any:
        """Return a future of those of these keys that have a value."""

        def read(connection: sqlite3.Connection) -> dict[str, str]:
            values = {key: _get(connection, extension, key) for key in keys}
            return {key: value for key, value in values.items() if value is not None}

        return self._store.read(read)

    def set(self, extension: str, key: str, value: str, quota: int | None = None) -> Any:
        """Return a future that is done when the value is on disk. Then call `changed`. It raises
        QuotaExceeded if the extension would have more bytes than `quota`."""
        return self._store.write(lambda connection: _set(connection, extension, key, value, quota))

    def latest(self, extension: str, values: Mapping[str, str]) -> Mapping[str, str]:
        """Return a view of the settings of an extension that begins with these values and follows
        each change: a process that is started later gets the values of then."""
        self._latest[extension] = dict(values)
        return MappingProxyType(self._latest[extension])

    def changed(self, extension: str, key: str, value: str) -> None:
        """Update the view of the settings, and notify the subscribers in the calling thread."""
        if extension in self._latest:
            self._latest[extension][key] = value
        for subscriber in tuple(self._subscribers):
            if subscriber.extension == extension and (
                subscriber.keys is None or key in subscriber.keys
            ):
                subscriber.notify(key, value)

    @property
    def has_subscribers(self) -> bool:
        """Whether anybody is notified of changes."""
        return bool(self._subscribers)

    def subscribe(
        self, extension: str, keys: frozenset[str] | None, notify: Callable[[str, str], None]
    ) -> Callable[[], None]:
        """Notify of each change of these keys, or of any key (None); return what ends that."""
        subscriber = _Subscriber(extension, keys, notify)
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe


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


def _set(
    connection: sqlite3.Connection, extension: str, key: str, value: str, quota: int | None
) -> None:
    connection.execute(_TABLE)
    before = _get(connection, extension, key)
    freed = 0 if before is None else setting_bytes(key, before)
    charge(connection, extension, setting_bytes(key, value) - freed, quota)
    connection.execute("INSERT OR REPLACE INTO config VALUES (?, ?, ?)", (extension, key, value))
