"""Searches for extensions: `discover`, the entry point of discovery.

The extensions are found by their manifests: files such as `roder-extension.toml`, which describe
them. `configfile` calls `discover` for a config with a section `[discovery]`, and gets a
`SearchReport` with the extensions and the problems.

Search paths are expanded to roots (real folders). `walk` returns a `Hit` for each file below a root
that could be a manifest; the file is read into a `ManifestFile`; the manifest format of a dialect
(the protocol that an extension speaks) parses that into the `Spec` of a `Candidate`; and `filters`
decides which candidates are used. The module knows no particular dialect, and starts no process.

The functions block: a program with an event loop calls them in a thread. Nothing on disk makes them
raise; problems are reported as diagnostics.
"""

import logging
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from exthost.config.discovery.filters import filter_candidates, filter_rejected
from exthost.config.discovery.links import read_links
from exthost.config.discovery.report import Candidate, Diagnostic, RejectedManifest, SearchReport
from exthost.config.discovery.untrusted_files import (
    describe_os_error,
    is_inside,
    link_escape_error,
    read_file,
)
from exthost.config.discovery.walk import Hit, unsearchable_diagnostic, walk
from exthost.config.discovery_section import ENV_PATH
from exthost.dialects.find import find_dialect, find_distribution
from exthost.dialects.manifest_format import ManifestFile, ManifestFormat, Rejected, Remark, Verdict
from exthost.errors import ConfigError, Evidence, ManifestError
from exthost.model.spec import Package, Spec

_log = logging.getLogger("exthost.config.discovery")


class SearchSettings(Protocol):
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


def discover(
    settings: SearchSettings, formats: Sequence[ManifestFormat], *, base: str = "."
) -> SearchReport:
    """Search for the extensions of these formats in the search paths.

    A relative search path is relative to `base`, the folder of the config file, or to the working
    folder if the settings prefer that; `~` is a home folder. The search path `$PATH` stands for
    every folder of PATH; only the programs directly in these folders are considered. A search path
    such as `$SYNAPS`, the name of a dialect in capitals, stands for the folders that the original
    host of that dialect searches.

    If the name of a file fits several formats, they are tried in order until one accepts or rejects
    the file.
    """
    if not settings.enabled:
        return SearchReport()
    candidates: list[Candidate] = []
    diagnostics: list[Diagnostic] = []
    rejected: list[RejectedManifest] = []
    scanned = 0
    bases = base_folders(settings, base)
    # Each root with its search path, of which it may be one of several. In place of a root that
    # cannot be searched is a Diagnostic.
    expanded = [
        (path, root)
        for path in settings.search_paths
        for root in expand_search_path(path, bases, formats)
    ]
    configured_paths = _ConfiguredPaths(bases)
    for index, (search_path, root) in enumerate(expanded):
        if isinstance(root, Diagnostic):
            diagnostics.append(root)
            continue
        configured_paths.add(search_path, root)
        is_env_path = search_path == ENV_PATH
        walked = walk(
            root,
            [format for format in formats if format.executable or not is_env_path],
            max_depth=1 if is_env_path else settings.max_depth,
            ignore_dirs=settings.ignore_dirs,
            # A user who puts a folder on PATH allows its programs to be run, and package managers
            # put only links there, which lead to other folders.
            follow_links=settings.follow_links or is_env_path,
            may_links_leave_root=is_env_path,
            installed_links=read_links(root),
        )
        diagnostics += walked.diagnostics
        for hit in walked.hits:
            scanned += 1
            outcome = _read_hit(hit, index, root, settings.follow_links)
            if isinstance(outcome, Candidate):
                candidates.append(outcome)
                diagnostics += [
                    _warning_diagnostic(outcome, warning) for warning in outcome.warnings
                ]
            elif outcome is not None:
                rejected.append(outcome)
                diagnostics.append(outcome.diagnostic)
    # For the roots of a search path such as `$SYNAPS`, that path; "" for the others.
    homes = [path if path != ENV_PATH and path.startswith("$") else "" for path, _ in expanded]
    filtered = filter_candidates(
        candidates, disabled=settings.disabled, allowlist=settings.allowlist, homes=homes
    )
    return SearchReport(
        candidates=filtered.candidates,
        diagnostics=tuple(
            configured_paths.restore_in(diagnostic)
            for diagnostic in (*diagnostics, *filtered.diagnostics)
        ),
        scanned=scanned,
        disabled_count=len(filtered.disabled_candidates),
        disabled_candidates=filtered.disabled_candidates,
        invalid=len(rejected),
        rejected=filter_rejected(
            rejected, candidates, disabled=settings.disabled, allowlist=settings.allowlist
        ),
        rivals=filtered.rivals,
        searched=tuple(
            configured_paths.name_of(root) for _, root in expanded if isinstance(root, str)
        ),
    )


