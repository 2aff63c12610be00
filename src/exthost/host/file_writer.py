"""Writes the files of a tool result into a folder, and never outside the folder.

`exthost call --write` uses this module. `file_merge` computes the contents of the files.

Each path is resolved first, symlinks included, and refused if it leads out of the folder. Then it
is opened relative to the file descriptor of the folder, without following symlinks. So a symlink
that is created between the two steps has no effect.

The contents are written to temporary files beside the final ones, and renamed when all of them are
complete. A concurrent reader sees the old file or the new one. An error before the first rename
leaves every file unchanged.
"""

import errno
import os
import secrets
import shlex
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from exthost.dialects.calls import FileFragment
from exthost.errors import CallFailed, Evidence, Refused, UsageError
from exthost.host.file_merge import merge_fragments, path_refused_error
from exthost.host.protected_files import is_at_or_below, why_protected

# O_NOFOLLOW: an error if the last part of the path is a symlink.
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_files(
    fragments: Iterable[FileFragment],
    folder: str | Path,
    *,
    allowed_paths: Collection[str] = (),
    protected_paths: Collection[str] = (),
) -> tuple[str, ...]:
    """Merge these fragments and write the files into `folder`, which is created if needed. Return
    the written paths, relative to `folder`.

    Some paths are protected, such as those of files that other programs run (`protected_files`).
    `protected_paths` are further ones, without symlinks; everything below them is protected, too.
    But a protected path that contains `folder` is ignored, because the user has named `folder`.
    `allowed_paths` are protected paths that may be written, because the user has named them.
    Raises Refused, CallFailed or UsageError.
    """
    normalised_paths = {os.path.normpath(path) for path in allowed_paths}
    root = os.path.realpath(folder)
    inner_paths = [path for path in protected_paths if not is_at_or_below(root, path)]
    real_paths: dict[str, str] = {}
    used_paths: set[str] = set()

    def read_existing(path: str) -> str | None:
        return _read_text(root, _resolve(root, path))

    try:
        files = merge_fragments(fragments, read_existing)
        for path in files:
            real_path = _resolve(root, path)
            full_path = os.path.join(root, real_path)  # noqa: PTH118 - the root may be "/"
            reason = why_protected(real_path)
            if any(is_at_or_below(full_path, protected) for protected in inner_paths):
                reason = reason or "the config uses it"
            if reason and real_path not in normalised_paths:
                raise _protected_error(path, real_path, reason)
            if real_path in used_paths:
                raise CallFailed(
                    "X0721",
                    f"{path!r} of its result is a link to another file of it, {real_path!r}",
                    help="nothing was written; take the link away, or write to another folder",
                )
            real_paths[path] = real_path
            used_paths.add(real_path)
        _write_all(root, {real_paths[path]: content.encode() for path, content in files.items()})
    except OSError as error:
        raise UsageError(
            "X1323",
            f"the files cannot be written to {folder}: {error.strerror or error}",
            help="check that the folder is writable, and that no other file is in the way",
            evidence=Evidence(path=str(error.filename or folder)),
        ) from None
    except UnicodeEncodeError:
        raise CallFailed("X0721", "a file of its result is not text", help="see --json") from None
    return tuple(files)


def _protected_error(path: str, real_path: str, reason: str) -> Refused:
    return Refused(
        "X0342",
        f"the file {path!r} is refused: {reason}",
        help=f"nothing was written; if you want this file, add --write-protected "
        f"{shlex.quote(real_path)}",
        evidence=Evidence(path=path),
    )


def _resolve(root: str, path: str) -> str:
    """Return the path without symlinks, relative to the root. Raises Refused if the file is outside
    the root."""
    real_path = os.path.realpath(f"{root}/{path}")
    # If the root is "/", its slash must not be counted twice.
    if not real_path.startswith(f"{root.rstrip('/')}/"):
        raise path_refused_error(path, "a link leads it out of the folder")
    return real_path[len(root.rstrip("/")) + 1 :]


def _read_text(root: str, path: str) -> str | None:
    """Return the text of a file; None if there is no file."""
    try:
        # O_NONBLOCK: opening a named pipe would wait for its writer.
        fd = os.open(Path(root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise CallFailed(
                "X0721", f"{path} is not an ordinary file: nothing can be merged into it"
            )
        with os.fdopen(fd, "rb") as file:
            return file.read().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise CallFailed(
            "X0721", f"{path} exists and is not text: nothing can be merged into it"
        ) from None


def _write_all(root: str, files: dict[str, bytes]) -> None:
    """Write every file to a temporary file, and then rename all of them."""
    Path(root).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        root_fd = os.open(root, _OPEN_FOLDER)
        stack.callback(os.close, root_fd)
        renames: list[tuple[int, str, str]] = []
        # Each folder is opened once, because the number of open files is limited.
        folder_fds: dict[tuple[str, ...], int] = {}
        for path, content in files.items():
            *folders, name = path.split("/")
            key = tuple(folders)
            if key not in folder_fds:
                folder_fds[key] = stack.enter_context(_open_folder(root_fd, folders))
            folder_fd = folder_fds[key]
            # The temporary name does not contain the name of the file, which may already have the
            # largest length of a name.
            temp_name = f".exthost-{secrets.token_hex(8)}"
            stack.callback(_remove, folder_fd, temp_name)
            _write_temp(folder_fd, name, temp_name, content)
            renames.append((folder_fd, temp_name, name))
        for folder_fd, temp_name, name in renames:
            os.rename(temp_name, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)


@contextmanager
def _open_folder(root_fd: int, folders: list[str]) -> Iterator[int]:
    """Open the folder below the root, creating it if needed, without following symlinks."""
    folder_fd = os.dup(root_fd)
    try:
        for name in folders:
            try:
                os.mkdir(name, dir_fd=folder_fd)
            except FileExistsError:
                pass
            child_fd = os.open(name, _OPEN_FOLDER, dir_fd=folder_fd)
            os.close(folder_fd)
            folder_fd = child_fd
        yield folder_fd
    finally:
        os.close(folder_fd)


def _write_temp(folder_fd: int, name: str, temp_name: str, content: bytes) -> None:
    """Write the content to a temporary file, which gets the mode of the existing file `name`.
    Raises IsADirectoryError if `name` is a folder."""
    try:
        existing_status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        existing_status = None
    if existing_status is not None and stat.S_ISDIR(existing_status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder is in the way", name)
    with os.fdopen(os.open(temp_name, _CREATE_FILE, 0o666, dir_fd=folder_fd), "wb") as file:
        if existing_status is not None:
            os.fchmod(file.fileno(), existing_status.st_mode & 0o777)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _remove(folder_fd: int, name: str) -> None:
    """Remove a temporary file, unless it was renamed."""
    try:
        os.unlink(name, dir_fd=folder_fd)
    except FileNotFoundError:
        pass
