"""Search paths in, report out: the way in to discovery.

Puts the parts together: each root is walked, each manifest read and handed to its format, and what
the formats accept goes through the filters. Blocking: a program with an event loop calls it in a
thread. It never raises for what it finds on disk; that is in the report's diagnostics.

Below it: `walk` (which files), `files` (their bytes), `manifests` (what those mean), `filters`
(which of them count). It must not know any dialect, nor start anything.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from exthost.config.discovery import ON_PATH
from exthost.dialects.manifest_format import Found, ManifestFormat, Rejected, Verdict
from exthost.discovery.files import escape, is_inside, read_file, system_words
from exthost.discovery.filters import settle
from exthost.discovery.report import Candidate, Diagnostic, Report
from exthost.discovery.walk import Hit, unsearchable, walk
from exthost.errors import Evidence, ManifestError
from exthost.model import Package, Spec

__all__ = ["Settings", "base_folders", "canonical", "discover", "roots"]


class Settings(Protocol):
    """What a search needs to be told; `exthost.config` has the frozen value that says it."""

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
    """Everything these formats find in the search paths.

    Relative search paths count from `base`, the folder of the config file, or, if the settings
    prefer that, from the working folder; `~` is a home folder.
    Where several formats claim one file, the first that does not pass it over decides. The search
    path `$PATH` is each folder of PATH: only files right in it that are programs themselves.
    `$SYNAPS` (a dialect, in capitals) is where the system of that dialect looks itself.
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
    for index, (search_path, root) in enumerate(expanded):
        on_path = search_path == ON_PATH
        if isinstance(root, Diagnostic):
            diagnostics.append(root)
            continue
        walked = walk(
            root,
            [one for one in formats if one.executable or not on_path],
            max_depth=1 if on_path else settings.max_depth,
            ignore_dirs=settings.ignore_dirs,
            # Whoever put a folder on PATH has said that its programs may be run, and package
            # managers put nothing but links there.
            follow_links=settings.follow_links or on_path,
            wherever=on_path,
        )
        diagnostics += walked.diagnostics
        for hit in walked.hits:
            scanned += 1
            judged = _judge(hit, index, root, settings.follow_links)
            if isinstance(judged, Candidate):
                candidates.append(judged)
                diagnostics += [_remark(judged, text) for text in judged.warnings]
            elif judged is not None:
                invalid += 1
                diagnostics.append(judged)
    settled = settle(candidates, disabled=settings.disabled, allowlist=settings.allowlist)
    return Report(
        candidates=settled.candidates,
        diagnostics=(*diagnostics, *settled.diagnostics),
        scanned=scanned,
        disabled=settled.disabled,
        invalid=invalid,
    )


def base_folders(settings: Settings, base: str) -> tuple[str, ...]:
    """Return the folders from which relative search paths count, in the order they are tried."""
    return (".", base) if settings.prefers_working_folder else (base,)


def roots(
    search_path: str, bases: Sequence[str], formats: Sequence[ManifestFormat]
) -> list[str | Diagnostic]:
    """The folders that a search path stands for, the strongest first, or why there is none."""
    if search_path == ON_PATH:
        return _program_folders()
    for format in formats:
        if format.homes and search_path == f"${format.dialect.upper()}":
            # Many machines have none of them: no reason to say anything.
            found = [canonical(home, bases) for home in reversed(format.homes)]
            return [root for root in found if isinstance(root, str)]
    return [canonical(search_path, bases)]


def _program_folders() -> list[str | Diagnostic]:
    """The folders of PATH that are there, each once: PATHs name many that are not."""
    named = [folder for folder in os.get_exec_path() if os.path.isabs(folder)]  # noqa: PTH117
    real = [os.path.realpath(folder) for folder in named]
    return [folder for folder in dict.fromkeys(real) if Path(folder).is_dir()]


def canonical(search_path: str, bases: Sequence[str]) -> str | Diagnostic:
    """The root's real path, from the first of `bases` where it is there, or why there is none."""
    tried: dict[str, str] = {}
    for base in bases:
        try:
            path = Path(base, Path(search_path).expanduser())
            return os.path.realpath(path, strict=True)
        except OSError as error:
            tried.setdefault(str(path.absolute()), system_words(error))
        except (RuntimeError, ValueError) as error:
            # pathlib's words for a home that cannot be found, and the system's for a NUL.
            return unsearchable(search_path, str(error))
    if len(tried) == 1:
        return unsearchable(search_path, *tried.values())
    why = "; ".join(f"{path}: {why}" for path, why in tried.items())
    return unsearchable(list(tried)[-1], why)


def _judge(hit: Hit, index: int, root: str, follow_links: bool) -> Candidate | Diagnostic | None:
    """What the formats make of one file. None: it is no extension."""
    for format in hit.formats:
        folder, home = _own_place(hit, format)
        try:
            data = b"" if format.executable else read_file(hit.real)
            if data is None:
                # Deleted since the walk saw it: as good as never there.
                return None
            found = Found(
                path=hit.path,
                folder=folder,
                data=data,
                root_index=index,
                sibling=_Siblings(hit, root, follow_links),
                holds=_Holds(folder),
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
    """The extension's folder as it was reached, and the real path of what is its own."""
    if format.parent:
        return hit.folder.path.rpartition("/")[0] or "/", hit.folder.above
    return hit.folder.path, hit.real if format.executable else hit.folder.real


def _read(format: ManifestFormat, found: Found) -> Verdict:
    try:
        return format.read(found)
    except ManifestError:
        raise
    except Exception as error:
        # A manifest nested a thousand deep ends a parser with RecursionError. Whatever else a
        # reader trips over, one file must not cost us all the others.
        raise ManifestError(
            "X0202",
            f"its {format.dialect} reader gave up: {type(error).__name__}: {error}",
            help="if the manifest looks right to you, this is a bug of ours: please report it",
            evidence=Evidence(path=found.path),
        ) from error


def _placed(spec: Spec, path: str, folder: str, home: str) -> Spec:
    cwd = folder if spec.cwd is None else spec.cwd
    package = Package(root=home, argv=spec.argv, env=spec.env, cwd=cwd)
    return replace(spec, origin=spec.origin or path, cwd=cwd, manifest_file=path, package=package)


def _remark(candidate: Candidate, text: str) -> Diagnostic:
    return Diagnostic(
        level="warning", path=candidate.path, code="X0207", message=text, extension=candidate.id
    )


class _Siblings:
    """`Found.sibling`: files beside one manifest, under the same rules about links."""

    def __init__(self, hit: Hit, root: str, follow_links: bool) -> None:
        self._folder = hit.folder
        self._root = root
        self._follow = follow_links

    def __call__(self, name: str) -> bytes | None:
        if "/" in name or name in ("", ".", ".."):
            raise ValueError(f"a sibling is asked for by its plain file name, not {name!r}")
        real = f"{self._folder.real.rstrip('/')}/{name}"
        # Asked for each manifest of thousands; a Path costs ten times as much.
        if os.path.islink(real):  # noqa: PTH114
            if not self._follow:
                return None
            target = os.path.realpath(real)
            if not is_inside(target, self._root):
                raise escape(f"{self._folder.path.rstrip('/')}/{name}", target, self._root)
            real = target
        return read_file(real)


class _Holds:
    """`Found.holds`: whether the extension's folder really has a file at a relative path."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, path: str) -> bool:
        # Manifests quote arbitrary words here (`--flag`, "a\0b"): a question never fails.
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