def base_folders(settings: SearchSettings, base: str) -> tuple[str, ...]:
    """Return the folders to which search paths may be relative, in the order they are tried."""
    return (".", base) if settings.prefers_working_folder else (base,)


def expand_search_path(
    search_path: str, bases: Sequence[str], formats: Sequence[ManifestFormat]
) -> list[str | Diagnostic]:
    """Return the folders that a search path stands for, in order of precedence. In place of a
    folder that cannot be searched, the list has a Diagnostic."""
    if search_path == ENV_PATH:
        return _program_folders()
    for format in formats:
        if format.homes and search_path == f"${format.dialect.upper()}":
            # Reversed: `homes` is in ascending priority, and the result in descending precedence.
            # Many machines have none of these folders, so a missing one is not reported.
            homes = [
                resolve_search_path(home, bases) for home in reversed(format.homes_in(os.environ))
            ]
            return [root for root in homes if isinstance(root, str)]
    return [resolve_search_path(search_path, bases)]


def _program_folders() -> list[str | Diagnostic]:
    """Return the folders of PATH that exist, each once. Missing ones are not reported, since they
    are common."""
    absolute = [folder for folder in os.get_exec_path() if os.path.isabs(folder)]  # noqa: PTH117
    real = [os.path.realpath(folder) for folder in absolute]
    # Unlike `Path.is_dir`, `os.path.isdir` does not raise for a folder in one that is not readable.
    return [folder for folder in dict.fromkeys(real) if os.path.isdir(folder)]  # noqa: PTH112


def resolve_search_path(search_path: str, bases: Sequence[str]) -> str | Diagnostic:
    """Return the real path of a search path, relative to the first of `bases` in which it exists.
    If it exists in none of them, return a Diagnostic with the reason for each."""
    reasons: dict[str, str] = {}  # the paths that were tried, and why each cannot be used
    for base in bases:
        try:
            path = Path(base, Path(search_path).expanduser())
            return os.path.realpath(path, strict=True)
        except OSError as error:
            reasons.setdefault(str(path.absolute()), describe_os_error(error))
        except (RuntimeError, ValueError) as error:
            # pathlib raises RuntimeError for an unknown home; a NUL in a path is a ValueError.
            return unsearchable_diagnostic(search_path, str(error))
    if len(reasons) == 1:
        return unsearchable_diagnostic(search_path, *reasons.values())
    message = "; ".join(f"{path}: {reason}" for path, reason in reasons.items())
    # The last path is the one in the folder of the config (see `base_folders`), where users expect
    # it; the message lists all paths.
    return unsearchable_diagnostic(list(reasons)[-1], message)


