"""Sends the folder of an extension to nodes, by the digest of its content.

A node keeps what it was sent below its state folder, under the digest, and uses it again as long as
its content has that digest. The plan of the extension names paths of the host's machine: those
below the folder are replaced by paths below the copy.
"""

import os
import re
import shutil
import socket
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from exthost.cluster.messages import SentFolder
from exthost.errors import Evidence, Refused, SpawnFailed
from exthost.launch.package_tree import PackageTree, UnusableTree, read_tree
from exthost.launch_plan import LaunchPlan
from exthost.process.environment import Variables
from exthost.process.private_folders import make_shared_root
from exthost.process.state_dirs import state_root

__all__ = ["fetch_folder", "read_folder", "rebase", "send_folder"]

# Copies of the same digest that programs have written into, before a node gives up.
_MAX_SPOILT = 100


def read_folder(root: str, extension: str) -> tuple[SentFolder, PackageTree]:
    """Return the folder and its files. Raises Refused if it cannot be sent."""
    try:
        if not root:
            raise UnusableTree("", "it has no folder of its own: set cwd")
        tree = read_tree(root)
        for path, content in tree.files:
            kind, _, rest = content.partition(" ")
            if kind == "kind" or (kind == "link" and _leads_out(root, path)):
                raise UnusableTree(f"{root}/{path}", f"it is a {kind} {rest}, which cannot be sent")
    except UnusableTree as unusable:
        raise Refused(
            "X0395",
            f"its folder cannot be sent to a node: {unusable.path or root or 'cwd'}: {unusable}",
            extension=extension,
            help='remove what is in the way, or have it on every node: pool.files = "present"',
            evidence=Evidence(path=unusable.path, key="pool.files"),
        ) from None
    return SentFolder(root, tree.digest), tree


def _leads_out(root: str, path: str) -> bool:
    real = os.path.realpath(f"{root}/{path}")
    return not real.startswith(f"{os.path.realpath(root)}/")


def send_folder(connection: socket.socket, root: str, tree: PackageTree) -> None:
    """Send the files, and close the connection. Blocks. Raises OSError."""
    with connection:
        connection.setblocking(True)
        with (
            connection.makefile("wb") as file,
            tarfile.open(fileobj=file, mode="w|") as archive,
        ):
            for path, _ in tree.files:
                archive.add(f"{root}/{path}", path, recursive=False)


def fetch_folder(
    folder: SentFolder,
    environ: Mapping[str, str],
    connect: Callable[[], socket.socket],
    extension: str,
) -> str:
    """Return the path of a copy on this machine, fetched if there is none. Raises SpawnFailed."""
    base = Path(state_root(environ), "folders")
    try:
        make_shared_root(base)
        for n in range(_MAX_SPOILT):
            copy = base / (folder.digest if n == 0 else f"{folder.digest}.{n}")
            if not copy.exists():
                _unpack(connect, copy)
            if read_tree(str(copy)).digest == folder.digest:
                return str(copy)
            # Its program has written into it, or the folder has changed since its digest was made.
        reason = f"its content has not the digest {folder.digest}"
    except (OSError, tarfile.TarError, UnusableTree) as error:
        reason = str(error)
    raise SpawnFailed(
        "X0427",
        f"the folder {folder.root} could not be fetched: {reason}",
        extension=extension,
        help=f"check the space and the permissions of {base} on the node",
    )


def _unpack(connect: Callable[[], socket.socket], copy: Path) -> None:
    unfinished = copy.with_name(f"{copy.name}-{os.getpid()}")
    try:
        with (
            connect() as connection,
            connection.makefile("rb") as file,
            tarfile.open(fileobj=file, mode="r|") as archive,
        ):
            archive.extractall(unfinished, filter="data")
        unfinished.mkdir(exist_ok=True)  # of a folder without files
        unfinished.chmod(0o755)
        unfinished.rename(copy)
    except FileExistsError:
        pass  # another process was faster
    except OSError:
        if not copy.exists():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def rebase(plan: LaunchPlan, root: str, copy: str) -> LaunchPlan:
    """Return the plan with every path below `root` replaced by one below `copy`."""
    # A path begins a word, or follows what separates it from a name or from another path.
    pattern = re.compile(rf"(?<![^=:,]){re.escape(root)}(?=[/:,]|$)")

    def moved(text: str) -> str:
        return pattern.sub(lambda _: copy, text)

    wrapper = plan.wrapper
    if wrapper is not None:
        paths = tuple(one._replace(path=moved(one.path)) for one in wrapper.paths)
        wrapper = replace(wrapper, options=tuple(map(moved, wrapper.options)), paths=paths)
    return replace(
        plan,
        argv=tuple(map(moved, plan.argv)),
        cwd=None if plan.cwd is None else moved(plan.cwd),
        env=Variables({name: moved(value) for name, value in plan.env.items()}),
        before=tuple(map(moved, plan.before)),
        wrapper=wrapper,
    )
