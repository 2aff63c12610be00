"""Search paths in, report out: the entry point of discovery.

Each root is walked, each manifest is read and passed to its format, and the extensions that the
formats accept go through the filters. Blocking: a program with an event loop calls it in a thread.
Nothing on disk makes it raise; problems are in the report's diagnostics.

Uses `walk` for the files, `files` for their bytes, the manifest formats of the dialects for their
meaning, and `filters`. Must not know a particular dialect, and must not start anything.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from exthost.config.discovery import ON_PATH
from exthost.dialects.manifest_format import ManifestFile, ManifestFormat, Rejected, Remark, Verdict
from exthost.discovery.filters import filter_candidates
from exthost.discovery.links import read_links
from exthost.discovery.report import Candidate, Diagnostic, Report
from exthost.discovery.untrusted_files import escape, is_inside, read_file, system_words
from exthost.discovery.walk import Hit, unsearchable, walk
from exthost.errors import Evidence, ManifestError
from exthost.spec import Package, Spec

__all__ = ["Settings", "base_folders", "resolve_search_path", "discover", "roots"]


class Settings(Protocol):
    """The settings of a search; `exthost.config.DiscoverySettings` implements them."""

    @property
    def enabled(self) -> bool: ...
    @property
    def search_paths(self) -> Sequence[str]: ...
    @property
    def ignore_dirs(self) -> Collection[str]: ...
    @property
    def disabled(self) -> Collection[str]: ...
    @property
    def allowlist(self) -> Sequence[str]: ...
    @property
    def max_depth(self) -> int: ...
    @property
    def follow_links(self) -> bool: ...
    @property
    def prefers_working_folder(self) -> bool: ...


def discover(settings: Settings, formats: Sequence[ManifestFormat], *, base: str = ".") -> Report:
    """Search for the extensions of these formats in the search paths.

    Relative search paths are relative to `base`, the folder of the config file, or to the working
    folder if the settings prefer that; `~` is a home folder. If several formats claim a file, the
    first that does not ignore it decides. The search path `$PATH` means each folder of PATH, where
    only programs directly in it are considered.
    `$SYNAPS` (a dialect in capitals) means the folders that the system of that dialect searches.
    """
    if not settings.enabled:
        return Report()
    candidates: list[Candidate] = []
    diagnostics: list[Diagnostic] = []
    scanned = invalid = 0
    bases = base_folders(settings, base)
    expanded = [
        (path, root) for path in settings.search_paths for root in roots(path, bases, formats)
    ]
    shown = _ConfiguredRoots(bases)
    for index, (search_path, root) in enumerate(expanded):
        if isinstance(root, str):
            shown.add(search_path, root)
        on_path = search_path == ON_PATH
        if isinstance(root, Diagnostic):
            diagnostics.append(root)
            continue
        walked = walk(
            root,
            [format for format in formats if format.executable or not on_path],
            max_depth=1 if on_path else settings.max_depth,
            ignore_dirs=settings.ignore_dirs,
            # A person who puts a folder on PATH allows its programs to be run, and package managers
            # put only links there.
            follow_links=settings.follow_links or on_path,
            wherever=on_path,
            recorded=read_links(root),
        )
        diagnostics += walked.diagnostics
        for hit in walked.hits:
            scanned += 1
            outcome = _read_hit(hit, index, root, settings.follow_links)
            if isinstance(outcome, Candidate):
                candidates.append(outcome)
                diagnostics += [_remark(outcome, warning) for warning in outcome.warnings]
            elif outcome is not None:
                invalid += 1
                diagnostics.append(outcome)
    filtered = filter_candidates(
        candidates, disabled=settings.disabled, allowlist=settings.allowlist
    )
    return Report(
        candidates=filtered.candidates,
        diagnostics=tuple(
            shown.under(diagnostic) for diagnostic in (*diagnostics, *filtered.diagnostics)
        ),
        scanned=scanned,
        disabled=filtered.disabled,
        off=filtered.off,
        invalid=invalid,
    )


def base_folders(settings: Settings, base: str) -> tuple[str, ...]:
    """Return the folders to which search paths may be relative, in the order they are tried."""
    return (".", base) if settings.prefers_working_folder else (base,)


def roots(
    search_path: str, bases: Sequence[str], formats: Sequence[ManifestFormat]
) -> list[str | Diagnostic]:
    """Return the folders that a search path means, in order of precedence.

    A path that cannot be searched is a Diagnostic in the list.
    """
    if search_path == ON_PATH:
        return _program_folders()
    for format in formats:
        if format.homes and search_path == f"${format.dialect.upper()}":
            # Many machines have none of these folders, so a missing one is not reported.
            homes = [resolve_search_path(home, bases) for home in reversed(format.homes)]
            return [root for root in homes if isinstance(root, str)]
    return [resolve_search_path(search_path, bases)]


def _program_folders() -> list[str | Diagnostic]:
    """Return the folders of PATH that exist, each once. A missing one is normal."""
    named = [folder for folder in os.get_exec_path() if os.path.isabs(folder)]  # noqa: PTH117
    real = [os.path.realpath(folder) for folder in named]
    return [folder for folder in dict.fromkeys(real) if Path(folder).is_dir()]


def resolve_search_path(search_path: str, bases: Sequence[str]) -> str | Diagnostic:
    """Return the real path of a search path, relative to the first of `bases` in which it exists,
    or a Diagnostic that says why it has none."""
    tried: dict[str, str] = {}
    for base in bases:
        try:
            path = Path(base, Path(search_path).expanduser())
            return os.path.realpath(path, strict=True)
        except OSError as error:
            tried.setdefault(str(path.absolute()), system_words(error))
        except (RuntimeError, ValueError) as error:
            # pathlib raises RuntimeError for an unknown home; a NUL in a path is a ValueError.
            return unsearchable(search_path, str(error))
    if len(tried) == 1:
        return unsearchable(search_path, *tried.values())
    why = "; ".join(f"{path}: {why}" for path, why in tried.items())
    return unsearchable(list(tried)[-1], why)


def _read_hit(hit: Hit, index: int, root: str, follow_links: bool) -> Candidate | Diagnostic | None:
    """Return the extension of this file, or its error; None if no format accepts the file."""
    for format in hit.formats:
        folder, home = _own_place(hit, format)
        try:
            data = b"" if format.executable else read_file(hit.real)
            if data is None:
                # Deleted since the walk.
                return None
            found = ManifestFile(
                path=hit.path,
                folder=folder,
                data=data,
                root_index=index,
                read_sibling=_Siblings(hit, root, follow_links),
                has_file=_Holds(folder),
            )
            verdict = _read(format, found)
        except ManifestError as error:
            verdict = Rejected((error,))
        if isinstance(verdict, Rejected):
            return Diagnostic.of(verdict.errors, hit.path)
        if verdict is not None:
            return Candidate(
                spec=_placed(verdict.spec, hit.path, folder, home),
                also=tuple(_placed(spec, hit.path, folder, home) for spec in verdict.also),
                path=hit.path,
                folder=folder,
                home=home,
                root_index=index,
                dialect=format.dialect,
                warnings=verdict.warnings,
            )
    return None


def _own_place(hit: Hit, format: ManifestFormat) -> tuple[str, str]:
    """Return the extension's folder, links included, and the real path of what belongs to it."""
    if format.parent:
        return hit.folder.path.rpartition("/")[0] or "/", hit.folder.above
    return hit.folder.path, hit.real if format.executable else hit.folder.real


