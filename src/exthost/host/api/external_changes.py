"""Detects settings that another host changed in the same store, by polling.

The store is a file of SQLite in which each extension can keep settings (`stored_settings`). Several
hosts of one user have the same file. An extension that has subscribed to a setting is notified
whichever host changes it.

SQLite has a counter (`PRAGMA data_version`) that changes when another connection has written. If
the counter has changed, the settings are read and compared with those of the last poll. The caller
stops the polling while there are no subscriptions to settings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from exthost.errors import ConfigError
from exthost.extension.deadline_timer import make_deadline_timer
from exthost.host.api.store import Missing

if TYPE_CHECKING:
    import sqlite3

    from exthost.host.api.store import Store


_log = logging.getLogger("exthost.host.api")

# Short enough for a person who changes a setting in another program and looks at the effect.
POLL_SECONDS = 1.0

Settings: TypeAlias = dict[tuple[str, str], str]
"""The values of settings, by the id of the extension and the key."""


class ExternalChanges:
    """Polls one store, and calls `on_change` with the extension, the key and the new value of each
    change, on the thread of the event loop."""

    def __init__(self, store: Store, on_change: Callable[[str, str, str], None]) -> None:
        self._store = store
        self._on_change = on_change
        self._last_settings: Settings = {}  # as of the last poll
        # Settings that this host is writing now.
        self._own_writes: set[tuple[str, str]] = set()
        self._poll_task: asyncio.Task[None] | None = None
        self._first_read = asyncio.Event()

    async def start(self) -> None:
        """Start polling, and return when the current settings have been read. Calling this again
        while it polls is allowed."""
        if self._poll_task is None or self._poll_task.done():
            self._first_read = asyncio.Event()
            self._poll_task = asyncio.get_running_loop().create_task(self._poll(self._first_read))
        await self._first_read.wait()

    def stop(self) -> None:
        """Stop polling."""
        if self._poll_task is not None:
            self._poll_task.cancel()
            self._poll_task = None

    async def close(self) -> None:
        """Stop polling and wait for the task."""
        poll_task = self._poll_task
        self.stop()
        if poll_task is not None:
            await asyncio.wait([poll_task])

    def begin_own_write(self, extension: str, key: str) -> None:
        """Do not report changes of this key until `end_own_write`, because this host writes it, and
        reports that itself."""
        self._own_writes.add((extension, key))

    def end_own_write(self, extension: str, key: str, value: str | None) -> None:
        """Report changes of this key again. `value` is what was written, or None if that failed."""
        self._own_writes.discard((extension, key))
        if value is not None:
            self._last_settings[extension, key] = value

    async def _poll(self, first_read: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        due = asyncio.Event()  # the timer sets it when the next poll is due
        timer = make_deadline_timer(loop, due.set)
        version: int | None = None
        has_read = False  # whether `_last_settings` are of this task
        is_failing = False
        try:
            while True:
                try:
                    version, settings = await self._read(version)
                    if has_read:
                        self._compare(settings)
                    else:
                        self._last_settings = settings
                except Exception as error:  # such as a full disk; the next poll may succeed
                    if not is_failing:
                        reason = error.message if isinstance(error, ConfigError) else repr(error)
                        _log.warning("changes by other hosts are not seen for now: %s", reason)
                    version, is_failing = None, True
                else:
                    has_read, is_failing = True, False
                first_read.set()  # also after an error, so that `start` returns
                timer.set(loop.time() + POLL_SECONDS)
                await due.wait()
                due.clear()
        finally:
            first_read.set()
            timer.cancel()

    def _compare(self, settings: Settings) -> None:
        """Report the settings that differ from those of the last poll."""
        for key, value in settings.items():
            if key not in self._own_writes and self._last_settings.get(key) != value:
                self._last_settings[key] = value
                self._on_change(*key, value)

    async def _read(self, version: int | None) -> tuple[int | None, Settings]:
        """Return the current version, and all settings; or no settings if no other connection has
        written since `version`. If there is no store yet, return None and no settings."""
        try:
            return await asyncio.wrap_future(
                self._store.read(lambda connection: _settings_since(connection, version))
            )
        except Missing:
            return None, {}


def _settings_since(connection: sqlite3.Connection, version: int | None) -> tuple[int, Settings]:
    """Return the current version, and all settings unless it is still `version`."""
    data_version: Any = connection.execute("PRAGMA data_version").fetchone()[0]
    if data_version == version:
        return data_version, {}
    import sqlite3

    try:
        rows = connection.execute("SELECT extension, key, value FROM config").fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        rows = []  # nothing was stored yet
    return data_version, {(str(extension), str(key)): str(value) for extension, key, value in rows}
