"""Finds settings that another host changed in the same store.

SQLite reports cheaply whether another connection has written; only then are the settings read and
compared with the known ones. Nothing is polled while nobody subscribes.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from typing import Any, TypeAlias

from exthost.errors import ConfigError
from exthost.extension.deadline_timer import deadline_timer
from exthost.host.api.store import Missing, Store

__all__ = ["POLL_SECONDS", "ExternalChanges"]

_log = logging.getLogger("exthost.host.api")

# Soon enough for a person who changes a setting in another program.
POLL_SECONDS = 1.0

Settings: TypeAlias = dict[tuple[str, str], str]


class ExternalChanges:
    """Polls one store; calls `changed` with extension, key and value, on the loop's thread."""

    def __init__(self, store: Store, changed: Callable[[str, str, str], None]) -> None:
        self._store = store
        self._changed = changed
        self._known: Settings = {}
        self._own_writes: set[tuple[str, str]] = set()
        self._polling: asyncio.Task[None] | None = None
        self._started = asyncio.Event()

    async def start(self) -> None:
        """Start polling; return when the current settings are known. May be called again."""
        if self._polling is None or self._polling.done():
            self._started = asyncio.Event()
            self._polling = asyncio.get_running_loop().create_task(self._poll(self._started))
        await self._started.wait()

    def stop(self) -> None:
        """Stop polling."""
        if self._polling is not None:
            self._polling.cancel()
            self._polling = None

    async def close(self) -> None:
        """Stop polling and wait for the task."""
        polling = self._polling
        self.stop()
        if polling is not None:
            await asyncio.wait([polling])

    def begin_own_write(self, extension: str, key: str) -> None:
        """Ignore changes of this key until `end_own_write`: this host reports its own writes."""
        self._own_writes.add((extension, key))

    def end_own_write(self, extension: str, key: str, value: str | None) -> None:
        """The write is done; None means that it failed."""
        self._own_writes.discard((extension, key))
        if value is not None:
            self._known[extension, key] = value

    async def _poll(self, started: asyncio.Event) -> None:
        loop, due = asyncio.get_running_loop(), asyncio.Event()
        timer = deadline_timer(loop, due.set)
        version: int | None = None
        try:
            version, self._known = await self._read(None)
            started.set()
            while True:
                timer.set(loop.time() + POLL_SECONDS)
                await due.wait()
                due.clear()
                version, settings = await self._read(version)
                self._compare(settings)
        except ConfigError as error:
            _log.warning("what other hosts change is not seen any more: %s", error.message)
        finally:
            started.set()
            timer.cancel()

    def _compare(self, settings: Settings) -> None:
        for key, value in settings.items():
            if key not in self._own_writes and self._known.get(key) != value:
                self._known[key] = value
                self._changed(*key, value)

    async def _read(self, version: int | None) -> tuple[int | None, Settings]:
        """Return the settings, if another connection has written since this version."""
        try:
            return await asyncio.wrap_future(
                self._store.read(lambda connection: _settings_since(connection, version))
            )
        except Missing:
            return None, {}


def _settings_since(connection: sqlite3.Connection, version: int | None) -> tuple[int, Settings]:
    now: Any = connection.execute("PRAGMA data_version").fetchone()[0]
    if now == version:
        return now, {}
    try:
        rows = connection.execute("SELECT extension, key, value FROM config").fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        rows = []
    return now, {(str(extension), str(key)): str(value) for extension, key, value in rows}
