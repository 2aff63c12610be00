"""What `install` and `uninstall` share: extensions that are folders, in a config's search path.

The search path is the first one of the config that is a folder. An extension is put into a folder
of its id there. Changes are made beside the search path and moved into it in one step, so that a
host that searches at that moment sees the old folder or the new one.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from exthost.cli.common import plural
from exthost.config import Config, DiscoverySettings
from exthost.dialects import find
from exthost.discovery.links import read_links, write_links
from exthost.discovery.report import Candidate
from exthost.discovery.search import base_folders, discover, resolve_search_path
from exthost.discovery.untrusted_files import is_inside
from exthost.errors import Evidence, ManifestError, NotFound, UsageError

# Of no use to an extension that runs, and large.
_NOT_COPIED = shutil.ignore_patterns(".git")

# A manifest lies in the folder itself, or in a folder of its own in there.
_DEPTH = 2


def search_folder(config: Config) -> Path:
    """Return the first folder that the config searches; it need not exist."""
    settings = config.discovery
    paths = settings.search_paths if settings is not None and settings.enabled else ()
    for path in paths:
        if settings is not None and not path.startswith("$"):
            bases = base_folders(settings, config.folder or ".")
            real = resolve_search_path(path, bases)
            return Path(real if isinstance(real, str) else Path(bases[0], path).expanduser())
    raise UsageError(
        "X1396",
        "the config names no folder to install into",
        help='add [discovery] search_paths = ["./extensions"]',
        evidence=Evidence(path=config.origin),
    )


def read_package(source: Path) -> Candidate:
    """Return the extension whose folder this is. Raises ManifestError, NotFound or UsageError."""
    if not source.exists():
        raise NotFound("X1206", f"there is nothing at {source}", help="name an extension's folder")
    folder = str((source if source.is_dir() else source.parent).resolve())
    settings = DiscoverySettings(search_paths=(folder,), max_depth=_DEPTH)
    report = discover(settings, find.load_manifest_formats())
    for candidate in report.candidates:
        if candidate.home == folder:
            return candidate
    for diagnostic in report.diagnostics:
        if diagnostic.level == "error" and diagnostic.code != "X0203":
            raise ManifestError(
                diagnostic.code,
                diagnostic.message,
                extension=diagnostic.extension,
                help=diagnostic.help,
                evidence=Evidence(path=diagnostic.path, line=diagnostic.line, key=diagnostic.key),
            )
    names = ", ".join(
        name for form in find.load_manifest_formats() if not form.executable for name in form.names
    )
    raise NotFound("X1206", f"{source} is no extension's folder", help=f"manifests are: {names}")


def check_copy(folder: Path) -> str:
    """Return how much there is to copy, in words. Raises UsageError for what cannot be copied."""
    files = size = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(place, name) for name in (*names, *folders)):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                if not is_inside(os.path.realpath(path), str(folder)):
                    raise _cannot_copy(path, "is a link that leads out of the folder")
            elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise _cannot_copy(path, "is neither a file nor a folder")
            elif stat.S_ISREG(mode):
                files, size = files + 1, size + path.lstat().st_size
    return f"{plural(files, 'file')}, {size:,} bytes"


def _cannot_copy(path: Path, why: str) -> UsageError:
    return UsageError(
        "X1396",
        f"{path} {why}",
        help="take it out, or install a link to the folder: --link",
        evidence=Evidence(path=str(path)),
    )


def put_copy(folder: Path, target: Path) -> None:
    """Copy an extension's folder; what is at the target now is replaced."""
    with _beside(target.parent) as work:
        shutil.copytree(folder, work / "new", symlinks=True, ignore=_NOT_COPIED)
        _move(target, work / "old")
        try:
            (work / "new").rename(target)
        except OSError:
            _move(work / "old", target)
            raise
    _record(target, None)


def put_link(folder: Path, target: Path) -> None:
    """Link to an extension's folder, and record that; what is at the target now is replaced."""
    with _beside(target.parent) as work:
        (work / "new").symlink_to(folder)
        _move(target, work / "old")
        (work / "new").rename(target)
    _record(target, folder)


def delete(target: Path) -> None:
    """Delete an extension's folder, or the link to it."""
    with _beside(target.parent) as work:
        _move(target, work / "old")
    _record(target, None)


def _move(path: Path, to: Path) -> None:
    if path.is_symlink() or path.exists():
        path.rename(to)


def _record(target: Path, linked: Path | None) -> None:
    links = read_links(str(target.parent))
    before = dict(links)
    links.pop(target.name, None)
    if linked is not None:
        links[target.name] = str(linked)
    if links != before:
        write_links(str(target.parent), links)


@contextmanager
def _beside(root: Path) -> Iterator[Path]:
    """Yield a folder on the same file system that no search looks into. Delete it at the end."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(dir=root.resolve().parent, prefix=".exthost-install-")
    except OSError as error:
        raise UsageError(
            "X1396",
            f"{root} cannot be changed: {error.strerror}",
            help="check who may write to it and to the folder above it",
            evidence=Evidence(path=str(root)),
        ) from None
    try:
        yield Path(made)
    except OSError as error:
        raise UsageError(
            "X1396",
            f"{error.filename or root} cannot be used: {error.strerror}",
            help="check who may read and write it, and whether the disk is full",
            evidence=Evidence(path=str(root)),
        ) from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
