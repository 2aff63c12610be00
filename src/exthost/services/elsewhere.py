"""Settings that another host changed in the store which both use, for those who watch here.

SQLite tells cheaply whether anybody else has written at all; only then are the settings read and
compared with what is known. Nothing is looked for while nobody watches.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from typing import Any, TypeAlias

from exthost.errors import ConfigError
from exthost.extension.deadline_timer import deadline_timer
from exthost.services.store import Missing, Store

__all__ = ["LOOK_SECONDS", "Elsewhere"]

_log = logging.getLogger("exthost.services")

# A person who changes a setting elsewhere hardly waits longer.
LOOK_SECONDS = 1.0

Settings: TypeAlias = dict[tuple[str, str], str]


class Elsewhere:
    """Looks into one store; `changed` is told extension, key and value, on the loop's thread."""

    def __init__(self, store: Store, changed: Callable[[str, str, str], None]) -> None:
        self._store = store
        self._changed = changed
        self._known: Settings = {}
        self._ours: set[tuple[str, str]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()

    async def begin(self) -> None:
        """Look from now on; returns when it is known what there is. More than once is no harm."""
        if self._looking is None or self._looking.done():
            self._begun = asyncio.Event()
            self._looking = asyncio.get_running_loop().create_task(self._look(self._begun))
        await self._begun.wait()

    def end(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def close(self) -> None:
        """The same, and see it out."""
        looking = self._looking
        self.end()
        if looking is not None:
            await asyncio.wait([looking])

    def writing(self, extension: str, key: str) -> None:
        """This host writes it: whoever watches is told by the one who does."""
        self._ours.add((extension, key))

    def written(self, extension: str, key: str, value: str | None) -> None:
        """And now it is there, or (None) could not be written."""
        self._ours.discard((extension, key))
        if value is not None:
            self._known[extension, key] = value

    async def _look(self, begun: asyncio.Event) -> None:
        loop, ringing = asyncio.get_running_loop(), asyncio.Event()
        clock = deadline_timer(loop, ringing.set)
        version: int | None = None
        try:
            version, self._known = await self._read(None)
            begun.set()
            while True:
                clock.set(loop.time() + LOOK_SECONDS)
                await ringing.wait()
                ringing.clear()
                version, found = await self._read(version)
                self._compare(found)
        except ConfigError as error:
            _log.warning("what other hosts change is not seen any more: %s", error.message)
        finally:
            begun.set()
            clock.cancel()

    def _compare(self, found: Settings) -> None:
        for place, value in found.items():
            if place not in self._ours and self._known.get(place) != value:
                self._known[place] = value
                self._changed(*place, value)

    async def _read(self, version: int | None) -> tuple[int | None, Settings]:
        """The settings, if anybody else has written since this version."""
        try:
            return await asyncio.wrap_future(self._store.read(lambda one: _since(one, version)))
        except Missing:
            return None, {}


def _since(connection: sqlite3.Connection, version: int | None) -> tuple[int, Settings]:
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
