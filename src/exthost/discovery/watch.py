"""Noticing that manifests change: which of them are new, changed, removed or invalid by now.

A change is a change of content: manifests are compared by SHA-256, so that a touch, a checkout of
the same text or an editor that saves twice is none. What counts as a manifest is what the search
counts, by the same walk and the same filters; the operating system only tells us when to look.

`look` is blocking and does all of the comparing; so is making a Watch. `changes` waits for the
system's word, by watchfiles, an optional install that is imported when something is watched.
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
from exthost.discovery.files import read_file
from exthost.discovery.report import Candidate, Diagnostic
from exthost.discovery.search import base_folders, discover, roots
from exthost.discovery.walk import walk
from exthost.errors import ConfigError, ManifestError
from exthost.model import Spec

__all__ = ["Change", "Watch"]

_log = logging.getLogger("exthost.discovery")

What: TypeAlias = Literal["new", "changed", "removed", "invalid"]

# Somebody who keeps writing is not waited for for ever.
_MOST_DEBOUNCES = 10


class Change(NamedTuple):
    """One manifest that is not what it was.

    `extension` is its id now, `before` what it was; "" where there was none. `spec` is the
    extension as it should be now: None if it is invalid, removed, or filtered out. `also` are the
    further ones that its manifest brings along.
    """

    what: What
    path: str
    extension: str = ""
    before: str = ""
    message: str = ""
    spec: Spec | None = None
    also: tuple[Spec, ...] = ()


class Watch:
    """What was known of the manifests at the last look."""

    def __init__(
        self, settings: DiscoverySettings, formats: Sequence[ManifestFormat], base: str
    ) -> None:
        self._settings = settings
        self._formats = formats
        # A program that is its own manifest is started anew as it is, and may be large to hash.
        self._readable = [one for one in formats if not one.executable]
        self._base = base
        self._awatch = _awatch()
        self._digests: dict[str, str] = {}
        self._folders: set[str] = set()  # every folder above a manifest
        self._ids: dict[str, str] = {}
        # What each manifest brought along when the watch began.
        self.brought = {one.path: one.also for one in self.look() if one.also}

    def look(self) -> list[Change]:
        """What has changed since the last look, by path."""
        digests = self._read_digests()
        before, self._digests = self._digests, digests
        self._folders = {folder for path in digests for folder in _above(path)}
        differing = [path for path in digests if before.get(path) != digests[path]]
        removed = [path for path in before if path not in digests]
        if not differing and not removed:
            return []
        report = discover(self._settings, self._formats, base=self._base)
        candidates = {one.path: one for one in report.candidates}
        errors = {one.path: one for one in report.diagnostics if one.level == "error"}
        known, self._ids = self._ids, {path: one.id for path, one in candidates.items()}
        for path in errors.keys() & known.keys():
            self._ids[path] = known[path]  # it goes on as what it was until it is mended
        changes = [Change("removed", path, before=known.get(path, "")) for path in removed]
        for path in differing:
            what: What = "changed" if path in before else "new"
            changes.append(_judged(what, path, known.get(path, ""), candidates, errors))
        return sorted(changes, key=lambda change: change.path)

    async def changes(self, stop: asyncio.Event) -> AsyncGenerator[list[Change], None]:
        """Each time something changed, what. Ends when `stop` is set."""
        roots = self._roots()
        if not roots:
            _log.warning("nothing is watched: none of the search paths is there")
            return
        quiet_ms = self._settings.watch.debounce_ms
        told = self._awatch(
            *roots,
            watch_filter=self._concerns,
            debounce=quiet_ms * _MOST_DEBOUNCES,
            step=quiet_ms,
            stop_event=stop,
            ignore_permission_denied=True,
        )
        waiting = asyncio.ensure_future(anext(told, None))
        try:
            await asyncio.sleep(0)  # by then the system watches: what changed until now is seen
            while True:
                if found := await asyncio.to_thread(self.look):
                    yield found
                if await waiting is None:
                    return
                waiting = asyncio.ensure_future(anext(told, None))
        finally:
            stop.set()
            await asyncio.wait([waiting])
            await told.aclose()

    def _roots(self) -> list[str]:
        paths = (path for path in self._settings.search_paths if path != ON_PATH)
        bases = base_folders(self._settings, self._base)
        found = (root for path in paths for root in roots(path, bases, self._readable))
        real = (root for root in found if not isinstance(root, Diagnostic))
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
        """Whether this is worth a look: a manifest's name, or a folder that came or went."""
        folder, _, name = path.rpartition("/")
        if any(one.claims(name, folder.rpartition("/")[2]) for one in self._readable):
            return True
        if path in self._folders:
            return True
        return change.name == "added" and os.path.isdir(path)  # noqa: PTH112


def _above(path: str) -> Iterator[str]:
    while (path := path.rpartition("/")[0]) != "":
        yield path


def _judged(
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
    found = candidates.get(path)
    if found is None:
        return Change(what, path, before=before, message="it is disabled, nested or shadowed")
    return Change(what, path, found.id, before, spec=found.spec, also=found.also)


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
