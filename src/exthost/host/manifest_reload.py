"""Handles changes of manifests while a host is open: reports them, and reloads extensions.

A manifest is a file beside the code of an extension, which says how the extension is run. The host
finds manifests in the folders of `[discovery]`, and watches them if the config enables that.

Reloading is optional: without `replace`, changes are only reported. With it, the extension of a new
or changed manifest is passed to `replace`, which keeps the old extension if the new one does not
get ready. So an invalid manifest, or a manifest whose extension fails to start, does not affect the
running extensions.

A manifest may bundle additional extensions (MCP servers). When the manifest changes, the bundled
extensions that differ are replaced, and those that it no longer lists are unloaded.

A removed manifest is reported, but its extension keeps running, because a `git checkout` may remove
files for a moment.

A guard is an extension that judges tool calls. After each change `update_guards` is called: if an
invalid manifest may be that of a guard, and its extension does not run, the host refuses the calls
that the guard would judge. A running guard continues to judge them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from exthost.config.discovery.watch import Change, Watch
from exthost.errors import ExthostError, NotFound, UsageError
from exthost.events import Bus, ManifestChanged
from exthost.model.spec import Spec

_log = logging.getLogger("exthost.config.discovery")

# The logger of changes. They are also published as events, so a program that prints the events
# silences this logger.
CHANGES_LOG = "exthost.config.discovery.changes"
_changes_log = logging.getLogger(CHANGES_LOG)

Replace = Callable[[Spec, str], Awaitable[None]]
"""A function that replaces the extension with the given id ("" for none) by a new extension with
the given spec. Raises ExthostError if the new extension does not get ready."""

Unload = Callable[[str], Awaitable[None]]
"""A function that ends and removes the extension with the given id."""


class ManifestReloader:
    """Handles the changes that one watch reports, until it is closed."""

    def __init__(
        self,
        watch: Watch,
        bus: Bus,
        replace: Replace | None,
        unload: Unload,
        update_guards: Callable[[], Awaitable[None]],
        *,
        config_ids: frozenset[str],
    ) -> None:
        """`replace` is None if extensions are not to be reloaded. `config_ids` are the ids of the
        extensions that the config itself lists; a manifest never replaces them."""
        self._watch = watch
        self._bus = bus
        self._replace = replace
        self._unload = unload
        self._update_guards = update_guards
        self._config_ids = config_ids
        # The additional extensions of each manifest, by the path of the manifest.
        self._bundled = dict(watch.initial_additional_specs)
        self._stop = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="manifest watch")

    async def close(self) -> None:
        """Stop handling changes."""
        self._stop.set()
        self._task.cancel()  # it may be waiting for an extension that starts slowly
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            async with aclosing(self._watch.changes(self._stop)) as batches:
                async for changes in batches:
                    for change in changes:
                        await self._handle(change)
        except ExthostError as error:
            _log.error("manifests are not watched: %s", error.message)
        except OSError as error:  # most often the limit of inotify watches is reached
            _log.error("manifests are no longer watched: %s", error)
        except Exception:  # a bug here must not end the host, and must be visible
            _log.exception("manifests are no longer watched")

    async def _handle(self, change: Change) -> None:
        """Reload the extension if possible. Report the change, with a note about the result."""
        spec, id = change.spec, change.extension or change.previous_id
        if change.kind == "invalid":
            note = f"{change.message}; the running process continues unchanged"
        elif change.kind == "removed":
            note = "the running process continues unchanged"
        elif self._replace is None or spec is None:
            note = change.message or "restart the host to use it"
        else:
            note = await self._reload(spec, change)
        await self._update_guards()
        level = logging.WARNING if change.kind in ("invalid", "removed") else logging.INFO
        _changes_log.log(level, "[%s] manifest %s: %s (%s)", id, change.kind, change.path, note)
        if ManifestChanged in self._bus.listeners:
            self._bus.publish(ManifestChanged(id, change.path, change.kind, note))

    async def _reload(self, spec: Spec, change: Change) -> str:
        """Replace the extension of a manifest and its bundled ones; return a note for the log."""
        try:
            await self._replace_discovered(spec, change.previous_id)
        except ExthostError as error:
            return f"not reloaded, the running process continues: {error.message}"
        old_bundled = self._bundled.get(change.path, ())
        self._bundled[change.path] = change.additional_specs
        notes = ["reloaded"]
        for server in change.additional_specs:
            if server in old_bundled or server.unrunnable:  # unchanged, or cannot run here
                continue
            try:
                await self._replace_discovered(server, "")
            except ExthostError as error:
                notes.append(f"its server {server.id} is not: {error.message}")
        remaining_ids = {server.id for server in change.additional_specs}
        for server in old_bundled:
            if server.id not in remaining_ids:
                await self._unload_discovered(server.id)
        return "; ".join(notes)

    async def _replace_discovered(self, spec: Spec, old_id: str) -> None:
        """Replace an extension, unless the config lists it. Raises ExthostError."""
        assert self._replace is not None
        if spec.id in self._config_ids:
            raise UsageError("X1312", f"{spec.id} is an entry of the config", extension=spec.id)
        await self._replace(spec, "" if old_id in self._config_ids else old_id)

    async def _unload_discovered(self, id: str) -> None:
        """Unload an extension, unless the config lists it."""
        if id in self._config_ids:
            return
        try:
            await self._unload(id)
        except NotFound:
            pass  # it was never ready, or was unloaded meanwhile
