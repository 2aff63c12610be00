"""Copies the folder of an extension to nodes.

A node keeps the copy in its state folder; the name of the copy is the digest of the content. The
node uses the copy again for later starts, if the content still has that digest. The launch plan
names paths of the host's machine; paths below the folder are replaced by paths below the copy.
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
from exthost.model.launch_plan import LaunchPlan
from exthost.process.environment import Variables
from exthost.process.private_folders import make_shared_root
from exthost.process.state_root import state_root

# A program may write into its copy. The node cannot use the copy again then, and makes another one:
# at most this many copies for the same digest.
_MAX_COPIES = 100


def read_folder(root: str, extension: str) -> tuple[SentFolder, PackageTree]:
    """Return the folder and its files. Raises Refused if a file cannot be sent, such as a device or
    a symlink that points outside."""
    try:
        if not root:
            raise UnusableTree("", "it has no folder of its own: set cwd")
        tree = read_tree(root)
        for path, content in tree.files:
            kind, _, rest = content.partition(" ")
            if kind == "kind" or (kind == "link" and _points_outside(root, path)):
                raise UnusableTree(f"{root}/{path}", f"it is a {kind} {rest}, which cannot be sent")
    except UnusableTree as unusable:
        raise Refused(
            "X0395",
            f"its folder cannot be sent to a node: {unusable.path or root or 'cwd'}: {unusable}",
            extension=extension,
            help='remove the file, or keep the folder on every node: pool.files = "present"',
            evidence=Evidence(path=unusable.path, key="pool.files"),
        ) from None
    return SentFolder(root, tree.digest), tree


def _points_outside(root: str, path: str) -> bool:
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
    """Return the path of a copy on this machine. If there is no unchanged copy, fetch the folder.
    `connect` opens a connection on which the host sends the folder. Raises SpawnFailed."""
    base = Path(state_root(environ), "folders")
    try:
        make_shared_root(base)
        for n in range(_MAX_COPIES):
            copy = base / (folder.digest if n == 0 else f"{folder.digest}.{n}")
            if not copy.exists():
                _unpack(connect, copy)
            if read_tree(str(copy)).digest == folder.digest:
                return str(copy)
            # A program has written into the copy, or the host's folder has changed since its digest
            # was computed.
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
        unfinished.mkdir(exist_ok=True)  # extractall creates no folder if there are no files
        unfinished.chmod(0o755)
        unfinished.rename(copy)
    except FileExistsError:
        pass  # another process has made the copy meanwhile
    except OSError:  # renaming to a folder that is not empty fails with another error
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
