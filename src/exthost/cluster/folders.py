"""Copies the folder of an extension to nodes, the other machines on which it runs.

A node keeps one copy for each content in its state folder; the name of the copy is the digest of
the content. Caches, such as `__pycache__`, are usually neither counted nor sent, because programs
write them at every start. A copy that is not used any more is deleted.

Agents of several hosts may share a copy. Each copy has a lock file, `DIGEST.lock`. An agent has a
shared lock on it while it uses or makes the copy, and an exclusive lock while it deletes the copy.
The kernel releases the locks of an agent that is killed, so that another agent can delete what it
has left.

The launch plan (the command, the variables and the sandbox of a process) names paths of the host's
machine. `replace_root` replaces those below the folder by paths below the copy.
"""

import fcntl
import os
import re
import shutil
import tarfile
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Protocol, cast

from exthost.cluster.messages import SentFolder
from exthost.errors import Evidence, Refused, SpawnFailed
from exthost.launch.package_tree import PackageTree, UnusableTree, read_tree
from exthost.model.launch_plan import LaunchPlan
from exthost.process.environment import Variables
from exthost.process.private_folders import make_shared_root

# Folders that programs write for themselves, and that they write again if they are missing.
_CACHES = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")

# A program may write into its copy. If another process still uses that copy, the node makes another
# one: at most this many for the same digest.
_MAX_COPIES = 100

# How long a copy is kept that no process uses, so that a restart does not fetch it again.
_UNUSED_SECONDS = 60.0

# The size of the pieces of an archive.
_ARCHIVE_BYTES = 64 * 1024


def read_folder(
    root: str, extension: str, *, with_caches: bool = False
) -> tuple[SentFolder, PackageTree]:
    """Return the folder and its files. `with_caches` is for a package whose digest the config pins:
    that digest covers the caches, too. Raises Refused if a file cannot be sent, such as a device or
    a symlink that points outside."""
    try:
        if not root:
            raise UnusableTree("", "the extension has no folder of its own")
        tree = read_tree(root) if with_caches else _without_caches(read_tree(root))
        for path, content in tree.files:
            # The content is described as "file DIGEST", "link TARGET", or "kind NUMBER" for
            # everything else, such as a device.
            kind, _, rest = content.partition(" ")
            full_path = f"{root}/{path}"
            if kind == "kind":
                raise UnusableTree(full_path, f"it is a {kind} {rest}, which cannot be sent")
            if kind == "link" and _points_outside(root, path):
                target = os.readlink(full_path)  # noqa: PTH115 - as elsewhere, paths are texts
                raise UnusableTree(full_path, f"it is a link to {target}, outside of the folder")
            if kind == "link" and rest.startswith("/"):
                raise UnusableTree(full_path, f"it is a link to the absolute path {rest}")
    except UnusableTree as unusable:
        next_step = "remove the file" if root else "set its cwd to the folder of the program"
        raise Refused(
            "X0395",
            f"its folder cannot be sent to a node: {unusable.path or root or 'cwd'}: {unusable}",
            extension=extension,
            help=f'{next_step}, or keep the folder on every node: pool.files = "present"',
            evidence=Evidence(path=unusable.path, key="pool.files"),
        ) from None
    return SentFolder(root, tree.digest), tree


def _without_caches(tree: PackageTree) -> PackageTree:
    return PackageTree(
        tuple(
            (path, content)
            for path, content in tree.files
            if not any(part in _CACHES for part in path.split("/")[:-1])
        )
    )


def _points_outside(root: str, path: str) -> bool:
    real = os.path.realpath(f"{root}/{path}")
    return not f"{real}/".startswith(f"{os.path.realpath(root)}/")


class WritableFile(Protocol):
    """What `write_folder` writes to."""

    def write(self, data: bytes, /) -> int: ...


def write_folder(file: WritableFile, root: str, tree: PackageTree) -> None:
    """Write the files as an archive. Blocks. Raises OSError."""
    with tarfile.open(
        fileobj=cast("IO[bytes]", file), mode="w|", bufsize=_ARCHIVE_BYTES
    ) as archive:
        for path, _ in tree.files:
            archive.add(f"{root}/{path}", path, recursive=False)


