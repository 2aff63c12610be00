"""Loads the extensions that a config lists, and applies the changes when the config is reloaded.

A reload loses no call. If the settings of an extension changed, a new extension is started while
the old one still runs, and then replaces it. An extension that the config no longer lists finishes
its calls in flight and ends. If the new extension does not start, or its manifest has an error, the
error is reported and the old one stays. Other extensions are not touched.

A spec is the configuration of one extension: command, variables, limits, permissions. It may have
been read from a manifest, a file beside the code of the extension. A guard is an extension that
judges tool calls. If the manifest of a guard has an error, a refused guard (see `known_hooks`)
takes its place: an extension that never runs, because of which the host refuses the calls that the
guard would judge. A refused guard is removed when the manifest is accepted, or the extension is
disabled or removed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from exthost.errors import ExthostError

if TYPE_CHECKING:
    from exthost.config.discovery.report import RejectedManifest
    from exthost.extension.extension import Extension
    from exthost.host.api.host_api import HostApi
    from exthost.host.control.served_host import ReloadOutcome
    from exthost.host.extension_factory import ExtensionFactory
    from exthost.host.extension_set import ExtensionSet
    from exthost.model.spec import Spec


class ConfigReloader:
    """Loads the extensions that the config of one host lists. It keeps their specs, with which the
    next reload compares the new ones. The host calls one method at a time (`ExtensionSet.lock`)."""

    def __init__(self, extensions: ExtensionSet, factory: ExtensionFactory, api: HostApi) -> None:
        self._extensions = extensions
        self._factory = factory
        self._api = api
        self._specs: dict[str, Spec] = {}
        self._refused_guards: dict[str, Spec] = {}

    async def open(self, specs: Sequence[Spec], guards: Sequence[Spec] = ()) -> list[Extension]:
        """Add the extensions that are enabled, and start the eager ones (those that start with the
        host). Add the refused guards. Return when each eager extension is ready or has failed."""
        enabled = [spec for spec in specs if spec.enabled]
        self._specs = {spec.id: spec for spec in enabled}
        self._refused_guards = {spec.id: spec for spec in guards}
        return await self._add([*guards, *enabled])

    async def reload(
        self,
        specs: Sequence[Spec],
        guards: Sequence[Spec],
        rejected: Sequence[RejectedManifest],
    ) -> ReloadOutcome:
        """Add, replace and remove extensions so that the host has those of `specs`, and the refused
        `guards`. Return when the new ones are ready or have failed. `rejected` are the manifests
        with errors: an extension of such a manifest stays as it is, and the error is reported."""
        enabled = {spec.id: spec for spec in specs if spec.enabled}
        by_id = self._extensions.by_id  # the extensions that the host has now
        await self._retire_guards(guards, keep=enabled.keys())

        # Remove the extensions that are gone. One whose manifest has an error stays.
        unlisted = [id for id in self._specs if id not in enabled and id in by_id]
        broken = {id: error for id in unlisted if (error := self._find_error(id, rejected))}
        removed = [id for id in unlisted if id not in broken]
        for id in removed:
            await self._extensions.retire(id)

        # Replace the extensions whose specs have changed.
        differing = [id for id, spec in enabled.items() if self._specs.get(id) != spec]
        changed = [id for id in differing if id in by_id]
        errors = await asyncio.gather(*(self._replace(enabled[id]) for id in changed))
        failed = [*broken.values(), *(error for error in errors if error is not None)]

        added = [spec for id, spec in enabled.items() if id not in by_id]
        # Before they are added: the next reload must know them even if this one is cancelled.
        self._specs |= {spec.id: spec for spec in added}
        # Guards first: an extension that is added must not be called without its guard.
        new_extensions = [*await self._add_guards(guards), *await self._add(added)]
        failed += [extension.cause for extension in new_extensions if extension.cause is not None]

        # An extension that could not be replaced keeps its old spec, so that the next reload
        # sees the difference and tries again.
        not_replaced = {error.extension for error in failed} & set(changed)
        kept_ids = not_replaced | broken.keys()
        old_specs = {id: spec for id, spec in self._specs.items() if id in kept_ids}
        self._specs = enabled | old_specs
        # Imported here and below where it is needed, because most hosts never reload.
        from exthost.host.control.served_host import ReloadOutcome

        return ReloadOutcome(
            tuple(spec.id for spec in added),
            tuple(id for id in changed if id not in not_replaced),
            tuple(removed),
            tuple(failed),
        )

    async def update_guards(self, guards: Sequence[Spec]) -> None:
        """Add and remove refused guards so that the host has exactly these. Other extensions are
        not changed."""
        await self._retire_guards(guards, keep=())
        await self._add_guards(guards)

    def _find_error(self, id: str, rejected: Sequence[RejectedManifest]) -> ExthostError | None:
        """Return the error in the manifest of an extension that was loaded before. Return None if
        the manifest is gone or has no error, or if the extension is disabled."""
        path = _real_manifest(self._specs[id])
        for manifest in rejected:
            is_own = manifest.diagnostic.extension == id or os.path.realpath(manifest.path) == path
            if is_own:
                error = manifest.diagnostic.as_error()
                error.extension = id
                return error
        return None

    async def _retire_guards(self, guards: Sequence[Spec], keep: Collection[str]) -> None:
        """Remove the refused guards that are not among `guards`. Those whose ids are in `keep` are
        replaced instead: their manifests are accepted now."""
        new_guards = {spec.id: spec for spec in guards}
        for id, spec in tuple(self._refused_guards.items()):
            if new_guards.get(id) != spec:
                del self._refused_guards[id]
                extension = self._extensions.by_id.get(id)
                # If the specs differ, the watcher of the manifests has replaced the refused guard
                # by an extension whose manifest is accepted, which stays.
                if id not in keep and extension is not None and extension.spec == spec:
                    await self._extensions.retire(id)

    async def _add_guards(self, guards: Sequence[Spec]) -> list[Extension]:
        """Add the refused guards. If an extension that was loaded from an earlier version of the
        manifest still runs, it continues to judge calls, so its refused guard is not added."""
        by_id = self._extensions.by_id
        running = {_real_manifest(extension.spec) for extension in by_id.values()}
        new_guards = [
            spec for spec in guards if spec.id not in by_id and _real_manifest(spec) not in running
        ]
        self._refused_guards |= {spec.id: spec for spec in new_guards}
        return await self._add(new_guards)

    async def _add(self, specs: Sequence[Spec]) -> list[Extension]:
        """Add these extensions and start the eager ones. Return all of them, including those that
        failed."""
        complete_specs = [await self._api.with_stored_settings(spec) for spec in specs]
        added = [self._extensions.add(spec, self._factory) for spec in complete_specs]
        from exthost.extension.parallel_start import start_all

        await start_all(
            extension.start for extension in added if extension.internals.starts_eagerly
        )
        return added

    async def _replace(self, spec: Spec) -> ExthostError | None:
        """Replace the extension with the id of this spec. Return None, or the error if the new
        extension does not get ready."""
        complete_spec = await self._api.with_stored_settings(spec)
        try:
            await self._extensions.replace(complete_spec, spec.id, self._factory)
        except ExthostError as error:
            error.extension = spec.id
            return error
        return None


def _real_manifest(spec: Spec) -> str:
    """Return the real path of the manifest of an extension; "" if it has none."""
    return os.path.realpath(spec.manifest_file) if spec.manifest_file else ""
