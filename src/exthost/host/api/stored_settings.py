"""Stores settings of extensions, and notifies subscribers of changes.

Settings are written by the extensions themselves, or by the program that uses the host. Keys and
values are strings; each extension has its own keys. Subscribers are notified of each change that
this host makes, after it is on disk, in the order of the changes. Changes by other hosts are
detected by `external_changes`.

sqlite3 is imported where it is used, because few extensions store anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import sqlite3

    from exthost.host.api.store import Store


_TABLE = """CREATE TABLE IF NOT EXISTS config (
    extension TEXT, key TEXT, value TEXT NOT NULL, PRIMARY KEY (extension, key)) WITHOUT ROWID"""


class _Subscriber(NamedTuple):
    """A subscriber. `keys` of None means every key. `notify` gets the key and the value."""

    extension: str
    keys: frozenset[str] | None
    notify: Callable[[str, str], None]


class StoredSettings:
    """The settings of every extension in one store. Methods that read or write return a
    `concurrent.futures.Future`, which the thread of the store completes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._subscribers: list[_Subscriber] = []
        # The values that `live_view` returned, by extension; `report_change` updates them.
        self._live_values: dict[str, dict[str, str]] = {}

    def get(self, extension: str, key: str) -> Any:
        """Return a future of the value; None if the key has none."""
        return self._store.read(lambda connection: _get(connection, extension, key))

    def get_many(self, extension: str, keys: tuple[str, ...]) -> Any:
        """Return a future of the values of these keys. Keys without a value are left out."""

        def read(connection: sqlite3.Connection) -> dict[str, str]:
            values = {key: _get(connection, extension, key) for key in keys}
            return {key: value for key, value in values.items() if value is not None}

        return self._store.read(read)

    def set(self, extension: str, key: str, value: str, quota: int | None = None) -> Any:
        """Store a value; return a future that is done when it is on disk. The caller then calls
        `report_change`. The future raises QuotaExceeded if the extension would then store more than
        `quota` bytes; None is unlimited."""
        return self._store.write(lambda connection: _set(connection, extension, key, value, quota))

    def live_view(self, extension: str, values: Mapping[str, str]) -> Mapping[str, str]:
        """Return a read-only view of these settings of an extension. `report_change` updates it, so
        a process that is started later gets the values as they are then."""
        self._live_values[extension] = dict(values)
        return MappingProxyType(self._live_values[extension])

    def report_change(self, extension: str, key: str, value: str) -> None:
        """Update the live view of the extension, and notify the subscribers in the calling
        thread."""
        if extension in self._live_values:
            self._live_values[extension][key] = value
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
        """Call `notify` with the key and the value at each change of these keys, or of any key
        (None). Return a function that ends the subscription."""
        subscriber = _Subscriber(extension, keys, notify)
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe


def _get(connection: sqlite3.Connection, extension: str, key: str) -> str | None:
    import sqlite3

    try:
        row = connection.execute(
            "SELECT value FROM config WHERE extension = ? AND key = ?", (extension, key)
        ).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):  # nothing was stored yet: `_set` creates the table
            return None
        raise
    return None if row is None else str(row[0])


def _set(
    connection: sqlite3.Connection, extension: str, key: str, value: str, quota: int | None
) -> None:
    connection.execute(_TABLE)
    old_value = _get(connection, extension, key)
    from exthost.host.api.store_quota import charge, setting_bytes

    freed_bytes = 0 if old_value is None else setting_bytes(key, old_value)
    charge(connection, extension, setting_bytes(key, value) - freed_bytes, quota)
    connection.execute("INSERT OR REPLACE INTO config VALUES (?, ?, ?)", (extension, key, value))