def _read_hit(
    hit: Hit, index: int, root: str, follow_links: bool
) -> Candidate | RejectedManifest | None:
    """Return the extension of this file. Return a RejectedManifest if the file cannot be read or a
    format rejects it, and None if it is not a manifest in any format. `index` is the index of
    `root` among all roots."""
    for format in hit.formats:
        folder, home = _locate_extension(hit, format)
        manifest = ManifestFile(
            path=hit.path,
            folder=folder,
            root_index=index,
            read_sibling=_SiblingReader(hit, root, follow_links),
            has_file=_FileChecker(folder),
        )
        try:
            # The manifest of an executable format is the program itself, which is not read.
            data = b"" if format.executable else read_file(hit.real)
            if data is None:  # it was deleted after the walk
                return None
            manifest = replace(manifest, data=data)
            verdict = _read_manifest(format, manifest)
        except ManifestError as error:
            verdict = Rejected((error,))
        if isinstance(verdict, Rejected):
            return RejectedManifest(
                diagnostic=Diagnostic.of(verdict.errors, hit.path),
                path=hit.path,
                folder=folder,
                home=home,
                root_index=index,
                dialect=format.dialect,
                hooks=read_rejected_hooks(format, manifest),
            )
        if verdict is not None:
            return Candidate(
                spec=_with_location(verdict.spec, hit.path, folder, home),
                additional_specs=tuple(
                    _with_location(spec, hit.path, folder, home, owner=verdict.spec.id)
                    for spec in verdict.also
                ),
                path=hit.path,
                folder=folder,
                home=home,
                root_index=index,
                dialect=format.dialect,
                warnings=verdict.warnings,
            )
    return None


def _locate_extension(hit: Hit, format: ManifestFormat) -> tuple[str, str]:
    """Return the folder of the extension with this manifest, as the walk reached it, and its real
    path, or that of a program without a manifest (`Candidate.folder` and `Candidate.home`)."""
    if format.parent:
        # The manifest is in a subfolder of this name, such as `.synaps-plugin`. The folder above
        # that is the extension's.
        return hit.folder.path.rpartition("/")[0] or "/", hit.folder.parent_real
    return hit.folder.path, hit.real if format.executable else hit.folder.real


def _read_manifest(format: ManifestFormat, manifest: ManifestFile) -> Verdict:
    """Return what a format makes of a manifest. Raises ManifestError and nothing else."""
    try:
        return format.read(manifest)
    except ManifestError:
        raise
    except (Exception, SystemExit) as error:
        # For example a RecursionError for a manifest that is nested a thousand deep. Whatever a
        # reader raises, one file must not hide all the others.
        raise failed_reader_error(format, manifest.path, error) from error


def failed_reader_error(format: ManifestFormat, path: str, error: BaseException) -> ManifestError:
    """Return the error for an exception of the code that reads manifests of this format."""
    return ManifestError(
        "X0202",
        f"its {format.dialect} reader failed: {type(error).__name__}: {error}",
        help="if the manifest is right, this is a bug in "
        f"{find_distribution(format.dialect)}: please report it",
        evidence=Evidence(path=path),
    )


def read_rejected_hooks(format: ManifestFormat, manifest: ManifestFile) -> Spec | None:
    """Return what can be read of the hooks of a manifest that its format rejects. Return None if
    extensions of its dialect have no hooks."""
    try:
        dialect = find_dialect(format.dialect)
    except ConfigError:  # it cannot be used, so none of its extensions can be
        return None
    if "hook" not in dialect.operations:
        return None
    spec = Spec(id=manifest.folder_name, argv=(), dialect=format.dialect, has_unknown_hooks=True)
    if format.read_hooks is not None:
        try:
            spec = format.read_hooks(manifest)
        except (Exception, SystemExit):  # as in `_read_manifest`: its hooks are then not known
            _log.exception("the hooks of %s cannot be read", manifest.path)
    return replace(spec, origin=manifest.path, manifest_file=manifest.path)


def _with_location(spec: Spec, path: str, folder: str, home: str, *, owner: str = "") -> Spec:
    """Return the spec of a manifest, completed with its location: the manifest's path, the working
    folder (unless the manifest sets one), and the package. `owner` is the id of the main extension
    of the package, if this is a further one."""
    cwd = folder if spec.cwd is None else spec.cwd
    package = Package(root=home, argv=spec.argv, env=spec.env, cwd=cwd, owner=owner)
    return replace(spec, origin=spec.origin or path, cwd=cwd, manifest_file=path, package=package)


