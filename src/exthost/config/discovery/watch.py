"""Detects changes of manifests: which are new, changed, removed or invalid.

A manifest is the file that describes an extension, such as `roder-extension.toml`. With
`watch = { enabled = true }` in `[discovery]`, a running host reports changes of manifests, and may
reload their extensions.

Manifests are compared by the SHA-256 of their content. So `touch`, a checkout of the same text or
an editor that saves twice is not a change. The manifests are found by the same walk and filters as
in a search; the file notifications of the operating system only decide when to compare.

`Watch.look` reads and compares all manifests, and blocks while it does. The constructor calls it,
and blocks as well. `Watch.changes` waits for notifications with watchfiles, an optional dependency
that the constructor imports.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from exthost.config import DiscoverySettings
from exthost.config.discovery.links import read_links
from exthost.config.discovery.report import Candidate, Diagnostic
from exthost.config.discovery.search import base_folders, discover, expand_search_path
from exthost.config.discovery.untrusted_files import read_file
from exthost.config.discovery.walk import walk
from exthost.config.discovery_section import ENV_PATH
from exthost.dialects.manifest_format import ManifestFormat
from exthost.errors import ConfigError, ManifestError
from exthost.model.spec import Spec

_log = logging.getLogger("exthost.config.discovery")

ChangeKind: TypeAlias = Literal["new", "changed", "removed", "invalid"]

# Changes are reported after one debounce time (`watch.debounce_ms`) without notifications, but at
# the latest after this many debounce times, because some programs never stop writing.
_MAX_DEBOUNCES = 10

# How long changes are not noticed after an event in a folder whose name is not UTF-8.
_RESTART_SECONDS = 5.0


class Change(NamedTuple):
    """One manifest that changed.

    kind              "new", "changed", "removed" or "invalid"
    path              the path of the manifest
    extension         the id of its extension after the change; "" if it has none
    previous_id       the id of its extension before the change; "" if it had none
    message           what is wrong with the manifest, or why its extension is not used; "" if the
                      extension is used or removed
    spec              the extension after the change; None if the manifest is invalid or removed, or
                      if the filters removed the extension
    additional_specs  further extensions that the manifest declares, such as MCP servers
    """

    kind: ChangeKind
    path: str
    extension: str = ""
    previous_id: str = ""
    message: str = ""
    spec: Spec | None = None
    additional_specs: tuple[Spec, ...] = ()


class Watch:
    """Compares the manifests with those of the last call of `look`.

    `initial_additional_specs` has the further extensions that each manifest declared when the watch
    began, by the path of the manifest. Manifests without any are left out.
    """

    def __init__(
        self, settings: DiscoverySettings, formats: Sequence[ManifestFormat], base: str
    ) -> None:
        self._settings = settings
        self._formats = formats
        # Formats whose manifest is the program itself are not watched: a program may be too large
        # to hash, and the next start uses the new program anyway.
        self._watched_formats = [format for format in formats if not format.executable]
        self._base = base
        self._awatch = _import_awatch()
        # Path of a manifest → its digest, or the message of the error that reading it raised: a
        # manifest that becomes readable has changed.
        self._digests: dict[str, str] = {}
        self._folders: set[str] = set()  # every folder above a manifest
        self._ids: dict[str, str] = {}  # path of a manifest → id of its extension
        self.initial_additional_specs = {
            change.path: change.additional_specs
            for change in self.look()
            if change.additional_specs
        }

    def look(self) -> list[Change]:
        """Return the changes since the last call, sorted by path. The first call returns all
        manifests as new."""
        digests = self._read_digests()
        previous_digests, self._digests = self._digests, digests
        self._folders = {folder for path in digests for folder in _parent_folders(path)}
        changed_paths = [
            path for path, digest in digests.items() if previous_digests.get(path) != digest
        ]
        removed_paths = [path for path in previous_digests if path not in digests]
        if not changed_paths and not removed_paths:
            return []
        report = discover(self._settings, self._formats, base=self._base)
        candidates = {candidate.path: candidate for candidate in report.candidates}
        errors = {
            diagnostic.path: diagnostic
            for diagnostic in report.diagnostics
            if diagnostic.level == "error"
        }
        previous_ids = self._ids
        self._ids = {path: candidate.id for path, candidate in candidates.items()}
        for path in errors.keys() & previous_ids.keys():
            # An invalid manifest keeps the id of its extension until it is corrected.
            self._ids[path] = previous_ids[path]
        changes = [
            Change("removed", path, previous_id=previous_ids.get(path, ""))
            for path in removed_paths
        ]
        for path in changed_paths:
            kind: ChangeKind = "changed" if path in previous_digests else "new"
            changes.append(_make_change(kind, path, previous_ids.get(path, ""), candidates, errors))
        return sorted(changes, key=lambda change: change.path)

    async def changes(self, stop: asyncio.Event) -> AsyncGenerator[list[Change], None]:
        """Yield a list of changes each time manifests have changed. End when `stop` is set."""
        roots = [root for root in self._roots() if _is_watchable(root)]
        if not roots:
            _log.warning("nothing is watched: no search path exists")
            return
        debounce_ms = self._settings.watch.debounce_ms
        begin = partial(
            self._awatch,
            *roots,
            watch_filter=self._is_relevant,
            debounce=debounce_ms * _MAX_DEBOUNCES,
            step=debounce_ms,
            stop_event=stop,
            ignore_permission_denied=True,
        )
        notifications = begin()
        next_notification = asyncio.ensure_future(anext(notifications, None))
        try:
            while True:
                # In this event-loop iteration `anext` begins to watch. A later change causes a
                # notification; the comparison below finds earlier changes.
                await asyncio.sleep(0)
                if changes := await asyncio.to_thread(self.look):
                    yield changes
                try:
                    if await next_notification is None:  # `stop` was set
                        return
                except Exception as error:
                    if not _is_about_encoding(error):
                        raise
                    # Something has happened in a folder whose name is not UTF-8, which ends the
                    # notifications. To compare the manifests, that folder is opened, which would be
                    # the next such event. So the notifications begin again only after a while.
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), _RESTART_SECONDS)
                        return
                    notifications = begin()
                next_notification = asyncio.ensure_future(anext(notifications, None))
        finally:
            stop.set()
            await asyncio.wait([next_notification])
            await notifications.aclose()

    def _roots(self) -> list[str]:
        """Return the real paths of the search paths that exist. `$PATH` is left out, because only
        programs without a manifest file are searched for there."""
        paths = (path for path in self._settings.search_paths if path != ENV_PATH)
        bases = base_folders(self._settings, self._base)
        expanded = (
            root
            for path in paths
            for root in expand_search_path(path, bases, self._watched_formats)
        )
        real_paths = (root for root in expanded if not isinstance(root, Diagnostic))
        return [root for root in real_paths if os.path.isdir(root)]  # noqa: PTH112

    def _read_digests(self) -> dict[str, str]:
        """Return the digest of each manifest, or the message of the error, by its path."""
        digests: dict[str, str] = {}
        for root in self._roots():
            walked = walk(
                root,
                self._watched_formats,
                max_depth=self._settings.max_depth,
                ignore_dirs=self._settings.ignore_dirs,
                follow_links=self._settings.follow_links,
                installed_links=read_links(root),
            )
            for hit in walked.hits:
                try:
                    data = read_file(hit.real)
                except ManifestError as unreadable:
                    digests[hit.path] = unreadable.message
                else:
                    if data is not None:
                        digests[hit.path] = hashlib.sha256(data).hexdigest()
        return digests

    def _is_relevant(self, change: Any, path: str) -> bool:
        """Return whether a notification may be about a manifest: the file has the name of one, or
        it is a folder above a manifest, or a new folder."""
        folder, _, name = path.rpartition("/")
        if any(format.matches(name, folder.rpartition("/")[2]) for format in self._watched_formats):
            return True
        if path in self._folders:
            return True
        return change.name == "added" and os.path.isdir(path)  # noqa: PTH112


def _is_watchable(root: str) -> bool:
    """Return whether watchfiles can watch this folder: not if its path is not UTF-8, which is
    logged."""
    try:
        root.encode()
    except UnicodeEncodeError:
        shown = root.encode("utf-8", "backslashreplace").decode()
        _log.warning("%s is not watched: its path is not UTF-8", shown)
        return False
    return True


def _is_about_encoding(error: Exception) -> bool:
    """Return whether watchfiles raised this because a changed path is not UTF-8."""
    errors = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
    return all("Unable to decode path" in str(each) for each in errors)


def _parent_folders(path: str) -> Iterator[str]:
    while (path := path.rpartition("/")[0]) != "":
        yield path


def _make_change(
    kind: ChangeKind,
    path: str,
    previous_id: str,
    candidates: dict[str, Candidate],
    errors: dict[str, Diagnostic],
) -> Change:
    """Return the change of a manifest that is there. `candidates` and `errors` are the results of a
    search, by the paths of manifests."""
    if path in errors:
        error = errors[path]
        where = f"line {error.line}: " if error.line else ""
        return Change("invalid", path, error.extension, previous_id, where + error.message)
    candidate = candidates.get(path)
    if candidate is None:
        message = "it is disabled, nested or shadowed"
        return Change(kind, path, previous_id=previous_id, message=message)
    return Change(
        kind,
        path,
        candidate.id,
        previous_id,
        spec=candidate.spec,
        additional_specs=candidate.additional_specs,
    )


def _import_awatch() -> Any:
    try:
        from watchfiles import awatch
    except ImportError:
        raise ConfigError(
            "X0131",
            "manifests cannot be watched: watchfiles is not installed",
            help="pip install 'exthost[watch]', or set watch.enabled = false",
        ) from None
    return awatch
