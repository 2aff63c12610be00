"""Installs and deletes the folders of extensions in the search path of a config.

An extension is installed into a folder with its id, below the first search path of the config that
is a folder. Changes are prepared in a staging folder outside the search path and then moved into
place by a rename, so that a host that searches at that moment never sees a partial copy.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from exthost.config import Config, DiscoverySettings
from exthost.config.discovery.links import read_links, write_links
from exthost.config.discovery.report import Candidate
from exthost.config.discovery.search import base_folders, discover, resolve_search_path
from exthost.dialects import find
from exthost.errors import Evidence, ManifestError, NotFound, UsageError
from exthost.faces.cli.folder_copy import copy_folder

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


def install_path(config: Config, id: str) -> Path:
    """Return the path where the extension of this id is installed. Raises UsageError if the id
    cannot be the name of a folder: an id that contains `/` or is `..` would lead out of the search
    path, and a name that begins with a dot is hidden."""
    if not id.isprintable() or "/" in id or id.startswith((".", "-")):
        raise UsageError(
            "X1396",
            f"its id {id!r} cannot be the name of a folder",
            extension=id,
            help="an id that can be installed has no / and no control characters, and begins with "
            "neither . nor -",
        )
    return find_install_folder(config) / id


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
        f"{source} is not the folder of an extension",
        help=f"manifests are: {names}; a program without one, as in mcp and morphir, is added "
        "to the config by `exthost add NAME --dialect D -- COMMAND`",
    )


def install_copy(folder: Path, target: Path, max_bytes: int) -> None:
    """Copy an extension's folder to the target, replacing a folder or symlink at that path. Raises
    UsageError if the folder is larger than `max_bytes`."""
    with _staging_folder(target.parent) as staging:
        copy_folder(folder, staging / "new", max_bytes)
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
            help="check the permissions of the file and of the folder above it",
            evidence=Evidence(path=str(root)),
        ) from None
    try:
        yield Path(staging_path)
    except OSError as error:
        raise UsageError(
            "X1396",
            f"{error.filename or root} cannot be used: {error.strerror}",
            help="check its permissions, and whether the disk is full",
            evidence=Evidence(path=str(root)),
        ) from None
    finally:
        shutil.rmtree(staging_path, ignore_errors=True)