def _read(format: ManifestFormat, found: ManifestFile) -> Verdict:
    try:
        return format.read(found)
    except ManifestError:
        raise
    except Exception as error:
        # For example a RecursionError for a manifest that is nested a thousand deep. Whatever a
        # reader raises, one file must not hide all the others.
        raise ManifestError(
            "X0202",
            f"its {format.dialect} reader failed: {type(error).__name__}: {error}",
            help="if the manifest is right, this is a bug in exthost: please report it",
            evidence=Evidence(path=found.path),
        ) from error


def _placed(spec: Spec, path: str, folder: str, home: str) -> Spec:
    cwd = folder if spec.cwd is None else spec.cwd
    package = Package(root=home, argv=spec.argv, env=spec.env, cwd=cwd)
    return replace(spec, origin=spec.origin or path, cwd=cwd, manifest_file=path, package=package)


def _remark(candidate: Candidate, warning: str | Remark) -> Diagnostic:
    remark = Remark(warning) if isinstance(warning, str) else warning
    folder = candidate.path.rpartition("/")[0]
    return Diagnostic(
        level="warning",
        path=f"{folder}/{remark.file}" if remark.file else candidate.path,
        line=remark.line,
        code="X0207",
        message=remark.text,
        extension=candidate.id,
    )


class _ConfiguredRoots:
    """Shows paths below a root as its search path has them, where that is a link."""

    def __init__(self, bases: Sequence[str]) -> None:
        self._bases = bases
        self._named: dict[str, str] = {}

    def add(self, search_path: str, root: str) -> None:
        """`root` is the real path of this search path."""
        if search_path.startswith("$"):
            return
        for base in self._bases:
            named = os.path.abspath(Path(base, Path(search_path).expanduser()))  # noqa: PTH100
            if named != root and os.path.realpath(named) == root:
                self._named.setdefault(root, named)
                return

    def under(self, diagnostic: Diagnostic) -> Diagnostic:
        for root, named in self._named.items():
            if is_inside(diagnostic.path, root):
                path = named + diagnostic.path.removeprefix(root)
                more = tuple(self.under(inner) for inner in diagnostic.more)
                return replace(diagnostic, path=path, more=more)
        return diagnostic


class _Siblings:
    """Reads files beside a manifest, under the same rules about links."""

    def __init__(self, hit: Hit, root: str, follow_links: bool) -> None:
        self._folder = hit.folder
        self._root = root if hit.folder.inside == "/" else hit.folder.inside
        self._follow = follow_links

    def __call__(self, name: str) -> bytes | None:
        if "/" in name or name in ("", ".", ".."):
            raise ValueError(f"a sibling has a plain file name, not {name!r}")
        real = f"{self._folder.real.rstrip('/')}/{name}"
        # Called for each of thousands of manifests; a Path takes ten times as long.
        if os.path.islink(real):  # noqa: PTH114
            if not self._follow:
                return None
            target = os.path.realpath(real)
            if not is_inside(target, self._root):
                raise escape(f"{self._folder.path.rstrip('/')}/{name}", target, self._root)
            real = target
        return read_file(real)


class _Holds:
    """Returns whether the extension's folder has a file at a relative path."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, path: str) -> bool:
        # Manifests contain any words here (`--flag`, "a\0b"), so this never raises.
        try:
            inside = os.path.realpath(self._folder)
            real = os.path.realpath(f"{inside}/{path}")
            return (
                not path.startswith("/")
                and real != inside
                and is_inside(real, inside)
                and Path(real).is_file()
            )
        except (OSError, ValueError):
            return False
