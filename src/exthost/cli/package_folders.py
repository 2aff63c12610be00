"""Installs and deletes the folders of extensions in the search path of a config.

An extension is installed into a folder with its id, below the first search path of the config that
is a folder. Changes are prepared in a staging folder outside the search path and then moved into
place by a rename, so that a host that searches at that moment never sees a partial copy.
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

# Not copied, because a running extension does not need it and it may be large.
_NOT_COPIED = shutil.ignore_patterns(".git")

# A manifest is in the folder itself, or in a subfolder such as `.synaps-plugin`.
_MAX_MANIFEST_DEPTH = 2


def find_install_folder(config: Config) -> Path:
    """Return the first search path of the config that is a folder path and not a variable such as
    $MCP. The folder need not exist. Raises UsageError if no search path is a folder path."""
    settings = config.discovery
    paths = settings.search_paths if settings is not None and settings.enabled else ()
    for path in paths:
        if settings is not None and not path.startswith("$"):
            bases = base_folders(settings, config.folder or ".")
            real_path = resolve_search_path(path, bases)
            return Path(
                real_path if isinstance(real_path, str) else Path(bases[0], path).expanduser()
            )
    raise UsageError(
        "X1396",
        "the config names no folder to install into",
        help='add [discovery] search_paths = ["./extensions"]',
        evidence=Evidence(path=config.origin),
    )


def read_package(source: Path) -> Candidate:
    """Return the extension whose folder or manifest this path is. Raises ManifestError if its
    manifest is invalid, and NotFound if there is no manifest."""
    if not source.exists():
        raise NotFound("X1206", f"there is nothing at {source}", help="name an extension's folder")
    folder = str((source if source.is_dir() else source.parent).resolve())
    settings = DiscoverySettings(search_paths=(folder,), max_depth=_MAX_MANIFEST_DEPTH)
    report = discover(settings, find.load_manifest_formats())
    for candidate in report.candidates:
        # The search also finds extensions in subfolders; they are not installed.
        if candidate.home == folder:
            return candidate
    for diagnostic in report.diagnostics:
        # X0203 only reports a symlink that was skipped because it leads out of the search path. Its
        # help is about search paths, which a user of `install` does not edit.
        if diagnostic.level == "error" and diagnostic.code != "X0203":
            raise ManifestError(
                diagnostic.code,
                diagnostic.message,
                extension=diagnostic.extension,
                help=diagnostic.help,
                evidence=Evidence(path=diagnostic.path, line=diagnostic.line, key=diagnostic.key),
            )
    names = ", ".join(
        name
        for format in find.load_manifest_formats()
        if not format.executable
        for name in format.names
    )
    raise NotFound(
        "X1206",
        f"{source} is no extension's folder",
        help=f"manifests are: {names}; a program without one, as in mcp and morphir, is added "
        "to the config by `exthost add NAME --dialect D -- COMMAND`",
    )


def check_copy(folder: Path) -> str:
    """Check that a folder can be copied. Return its number of files and its size as text. Raises
    UsageError for a symlink that leads out of the folder, and for a special file."""
    files = size = 0
    for folder_path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(folder_path, name) for name in (*names, *folders)):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                if not is_inside(os.path.realpath(path), str(folder)):
                    raise _copy_error(path, "is a link that leads out of the folder")
            elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise _copy_error(path, "is neither a file nor a folder")
            elif stat.S_ISREG(mode):
                files, size = files + 1, size + path.lstat().st_size
    return f"{plural(files, 'file')}, {size:,} bytes"


def _copy_error(path: Path, reason: str) -> UsageError:
    return UsageError(
        "X1396",
        f"{path} {reason}",
        help="take it out, or install a link to the folder: --link",
        evidence=Evidence(path=str(path)),
    )


def install_copy(folder: Path, target: Path) -> None:
    """Copy an extension's folder to the target, replacing a folder or symlink at that path."""
    with _staging_folder(target.parent) as staging:
        shutil.copytree(folder, staging / "new", symlinks=True, ignore=_NOT_COPIED)
        _replace_target(staging, target)
    _record_link(target, None)


def install_link(folder: Path, target: Path) -> None:
    """Make the target a symlink to an extension's folder, replacing a folder or symlink at that
    path. The link is recorded, because discovery follows a recorded link even if `follow_links` is
    off."""
    with _staging_folder(target.parent) as staging:
        (staging / "new").symlink_to(folder)
        _replace_target(staging, target)
    _record_link(target, folder)


def delete_package(target: Path) -> None:
    """Delete an extension's folder, or the symlink to it."""
    with _staging_folder(target.parent) as staging:
        _move_if_exists(target, staging / "old")
    _record_link(target, None)


def _replace_target(staging: Path, target: Path) -> None:
    """Move `new` in the staging folder to the target. If that fails, restore the old target."""
    _move_if_exists(target, staging / "old")
    try:
        (staging / "new").rename(target)
    except OSError:
        _move_if_exists(staging / "old", target)
        raise


def _move_if_exists(path: Path, new_path: Path) -> None:
    # `exists` is False for a symlink whose target is missing.
    if path.is_symlink() or path.exists():
        path.rename(new_path)


def _record_link(target: Path, link_target: Path | None) -> None:
    """Record that the target is a symlink to `link_target`, or with None that it is not a
    symlink."""
    links = read_links(str(target.parent))
    previous_links = dict(links)
    links.pop(target.name, None)
    if link_target is not None:
        links[target.name] = str(link_target)
    if links != previous_links:
        write_links(str(target.parent), links)


@contextmanager
def _staging_folder(root: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `root`, which no search looks into. It is deleted at the
    end. It is on the same file system as `root`, so that a rename into `root` is atomic."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        staging_path = tempfile.mkdtemp(dir=root.resolve().parent, prefix=".exthost-install-")
    except OSError as error:
        raise UsageError(
            "X1396",
            f"{root} cannot be changed: {error.strerror}",
            help="check who may write to it and to the folder above it",
            evidence=Evidence(path=str(root)),
        ) from None
    try:
        yield Path(staging_path)
    except OSError as error:
        raise UsageError(
            "X1396",
            f"{error.filename or root} cannot be used: {error.strerror}",
            help="check who may read and write it, and whether the disk is full",
            evidence=Evidence(path=str(root)),
        ) from None
    finally:
        shutil.rmtree(staging_path, ignore_errors=True)
