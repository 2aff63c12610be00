"""Watches the manifests while a host is open: logs and publishes changes, and reloads.

Without `replace` it only reports changes. With it a changed manifest is passed to `replace`, which
must keep the old extension if the new one does not get ready: an invalid manifest, or one whose
extension fails to start, changes nothing that runs. The servers of a manifest follow it: those that
differ are replaced, those that it no longer has are unloaded. A removed manifest is reported and
nothing is stopped: a checkout removes files for a moment.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from exthost.discovery.watch import Change, Watch
from exthost.errors import ExthostError, NotFound, UsageError
from exthost.events import Bus, ManifestChanged
from exthost.spec import Spec

__all__ = ["CHANGES_LOG", "ManifestReloader", "Replace", "Unload"]

_log = logging.getLogger("exthost.discovery")

# Changes are also published as events; a program that shows the events hides this logger.
CHANGES_LOG = "exthost.discovery.changes"
_changes = logging.getLogger(CHANGES_LOG)

Replace = Callable[[Spec, str], Awaitable[None]]
"""Replace the extension of that id ("" for none) by this one. Raises if it does not get ready."""

Unload = Callable[[str], Awaitable[None]]
"""Stop the extension of this id and forget it."""


class ManifestReloader:
    """Handles the changes of one watch until it is closed."""

    def __init__(
        self,
        watch: Watch,
        bus: Bus,
        replace: Replace | None,
        unload: Unload,
        *,
        config_ids: frozenset[str],
    ) -> None:
        """`config_ids` are the entries of the config: a manifest never replaces one of them."""
        self._watch = watch
        self._bus = bus
        self._replace = replace
        self._unload = unload
        self._config_ids = config_ids
        self._brought = dict(watch.brought)
        self._stop = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="manifest watch")

    async def close(self) -> None:
        self._stop.set()
        self._task.cancel()  # it may be waiting for an extension that starts slowly
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            async with aclosing(self._watch.changes(self._stop)) as seen:
                async for changes in seen:
                    for change in changes:
                        await self._handle(change)
        except ExthostError as error:
            _log.error("manifests are not watched: %s", error.message)
        except OSError as error:  # out of watches, most of the time
            _log.error("manifests are no longer watched: %s", error)
        except Exception:  # must neither end the host nor stay unnoticed
            _log.exception("manifests are no longer watched")

    async def _handle(self, change: Change) -> None:
        spec, id = change.spec, change.extension or change.before
        if change.what == "invalid":
            note = f"{change.message}; what runs goes on as it is"
        elif change.what == "removed":
            note = "what runs goes on as it is"
        elif self._replace is None or spec is None:
            note = change.message or "restart the host to use it"
        else:
            note = await self._reload(spec, change)
        level = logging.WARNING if change.what in ("invalid", "removed") else logging.INFO
        _changes.log(level, "[%s] manifest %s: %s (%s)", id, change.what, change.path, note)
        if ManifestChanged in self._bus.kinds:
            self._bus.publish(ManifestChanged(id, change.path, change.what, note))

    async def _reload(self, spec: Spec, change: Change) -> str:
        try:
            await self._replace_found(spec, change.before)
        except ExthostError as error:
            return f"not reloaded, what runs goes on: {error.message}"
        before, self._brought[change.path] = self._brought.get(change.path, ()), change.also
        notes = ["reloaded"]
        for server in change.also:
            if server in before or server.unrunnable:
                continue
            try:
                await self._replace_found(server, "")
            except ExthostError as error:
                notes.append(f"its server {server.id} is not: {error.message}")
        removed = {server.id for server in change.also}
        for server in before:
            if server.id not in removed:
                await self._unload_found(server.id)
        return "; ".join(notes)

    async def _replace_found(self, spec: Spec, before: str) -> None:
        assert self._replace is not None
        if spec.id in self._config_ids:
            raise UsageError("X1312", f"{spec.id} is an entry of the config", extension=spec.id)
        await self._replace(spec, "" if before in self._config_ids else before)

    async def _unload_found(self, id: str) -> None:
        if id in self._config_ids:
            return
        try:
            await self._unload(id)
        except NotFound:
            pass  # it never got ready, or was unloaded meanwhile
