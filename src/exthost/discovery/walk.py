"""One walk below a root: finds the files that could be manifests of any format.

Handles order, depth, ignored folders and links. Does not read files; of a format it only uses the
file names that it claims. A problem on the way is a diagnostic, and the walk continues.

**Order and links.** The walk goes level by level, with sorted names and real folders before links,
and enters each real folder once. So a folder with several paths is entered on its shortest one,
with the most depth left below it; a loop of links ends by itself; and links that multiply each
other take no more time than the number of real folders. The results are sorted by path.

A link that leads out of the root is not followed at all: a link to "/" would otherwise make us walk
the whole machine.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from exthost.dialects.manifest_format import ManifestFormat
from exthost.discovery.report import Diagnostic
from exthost.discovery.untrusted_files import escape, is_inside, system_words
from exthost.empty_mapping import EMPTY_MAPPING

__all__ = ["Folder", "Hit", "Walked", "unsearchable", "walk"]


class Folder(NamedTuple):
    """A folder to be searched: the path on which it was found, its real path, and the real path of
    the folder that contains it ("" for the root, above which we may not read). `inside` is the real
    path that links in it must not leave."""

    path: str
    real: str
    above: str = ""
    inside: str = "/"

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Hit(NamedTuple):
    """A file that could be a manifest of these formats, and its folder."""

    path: str
    real: str
    folder: Folder
    formats: tuple[ManifestFormat, ...]


class Walked(NamedTuple):
    """The result of a walk; both lists are sorted by path."""

    hits: list[Hit]
    diagnostics: list[Diagnostic]


def walk(
    root: str,
    formats: Sequence[ManifestFormat],
    *,
    max_depth: int,
    ignore_dirs: Collection[str],
    follow_links: bool,
    wherever: bool = False,
    recorded: Mapping[str, str] = EMPTY_MAPPING,
) -> Walked:
    """Search below `root`, a real path. The root is depth 0, a file directly in it depth 1.

    Links that are followed must stay inside the root, unless `wherever` is true. Those directly in
    the root that are `recorded`, name → real path, are followed in any case (see `links`).
    """
    search = _Search(root, tuple(formats), frozenset(ignore_dirs), follow_links, recorded)
    level = [Folder(root, root, inside="/" if wherever else root)]
    depth = 0
    while level and depth < max_depth:
        level = search.next_level(level)
        depth += 1
    search.hits.sort(key=lambda hit: hit.path.split("/"))
    search.diagnostics.sort(key=lambda diagnostic: diagnostic.path.split("/"))
    return Walked(search.hits, search.diagnostics)


def unsearchable(path: str, why: str) -> Diagnostic:
    """Return the diagnostic for a folder, or an entry of a folder, that cannot be read."""
    return Diagnostic(
        level="warning",
        path=path,
        code="X0204",
        message=f"cannot be searched: {why}",
        help="check that it is there and that you may read it, or take it out of the search paths",
    )


class _Search:
    """The state of one walk."""

    def __init__(
        self,
        root: str,
        formats: tuple[ManifestFormat, ...],
        ignored: frozenset[str],
        follow: bool,
        recorded: Mapping[str, str],
    ) -> None:
        self.recorded = recorded
        self.formats = formats
        self.ignored = ignored
        self.follow = follow
        self.parents = {f.parent for f in formats if f.parent}
        self.entered = {(root, "")}
        self.hits: list[Hit] = []
        self.diagnostics: list[Diagnostic] = []

    def next_level(self, level: list[Folder]) -> list[Folder]:
        """Search these folders; return the folders to search next."""
        folders: list[Folder] = []
        linked: list[Folder] = []
        for folder in level:
            for entry in self._entries(folder):
                path = _join(folder.path, entry.name)
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in self.ignored:
                            real = _join(folder.real, entry.name)
                            folders.append(Folder(path, real, folder.real, folder.inside))
                    elif not entry.is_symlink():
                        self._file(entry, path, _join(folder.real, entry.name), folder)
                    elif self._is_recorded(entry, path, folder):
                        real = self.recorded[entry.name]
                        linked.append(Folder(path, real, folder.real, real))
                    elif self.follow:
                        self._link(entry, path, folder, linked)
                except OSError as error:
                    self.diagnostics.append(unsearchable(path, system_words(error)))
        return [folder for folder in (*folders, *linked) if self._enter(folder)]

    def _entries(self, folder: Folder) -> list[os.DirEntry[str]]:
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(folder.real) as listing:
                # One by one: if the listing fails half-way, the first half still counts.
                for entry in listing:
                    entries.append(entry)  # noqa: PERF402
        except OSError as error:
            self.diagnostics.append(unsearchable(folder.path, system_words(error)))
        entries.sort(key=lambda entry: entry.name)
        return entries

    def _enter(self, folder: Folder) -> bool:
        """Record that this folder is searched; return False if it already was."""
        # In formats with a `parent`, the name of a folder makes its files manifests, and these
        # belong to the folder above. If links share such a folder, each place is another extension.
        key = (folder.real, folder.above if folder.name in self.parents else "")
        if key in self.entered:
            return False
        self.entered.add(key)
        return True

    def _is_recorded(self, entry: os.DirEntry[str], path: str, folder: Folder) -> bool:
        """Whether this is a link in the root that leads to the folder that is recorded for it."""
        if folder.above or entry.name not in self.recorded or not entry.is_dir():
            return False
        return os.path.realpath(path) == self.recorded[entry.name]

    def _link(
        self, entry: os.DirEntry[str], path: str, folder: Folder, linked: list[Folder]
    ) -> None:
        if entry.is_dir():
            if entry.name in self.ignored:
                return
            real = self._inside(path, folder, entry.name)
            # By either name: a link must not bypass the list.
            if real is not None and real.rpartition("/")[2] not in self.ignored:
                linked.append(Folder(path, real, folder.real, folder.inside))
        elif self._claimed(entry.name, folder):
            real = self._inside(path, folder, entry.name)
            if real is not None:
                self._file(entry, path, real, folder)

    def _inside(self, path: str, folder: Folder, name: str) -> str | None:
        """Return the target of a link, or None with a diagnostic if it is outside."""
        real = os.path.realpath(_join(folder.real, name), strict=True)
        if is_inside(real, folder.inside):
            return real
        self.diagnostics.append(Diagnostic.of((escape(path, real, folder.inside),), path))
        return None

    def _file(self, entry: os.DirEntry[str], path: str, real: str, folder: Folder) -> None:
        claimed = self._claimed(entry.name, folder)
        if claimed and entry.is_file():
            # Any execute bit counts: whether *this user* may run it is checked at the start.
            runs = any(f.executable for f in claimed) and entry.stat().st_mode & 0o111
            formats = tuple(f for f in claimed if runs or not f.executable)
            if formats:
                self.hits.append(Hit(path, real, folder, formats))

    def _claimed(self, name: str, folder: Folder) -> list[ManifestFormat]:
        # The extensions of a format with a `parent` are one folder above. In the root itself such
        # a format matches nothing: the folder above is outside the search path.
        parent = folder.name if folder.above else ""
        return [f for f in self.formats if f.matches(name, parent)]


def _join(folder: str, name: str) -> str:
    return f"/{name}" if folder == "/" else f"{folder}/{name}"
