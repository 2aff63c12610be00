"""Walks a folder tree and finds the files that could be manifests, by their names.

The walk decides about order, depth, ignored folders and symlinks. It does not read files: it asks
each manifest format (see `dialects.manifest_format`) whether a file name is that of a manifest. A
problem becomes a diagnostic, and the walk continues.

**Order and symlinks.** The walk goes level by level. On a level, names are sorted, and real folders
come before symlinks. Each real folder is entered only once. Therefore

- a folder that several paths lead to is entered on its shortest path, with the most depth left;
- a loop of symlinks ends by itself;
- the time is bounded by the number of real folders, however many symlinks lead to each.

A symlink that leads out of the root is not followed, because a symlink to "/" would make the host
walk the whole machine. `walk` has parameters for two exceptions. The results are sorted by path.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from exthost.config.discovery.report import Diagnostic
from exthost.config.discovery.untrusted_files import describe_os_error, is_inside, link_escape_error
from exthost.dialects.manifest_format import ManifestFormat
from exthost.model.empty_mapping import EMPTY_MAPPING


class Folder(NamedTuple):
    """A folder to search.

    path           the path on which the walk reached it; it may contain symlinks
    real           its real path
    parent_real    the real path of the folder that contains it; "" for the root, because the folder
                   above the root is not searched
    link_boundary  the real path of a folder. A symlink in this folder is followed only if its
                   target is inside the boundary. "/", which contains every path, sets no limit
    """

    path: str
    real: str
    parent_real: str = ""
    link_boundary: str = "/"

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Hit(NamedTuple):
    """A file that could be a manifest.

    path     the path on which the walk reached it; it may contain symlinks
    real     its real path
    folder   the folder that contains it
    formats  the manifest formats that its name fits
    """

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
    may_links_leave_root: bool = False,
    installed_links: Mapping[str, str] = EMPTY_MAPPING,
) -> WalkResult:
    """Search below `root`, a real path. The root is depth 0, a file directly in it depth 1.

    formats               the manifest formats to search for
    max_depth             how deep files are searched for; at 0 there is no search
    ignore_dirs           names of folders that are not entered
    follow_links          whether symlinks are followed
    may_links_leave_root  whether a followed symlink may lead out of the root
    installed_links       symlinks directly in the root that are followed even if `follow_links` is
                          false, and even out of the root: name → real path of the target (see
                          `links`)
    """
    state = _Walk(root, tuple(formats), frozenset(ignore_dirs), follow_links, installed_links)
    level = [Folder(root, root, link_boundary="/" if may_links_leave_root else root)]
    depth = 0
    while level and depth < max_depth:
        level = state.search_level(level)
        depth += 1
    state.hits.sort(key=lambda hit: hit.path.split("/"))
    state.diagnostics.sort(key=lambda diagnostic: diagnostic.path.split("/"))
    return WalkResult(state.hits, state.diagnostics)


def unsearchable_diagnostic(path: str, reason: str) -> Diagnostic:
    """Return the diagnostic for a folder, or an entry of a folder, that cannot be read."""
    return Diagnostic(
        level="warning",
        path=path,
        code="X0204",
        message=f"cannot be searched: {reason}",
        help="check that it exists and is readable, or remove it from the search paths",
    )


class _Walk:
    """The state of one walk.

    parents      the folder names that a format's manifests must be in (`ManifestFormat.parent`)
    entered      the folders that were entered, as keys of `_mark_entered`
    hits         the files that could be manifests
    diagnostics  the problems
    """

    def __init__(
        self,
        root: str,
        formats: tuple[ManifestFormat, ...],
        ignored: frozenset[str],
        follow_links: bool,
        installed_links: Mapping[str, str],
    ) -> None:
        self.installed_links = installed_links
        self.formats = formats
        self.ignored = ignored
        self.follow_links = follow_links
        self.parents = {f.parent for f in formats if f.parent}
        self.entered = {(root, "")}
        self.hits: list[Hit] = []
        self.diagnostics: list[Diagnostic] = []

    def search_level(self, level: list[Folder]) -> list[Folder]:
        """Search these folders, all of the same depth. Return the folders of the next depth."""
        folders: list[Folder] = []
        linked_folders: list[Folder] = []
        for folder in level:
            for entry in self._entries(folder):
                path = _join(folder.path, entry.name)
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in self.ignored:
                            real = _join(folder.real, entry.name)
                            folders.append(Folder(path, real, folder.real, folder.link_boundary))
                    elif not entry.is_symlink():
                        self._add_file(entry, path, _join(folder.real, entry.name), folder)
                    elif self._is_installed_link(entry, path, folder):
                        # The target takes the place of the root as the boundary of links in it.
                        real = self.installed_links[entry.name]
                        linked_folders.append(Folder(path, real, folder.real, real))
                    elif self.follow_links:
                        self._follow_link(entry, path, folder, linked_folders)
                except OSError as error:
                    self.diagnostics.append(unsearchable_diagnostic(path, describe_os_error(error)))
        return [folder for folder in (*folders, *linked_folders) if self._mark_entered(folder)]

    def _entries(self, folder: Folder) -> list[os.DirEntry[str]]:
        """Return the entries of a folder, sorted by name. What cannot be read is a diagnostic."""
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
        key = (folder.real, folder.parent_real if folder.name in self.parents else "")
        if key in self.entered:
            return False
        self.entered.add(key)
        return True

    def _is_installed_link(self, entry: os.DirEntry[str], path: str, folder: Folder) -> bool:
        """Return whether this is one of the installed links and leads to its recorded target."""
        # `parent_real` is empty only for the root; a link elsewhere may have the same name.
        if folder.parent_real or entry.name not in self.installed_links or not entry.is_dir():
            return False
        return os.path.realpath(path) == self.installed_links[entry.name]

    def _follow_link(
        self, entry: os.DirEntry[str], path: str, folder: Folder, linked_folders: list[Folder]
    ) -> None:
        """Add the target of a symlink to `linked_folders`, or to the hits if it is a file."""
        if entry.is_dir():
            if entry.name in self.ignored:
                return
            real = self._resolve_link(path, folder, entry.name)
            # The name of the target is compared, too: a symlink must not bypass `ignore_dirs`.
            if real is not None and real.rpartition("/")[2] not in self.ignored:
                linked_folders.append(Folder(path, real, folder.real, folder.link_boundary))
        elif self._matching_formats(entry.name, folder):
            real = self._resolve_link(path, folder, entry.name)
            if real is not None:
                self._add_file(entry, path, real, folder)

    def _resolve_link(self, path: str, folder: Folder, name: str) -> str | None:
        """Return the real path of a symlink's target. If it is outside of `folder.link_boundary`,
        add a diagnostic and return None."""
        real = os.path.realpath(_join(folder.real, name), strict=True)
        if is_inside(real, folder.link_boundary):
            return real
        error = link_escape_error(path, real, folder.link_boundary)
        self.diagnostics.append(Diagnostic.of((error,), path))
        return None

    def _add_file(self, entry: os.DirEntry[str], path: str, real: str, folder: Folder) -> None:
        """Add a file to the hits, if it could be a manifest."""
        matching = self._matching_formats(entry.name, folder)
        if matching and entry.is_file():
            # Any execute bit is enough. Whether this user may run the file is checked when the
            # extension starts.
            is_program = any(f.executable for f in matching) and entry.stat().st_mode & 0o111
            formats = tuple(f for f in matching if is_program or not f.executable)
            if formats:
                self.hits.append(Hit(path, real, folder, formats))

    def _matching_formats(self, name: str, folder: Folder) -> list[ManifestFormat]:
        """Return the formats for which a file of this name in this folder is a manifest."""
        # In a format with a `parent`, the extension is the folder above the manifest's folder. In
        # the root itself such a format matches nothing, because the folder above is not searched.
        # An empty name has this effect.
        parent_name = folder.name if folder.parent_real else ""
        return [f for f in self.formats if f.matches(name, parent_name)]


def _join(folder: str, name: str) -> str:
    return f"/{name}" if folder == "/" else f"{folder}/{name}"