def _warning_diagnostic(candidate: Candidate, warning: str | Remark) -> Diagnostic:
    """Return the diagnostic for a mistake in a manifest that does not prevent its use."""
    # A manifest format returns a warning as plain text, or as a Remark, which also names the file
    # and the line.
    remark = Remark(warning) if isinstance(warning, str) else warning
    folder = candidate.path.rpartition("/")[0]
    return Diagnostic(
        level="warning",
        path=f"{folder}/{remark.file}" if remark.file else candidate.path,
        line=remark.line,
        code="X0207",
        message=remark.text,
        extension=candidate.id,
        is_mistake=remark.is_mistake,
    )


class _ConfiguredPaths:
    """Replaces the real paths of roots in diagnostics by the paths that the user configured. They
    differ if a search path is a symlink, or if a folder above it is one."""

    def __init__(self, bases: Sequence[str]) -> None:
        self._bases = bases
        self._paths: dict[str, str] = {}  # real path of a root → its absolute configured path

    def add(self, search_path: str, root: str) -> None:
        """Add a search path. `root` is its real path."""
        if search_path.startswith("$"):  # $PATH and the like are not paths
            return
        for base in self._bases:
            path = os.path.abspath(Path(base, Path(search_path).expanduser()))  # noqa: PTH100
            if path != root and os.path.realpath(path) == root:
                self._paths.setdefault(root, path)
                return

    def name_of(self, root: str) -> str:
        """Return the configured path of a root, given its real path."""
        return self._paths.get(root, root)

    def restore_in(self, diagnostic: Diagnostic) -> Diagnostic:
        """Return the diagnostic with the configured path in place of the real one."""
        for root, configured_path in self._paths.items():
            if is_inside(diagnostic.path, root):
                path = configured_path + diagnostic.path.removeprefix(root)
                more = tuple(self.restore_in(other) for other in diagnostic.more)
                return replace(diagnostic, path=path, more=more)
        return diagnostic


class _SiblingReader:
    """Implements `ManifestFile.read_sibling`: reads a file beside a manifest, and follows symlinks
    by the same rules as the walk."""

    def __init__(self, hit: Hit, root: str, follow_links: bool) -> None:
        self._folder = hit.folder
        # In a folder of PATH, whose link boundary is "/", only the programs may be links to
        # anywhere. A file beside them must be in the root.
        boundary = hit.folder.link_boundary
        self._boundary = root if boundary == "/" else boundary
        self._follow_links = follow_links

    def __call__(self, name: str) -> bytes | None:
        if "/" in name or name in ("", ".", ".."):
            raise ValueError(f"a sibling has a plain file name, not {name!r}")
        real = f"{self._folder.real.rstrip('/')}/{name}"
        # Called for each of thousands of manifests; a Path takes ten times as long.
        if os.path.islink(real):  # noqa: PTH114
            if not self._follow_links:
                return None
            target = os.path.realpath(real)
            if not is_inside(target, self._boundary):
                raise link_escape_error(
                    f"{self._folder.path.rstrip('/')}/{name}", target, self._boundary
                )
            real = target
        return read_file(real)


class _FileChecker:
    """Implements `ManifestFile.has_file`: returns whether the extension's folder contains a file at
    a relative path."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, path: str) -> bool:
        # The path is any argument of a manifest's command (`--flag`, "a\0b"), so this never raises.
        try:
            folder = os.path.realpath(self._folder)
            real = os.path.realpath(f"{folder}/{path}")
            return (
                not path.startswith("/")
                and real != folder
                and is_inside(real, folder)
                and Path(real).is_file()
            )
        except (OSError, ValueError):
            return False
