"""Walks a folder tree and finds the files that could be manifests, by their names.

The walk decides about order, depth, ignored folders and symlinks. It does not read files: it asks
each manifest format whether a file name is one of its own. A problem becomes a diagnostic, and the
walk continues.

**Order and symlinks.** The walk goes level by level. On a level, names are sorted, and real folders
come before symlinks. Each real folder is entered only once. Therefore

- a folder that several paths lead to is entered on its shortest path, with the most depth left;
- a loop of symlinks ends by itself;
- the time is bounded by the number of real folders, however many symlinks lead to each.

A symlink that leads out of the root is not followed. Otherwise a symlink to "/" would make the host
walk the whole machine. The results are sorted by path.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from exthost.dialects.manifest_format import ManifestFormat
from exthost.discovery.report import Diagnostic
from exthost.discovery.untrusted_files import describe_os_error, is_inside, link_escape_error
from exthost.empty_mapping import EMPTY_MAPPING

__all__ = ["Folder", "Hit", "WalkResult", "unsearchable_diagnostic", "walk"]


class Folder(NamedTuple):
    """A folder to search.

    path    the path on which the walk reached it; it may contain symlinks
    real    its real path
    above   the real path of the folder that contains it; "" for the root, which has no folder above
            it that may be read
    inside  the real path of a folder that symlinks in this one must not leave; "/" for no limit
    """

    path: str
    real: str
    above: str = ""
    inside: str = "/"

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Hit(NamedTuple):
    """A file that could be a manifest: by its name it fits these formats."""

    path: str
    real: str
    folder: Folder
    formats: tuple[ManifestFormat, ...]


class WalkResult(NamedTuple):
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
) -> WalkResult:
    """Search below `root`, a real path. The root is depth 0, a file directly in it depth 1.

    follow_links  whether symlinks are followed; they must not lead out of the root
    wherever      symlinks may lead out of the root
    recorded      symlinks directly in the root that are followed in any case: name → real path of
                  the target (see `links`)
    """
    search = _Search(root, tuple(formats), frozenset(ignore_dirs), follow_links, recorded)
    level = [Folder(root, root, inside="/" if wherever else root)]
    depth = 0
    while level and depth < max_depth:
        level = search.next_level(level)
        depth += 1
    search.hits.sort(key=lambda hit: hit.path.split("/"))
    search.diagnostics.sort(key=lambda diagnostic: diagnostic.path.split("/"))
    return WalkResult(search.hits, search.diagnostics)


def unsearchable_diagnostic(path: str, why: str) -> Diagnostic:
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
                        self._add_file(entry, path, _join(folder.real, entry.name), folder)
                    elif self._is_recorded(entry, path, folder):
                        real = self.recorded[entry.name]
                        linked.append(Folder(path, real, folder.real, real))
                    elif self.follow:
                        self._follow_link(entry, path, folder, linked)
                except OSError as error:
                    self.diagnostics.append(unsearchable_diagnostic(path, describe_os_error(error)))
        return [folder for folder in (*folders, *linked) if self._mark_entered(folder)]

    def _entries(self, folder: Folder) -> list[os.DirEntry[str]]:
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(folder.real) as listing:
                # One by one: if the listing fails half-way, the first half is still used.
                for entry in listing:
                    entries.append(entry)  # noqa: PERF402
        except OSError as error:
            self.diagnostics.append(unsearchable_diagnostic(folder.path, describe_os_error(error)))
        entries.sort(key=lambda entry: entry.name)
        return entries

    def _mark_entered(self, folder: Folder) -> bool:
        """Record that this folder is searched; return False if it already was."""
        # In a format with a `parent`, a manifest lies in a folder of that name and belongs to the
        # folder above. If symlinks make several folders share such a folder, each of those is
        # another extension. Therefore such a folder is entered once for each folder above it.
        key = (folder.real, folder.above if folder.name in self.parents else "")
        if key in self.entered:
            return False
        self.entered.add(key)
        return True

    def _is_recorded(self, entry: os.DirEntry[str], path: str, folder: Folder) -> bool:
        """Return whether this is a symlink in the root that leads to its recorded target."""
        if folder.above or entry.name not in self.recorded or not entry.is_dir():
            return False
        return os.path.realpath(path) == self.recorded[entry.name]

    def _follow_link(
        self, entry: os.DirEntry[str], path: str, folder: Folder, linked: list[Folder]
    ) -> None:
        if entry.is_dir():
            if entry.name in self.ignored:
                return
            real = self._resolve_inside(path, folder, entry.name)
            # The name of the target is compared, too: a symlink must not bypass `ignore_dirs`.
            if real is not None and real.rpartition("/")[2] not in self.ignored:
                linked.append(Folder(path, real, folder.real, folder.inside))
        elif self._matching_formats(entry.name, folder):
            real = self._resolve_inside(path, folder, entry.name)
            if real is not None:
                self._add_file(entry, path, real, folder)

    def _resolve_inside(self, path: str, folder: Folder, name: str) -> str | None:
        """Return the real path of a symlink's target. If it is outside of `folder.inside`, add a
        diagnostic and return None."""
        real = os.path.realpath(_join(folder.real, name), strict=True)
        if is_inside(real, folder.inside):
            return real
        self.diagnostics.append(
            Diagnostic.of((link_escape_error(path, real, folder.inside),), path)
        )
        return None

    def _add_file(self, entry: os.DirEntry[str], path: str, real: str, folder: Folder) -> None:
        matching = self._matching_formats(entry.name, folder)
        if matching and entry.is_file():
            # Any execute bit is enough. Whether this user may run the file is checked at the start.
            is_program = any(f.executable for f in matching) and entry.stat().st_mode & 0o111
            formats = tuple(f for f in matching if is_program or not f.executable)
            if formats:
                self.hits.append(Hit(path, real, folder, formats))

    def _matching_formats(self, name: str, folder: Folder) -> list[ManifestFormat]:
        # In a format with a `parent`, the extension is the folder above the manifest's folder. In
        # the root itself such a format matches nothing: the folder above is outside.
        parent = folder.name if folder.above else ""
        return [f for f in self.formats if f.matches(name, parent)]


def _join(folder: str, name: str) -> str:
    return f"/{name}" if folder == "/" else f"{folder}/{name}"
