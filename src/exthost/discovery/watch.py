"""Notices changes of manifests: which are new, changed, removed or invalid.

Only a change of content counts: manifests are compared by SHA-256, so a touch, a checkout of the
same text or an editor that saves twice is not a change. Manifests are found by the same walk and
filters as in a search; the operating system's notifications only say when to look.

`look` compares everything and blocks, and so does making a Watch. `changes` waits for notifications
with watchfiles, an optional dependency that is imported when a Watch is made.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from exthost.config import DiscoverySettings
from exthost.config.discovery import ON_PATH
from exthost.dialects.manifest_format import ManifestFormat
from exthost.discovery.links import read_links
from exthost.discovery.report import Candidate, Diagnostic
from exthost.discovery.search import base_folders, discover, roots
from exthost.discovery.untrusted_files import read_file
from exthost.discovery.walk import walk
from exthost.errors import ConfigError, ManifestError
from exthost.spec import Spec

__all__ = ["Change", "Watch"]

_log = logging.getLogger("exthost.discovery")

What: TypeAlias = Literal["new", "changed", "removed", "invalid"]

# The longest wait for a pause, in debounce times: some programs never stop writing.
_MOST_DEBOUNCES = 10


class Change(NamedTuple):
    """One manifest that changed.

    `extension` is its id now and `before` its id until now; "" if it has or had none. `spec` is the
    extension as it should be now: None if it is invalid, removed, or filtered out. `also` are the
    further extensions that its manifest contains.
    """

    what: What
    path: str
    extension: str = ""
    before: str = ""
    message: str = ""
    spec: Spec | None = None
    also: tuple[Spec, ...] = ()


class Watch:
    """Compares the manifests with those of the last look."""

    def __init__(
        self, settings: DiscoverySettings, formats: Sequence[ManifestFormat], base: str
    ) -> None:
        self._settings = settings
        self._formats = formats
        # A program that is its own manifest may be too large to hash; a restart uses the new one.
        self._readable = [format for format in formats if not format.executable]
        self._base = base
        self._awatch = _awatch()
        self._digests: dict[str, str] = {}
        self._folders: set[str] = set()  # every folder above a manifest
        self._ids: dict[str, str] = {}
        # The further extensions that each manifest contained when the watch began.
        self.brought = {change.path: change.also for change in self.look() if change.also}

    def look(self) -> list[Change]:
        """Return what has changed since the last look, sorted by path."""
        digests = self._read_digests()
        before, self._digests = self._digests, digests
        self._folders = {folder for path in digests for folder in _above(path)}
        differing = [path for path in digests if before.get(path) != digests[path]]
        removed = [path for path in before if path not in digests]
        if not differing and not removed:
            return []
        report = discover(self._settings, self._formats, base=self._base)
        candidates = {each.path: each for each in report.candidates}
        errors = {each.path: each for each in report.diagnostics if each.level == "error"}
        known, self._ids = self._ids, {path: each.id for path, each in candidates.items()}
        for path in errors.keys() & known.keys():
            self._ids[path] = known[path]  # it keeps its id until the manifest is corrected
        changes = [Change("removed", path, before=known.get(path, "")) for path in removed]
        for path in differing:
            what: What = "changed" if path in before else "new"
            changes.append(_change(what, path, known.get(path, ""), candidates, errors))
        return sorted(changes, key=lambda change: change.path)

    async def changes(self, stop: asyncio.Event) -> AsyncGenerator[list[Change], None]:
        """Yield the changes each time there are some. Ends when `stop` is set."""
        roots = self._roots()
        if not roots:
            _log.warning("nothing is watched: no search path exists")
            return
        quiet_ms = self._settings.watch.debounce_ms
        notifications = self._awatch(
            *roots,
            watch_filter=self._concerns,
            debounce=quiet_ms * _MOST_DEBOUNCES,
            step=quiet_ms,
            stop_event=stop,
            ignore_permission_denied=True,
        )
        waiting = asyncio.ensure_future(anext(notifications, None))
        try:
            # After this the system watches, so the first look misses nothing.
            await asyncio.sleep(0)
            while True:
                if changes := await asyncio.to_thread(self.look):
                    yield changes
                if await waiting is None:
                    return
                waiting = asyncio.ensure_future(anext(notifications, None))
        finally:
            stop.set()
            await asyncio.wait([waiting])
            await notifications.aclose()

    def _roots(self) -> list[str]:
        paths = (path for path in self._settings.search_paths if path != ON_PATH)
        bases = base_folders(self._settings, self._base)
        expanded = (root for path in paths for root in roots(path, bases, self._readable))
        real = (root for root in expanded if not isinstance(root, Diagnostic))
        return [root for root in real if os.path.isdir(root)]  # noqa: PTH112

    def _read_digests(self) -> dict[str, str]:
        digests: dict[str, str] = {}
        for root in self._roots():
            walked = walk(
                root,
                self._readable,
                max_depth=self._settings.max_depth,
                ignore_dirs=self._settings.ignore_dirs,
                follow_links=self._settings.follow_links,
                recorded=read_links(root),
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

    def _concerns(self, change: Any, path: str) -> bool:
        """Return whether to look after this notification: it is about a file with the name of a
        manifest, or a folder that was added or removed."""
        folder, _, name = path.rpartition("/")
        if any(format.matches(name, folder.rpartition("/")[2]) for format in self._readable):
            return True
        if path in self._folders:
            return True
        return change.name == "added" and os.path.isdir(path)  # noqa: PTH112


def _above(path: str) -> Iterator[str]:
    while (path := path.rpartition("/")[0]) != "":
        yield path


def _change(
    what: What,
    path: str,
    before: str,
    candidates: dict[str, Candidate],
    errors: dict[str, Diagnostic],
) -> Change:
    if path in errors:
        error = errors[path]
        where = f"line {error.line}: " if error.line else ""
        return Change("invalid", path, error.extension, before, where + error.message)
    candidate = candidates.get(path)
    if candidate is None:
        return Change(what, path, before=before, message="it is disabled, nested or shadowed")
    return Change(what, path, candidate.id, before, spec=candidate.spec, also=candidate.also)


def _awatch() -> Any:
    try:
        from watchfiles import awatch
    except ImportError:
        raise ConfigError(
            "X0131",
            "manifests cannot be watched: watchfiles is not installed",
            help="pip install 'exthost[watch]', or set watch.enabled = false",
        ) from None
    return awatch