@dataclass
class _Copy:
    """A copy on this machine: the descriptor of its lock, and how many processes use it."""

    lock: int
    users: int = 0
    unused_since: float = 0.0


class FolderStore:
    """The copies on one node, for one agent. Several threads may use it."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._copies: dict[Path, _Copy] = {}
        # The copies that were given back and are not counted yet, each with the time. `release`
        # does not wait for the lock: its caller is the thread that also receives the folder for
        # which a start keeps the lock.
        self._released: deque[tuple[Path, float]] = deque()
        self._lock = threading.Lock()
        self._has_deleted_abandoned = False

    def acquire(self, folder: SentFolder, fetch: Callable[[], IO[bytes]], extension: str) -> Path:
        """Return the path of a copy of the folder. The caller must call `release` when the process
        that uses it has ended. If there is no unchanged copy, `fetch` opens the archive that the
        host sends. Raises SpawnFailed."""
        with self._lock:
            self._count_released()
            try:
                make_shared_root(self._base)
                if not self._has_deleted_abandoned:
                    self._has_deleted_abandoned = True
                    self._delete_abandoned(folder.digest)
                for number in range(_MAX_COPIES):
                    name = folder.digest if number == 0 else f"{folder.digest}.{number}"
                    path = self._base / name
                    if self._prepare(path, folder.digest, fetch):
                        self._copies[path].users += 1
                        return path
                reason = f"programs have changed all {_MAX_COPIES} copies that are in use"
            except (OSError, tarfile.TarError, UnusableTree) as error:
                reason = str(error)
        raise SpawnFailed(
            "X0427",
            f"the folder {folder.root} could not be fetched: {reason}",
            extension=extension,
            help=f"check the space and the permissions of {self._base} on the node",
        )

    def _prepare(self, path: Path, digest: str, fetch: Callable[[], IO[bytes]]) -> bool:
        """Return whether `path` is a copy with this digest now. It is made if it is missing, and
        made again if it was changed and no process uses it."""
        copy = self._copies.get(path)
        if copy is None:
            copy = self._copies[path] = _Copy(_lock_shared(path))
        if path.exists():
            if _has_digest(path, digest):
                return True
            if copy.users:
                return False  # a process of this agent uses the copy that was changed
            if not _try_lock_exclusively(copy.lock, path):  # a process of another agent uses it
                # The attempt has also released the shared lock.
                del self._copies[path]
                os.close(copy.lock)
                return False
            shutil.rmtree(path)
        _unpack(fetch, path)
        fcntl.flock(copy.lock, fcntl.LOCK_SH)
        if not _has_digest(path, digest):
            self._delete(path)
            raise OSError(
                f"its content does not have the digest {digest}: it has changed meanwhile"
            )
        return True

    def release(self, path: Path) -> None:
        """Give back a copy, because its process has ended."""
        self._released.append((path, time.monotonic()))

    def _count_released(self) -> None:
        """Count the copies that were given back. The caller holds the lock."""
        while self._released:
            path, now = self._released.popleft()
            copy = self._copies.get(path)
            if copy is not None:
                copy.users -= 1
                copy.unused_since = now

    def delete_unused(self, seconds: float = _UNUSED_SECONDS) -> None:
        """Delete the copies that no process has used for this many seconds."""
        if not self._lock.acquire(blocking=False):
            return  # a start is using the store
        try:
            self._count_released()
            limit = time.monotonic() - seconds
            for path, copy in list(self._copies.items()):
                if not copy.users and copy.unused_since <= limit:
                    self._delete(path)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Delete all copies that no other agent uses, at the end of this agent. Call this after the
        processes of the agent have ended. Does nothing while a start uses the store, which may wait
        for its folder: the next agent deletes what is left."""
        if self._lock.acquire(blocking=False):
            try:
                for path in list(self._copies):
                    self._delete(path)
            finally:
                self._lock.release()

    def _delete(self, path: Path) -> None:
        """Forget a copy, and delete it unless another agent uses it or the disk does not allow it,
        such as one that has become read-only. The next agent tries again."""
        copy = self._copies.pop(path)
        try:
            if _try_lock_exclusively(copy.lock, path):
                for folder in (path, *path.parent.glob(f"{path.name}-*")):  # and unfinished copies
                    shutil.rmtree(folder, ignore_errors=True)
                _lock_path(path).unlink(missing_ok=True)
        except OSError:
            pass
        finally:
            os.close(copy.lock)

    def _delete_abandoned(self, wanted: str) -> None:
        """Delete the copies of agents that were killed, except the copy with the digest `wanted`,
        which is about to be used."""
        for lock_path in self._base.glob("*.lock"):
            path = lock_path.with_suffix("")
            if path.name != wanted and path not in self._copies:
                try:
                    lock = _open_lock(path)
                except OSError:  # it is not the lock of a copy, such as a folder
                    continue
                self._copies[path] = _Copy(lock)
                self._delete(path)


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _open_lock(path: Path) -> int:
    return os.open(_lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_lock_file(lock: int, path: Path) -> bool:
    """Return whether this descriptor is still that of the lock file. Another agent may have deleted
    the file after it was opened; the lock of a deleted file protects nothing."""
    try:
        return os.path.samestat(os.fstat(lock), _lock_path(path).stat())
    except FileNotFoundError:
        return False


def _lock_shared(path: Path) -> int:
    """Take the shared lock of a copy, and return its descriptor. Waits while another agent makes
    the copy again or deletes it."""
    while True:
        lock = _open_lock(path)
        fcntl.flock(lock, fcntl.LOCK_SH)
        if _is_lock_file(lock, path):
            return lock
        os.close(lock)


def _try_lock_exclusively(lock: int, path: Path) -> bool:
    """Take the exclusive lock of a copy, and return True. If another agent uses the copy, release
    the lock of this agent and return False."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return _is_lock_file(lock, path)


def _has_digest(path: Path, digest: str) -> bool:
    """Return whether the content has this digest. Whether the sender has counted the caches is not
    known (see `read_folder`), so both digests are accepted."""
    tree = read_tree(str(path))
    return digest in (_without_caches(tree).digest, tree.digest)


def _unpack(fetch: Callable[[], IO[bytes]], copy: Path) -> None:
    """Make a copy from the archive that `fetch` opens. The copy appears when it is complete."""
    unfinished = copy.with_name(f"{copy.name}-{os.getpid()}")
    try:
        with fetch() as file, tarfile.open(fileobj=file, mode="r|") as archive:
            archive.extractall(unfinished, filter="data")
        unfinished.mkdir(exist_ok=True)  # extractall creates no folder if there are no files
        unfinished.chmod(0o755)
        unfinished.rename(copy)
    except OSError:  # renaming to a folder that another agent has made meanwhile
        if not copy.exists():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def replace_root(plan: LaunchPlan, root: str, copy: str) -> LaunchPlan:
    """Return the plan with every path below `root` replaced by the same path below `copy`."""
    # A path is at the start of a text, or follows one of = : , as in --option=PATH and PATH:PATH.
    pattern = re.compile(rf"(?<![^=:,]){re.escape(root)}(?=[/:,]|$)")

    def replace_in(text: str) -> str:
        return pattern.sub(lambda _: copy, text)

    wrapper = plan.wrapper
    if wrapper is not None:
        paths = tuple(visible._replace(path=replace_in(visible.path)) for visible in wrapper.paths)
        wrapper = replace(wrapper, options=tuple(map(replace_in, wrapper.options)), paths=paths)
    return replace(
        plan,
        argv=tuple(map(replace_in, plan.argv)),
        cwd=None if plan.cwd is None else replace_in(plan.cwd),
        env=Variables({name: replace_in(value) for name, value in plan.env.items()}),
        before=tuple(map(replace_in, plan.before)),
        wrapper=wrapper,
    )
