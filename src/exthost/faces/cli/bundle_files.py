"""Unpacks an MCP bundle: a ZIP file with a manifest and the files of a server, which `exthost add
--from FILE.mcpb` adds to the config. The file is not trusted.

A bundle is unpacked into a new folder, which gets its name when it is complete. A bundle with a
path outside of that folder, a link, a device, two files of one name, or too much data is refused,
and nothing of it is left.
"""

import json
import lzma
import re
import secrets
import shutil
import stat
import zipfile
import zlib
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path, PurePosixPath
from typing import Any

from exthost.errors import ConfigError, Evidence, ExthostError, Refused
from exthost.process.private_folders import make_folder

# The largest bundles contain a runtime such as Node: some hundred megabytes, and thousands of small
# files.
_MAX_BYTES = 1 << 30
_MAX_FILES = 50_000
_MAX_MANIFEST = 1 << 20

# What a damaged or unusual archive raises: a wrong checksum, damaged data, an end that is missing,
# a password, or an unknown compression.
_ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that can be unpacked. `folder` is where its files will be."""

    path: Path
    folder: Path
    manifest: dict[str, Any]

    def unpack(self) -> None:
        """Unpack the files, unless they are there: the name of the folder contains the digest
        of the bundle."""
        if self.folder.is_dir():
            return
        make_folder(self.folder.parent)
        new = self.folder.with_name(f".{self.folder.name}.{secrets.token_hex(8)}")
        new.mkdir(mode=0o700)
        try:
            with zipfile.ZipFile(self.path) as archive:
                _extract(archive, self.path, new)
            new.rename(self.folder)
        except (OSError, *_ARCHIVE_ERRORS) as error:
            raise _unreadable_error(self.path, str(error)) from None
        finally:
            shutil.rmtree(new, ignore_errors=True)


def open_bundle(path: Path, folder: Path) -> Bundle:
    """Return the bundle in a file, which is to be unpacked below this folder. Raises ExthostError
    if it is not a bundle, or not a harmless one."""
    try:
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()[:16]
        with zipfile.ZipFile(path) as archive:
            _check_members(archive, path)
            with archive.open("manifest.json") as member:
                manifest = json.loads(member.read(_MAX_MANIFEST))
    except ExthostError:
        raise
    except KeyError:
        raise _unreadable_error(path, "it has no manifest.json") from None
    except (OSError, ValueError, *_ARCHIVE_ERRORS) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable_error(path, reason) from None
    if not isinstance(manifest, dict):
        raise _unreadable_error(path, "its manifest is not an object")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", str(manifest.get("name") or path.stem))[:60].strip("-")
    return Bundle(path, folder / f"{name or 'bundle'}-{digest}", manifest)


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    """Raise Refused if the list of files in an archive has something that a bundle must not
    have."""
    names_so_far: set[str] = set()
    size = 0
    for member in archive.infolist():
        name = member.filename
        parts = PurePosixPath(name).parts
        mode = member.external_attr >> 16  # the Unix mode, or 0
        kind = stat.S_IFMT(mode)
        if name.startswith(("/", "\\")) or ".." in parts or "\\" in name or "\0" in name:
            raise _refused_error(path, f"it has a path outside of itself: {name!r:.80}")
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refused_error(path, f"it has a link or a device: {name!r:.80}")
        if name in names_so_far:
            raise _refused_error(path, f"it has two files of one name: {name!r:.80}")
        names_so_far.add(name)
        size += member.file_size
        if size > _MAX_BYTES or len(names_so_far) > _MAX_FILES:
            raise _refused_error(path, "it has too many files, or too much data")


def _extract(archive: zipfile.ZipFile, path: Path, folder: Path) -> None:
    """Write the files of an archive, which is the file `path`, into a folder."""
    _check_members(archive, path)  # the file may have been replaced
    remaining_bytes = _MAX_BYTES
    for member in archive.infolist():
        target = folder.joinpath(*PurePosixPath(member.filename).parts)
        if member.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, target.open("xb") as file:
            while block := source.read(min(1 << 20, remaining_bytes + 1)):
                remaining_bytes -= len(block)
                if remaining_bytes < 0:  # the sizes in the list of files are too small
                    raise _refused_error(path, "it has too much data")
                file.write(block)
        is_program = (member.external_attr >> 16) & 0o100
        target.chmod(0o700 if is_program else 0o600)


def _unreadable_error(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        "X1814",
        f"{path} is not a usable bundle: {reason}",
        help="pass a FILE.mcpb that `mcpb pack` made",
        evidence=Evidence(path=str(path)),
    )


def _refused_error(path: Path, reason: str) -> Refused:
    return Refused(
        "X1815",
        f"the bundle is refused: {reason}",
        help="do not use this file: a bundle for MCP clients has nothing like that",
        evidence=Evidence(path=str(path)),
    )
