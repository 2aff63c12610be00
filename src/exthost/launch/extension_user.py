"""Chooses the user that a sandboxed extension runs as if the host runs as root.

Every extension has a separate uid (`process.user_registry`). That user may have no access to the
files of the program, such as an interpreter that a version manager installed below /root. Then:

- If the user only cannot enter a folder above the files, the folder is opened in a private mount
  namespace (`process.private_mounts`).
- If that is not possible, or the user cannot read the files themselves, the extension runs as user
  0 without capabilities. But an extension that may write files of the host is refused instead,
  since it would write them as root. The error shows how to fix that.
- If the user cannot reach the state folder (where an extension may keep files), the extension runs
  without that folder.

A `View` is the part of the host's file system that a sandboxed extension sees, and the user that it
runs as.
"""

import logging
import shlex
from collections.abc import Iterable
from dataclasses import replace

from exthost.errors import Evidence, Refused
from exthost.launch.file_view import system_view
from exthost.launch.sandbox.strict import View
from exthost.model.launch_plan import InaccessibleFolder
from exthost.model.probe_result import SandboxSupport
from exthost.process.private_mounts import can_open_folders
from exthost.process.user_ids import (
    can_read,
    can_write,
    find_inaccessible_folder,
    find_inaccessible_path,
    is_kernel_root,
    user_id,
)
from exthost.process.user_registry import allot_user_id, registry_file

_log = logging.getLogger("exthost.launch")

_INSTALL_FOR_ALL = "install its program where every user can reach it (/usr/local, /opt)"


def probe_user_id(support: SandboxSupport) -> int | None:
    """Return the uid as which the host tries whether the sandbox works. No extension has this uid.
    None if this host can run extensions only as its own user, because it is not root or there is no
    setpriv."""
    # `user_registry` never gives an extension the uid of the empty id.
    return user_id("") if support.uid == 0 and support.setpriv else None


def with_extension_user(
    extension: str,
    view: View,
    support: SandboxSupport,
    state_root: str,
    command_files: Iterable[str] = (),
) -> View:
    """Return the view, with the user that the extension runs as. The host must be root.
    `state_root` is the folder in which the host keeps its state, and `command_files` are the files
    that the command line names. Raises Refused if the extension would have to write as root, if its
    user cannot write a granted path, or if its user cannot be recorded."""
    uid = _allot_user_id(extension, state_root) if support.setpriv else None
    if uid is None:
        if not support.setpriv:
            reason, fix = "this host has no setpriv to change its user", "install it (util-linux)"
        else:
            reason, fix = "the container of this host has no user for it", "map 65536 or more users"
        return _as_root(extension, view, reason, fix)
    # Every user can read the paths of the system.
    system = {mount.path for mount in system_view(network=True).visible_paths}
    folders: set[str] = set()  # those to open: the user cannot enter them
    for mount in view.visible_paths:
        # `inaccessible` is the path itself, or a folder above it that the user cannot enter.
        if mount.path not in system and (inaccessible := find_inaccessible_path(mount.path, uid)):
            if mount.access == "write":  # an opened folder shows its paths read-only
                raise _not_writable_error(extension, mount.path, inaccessible, uid)
            # `can_read` ignores the folders above. If the path itself cannot be read, opening them
            # does not help.
            if not can_read(mount.path, uid):
                inaccessible = mount.path
            # A folder is opened by mounting an empty one over it, which is not possible for "/".
            if inaccessible in ("/", mount.path):
                reason = (
                    f"its own user {uid} cannot reach {mount.path}: it has no access to "
                    f"{inaccessible}"
                )
                return _as_root(extension, view, reason, _INSTALL_FOR_ALL)
            folders.add(inaccessible)
    if folders:
        # Below such a folder, root alone can often read the files, even in a readable visible
        # folder. (Elsewhere, the program itself reports a file that it cannot read.)
        for path in command_files:
            if not can_read(path, uid):
                reason = f"its own user {uid} cannot read {path}"
                return _as_root(extension, view, reason, _INSTALL_FOR_ALL)
        if not can_open_folders():
            reason = (
                f"its own user {uid} has no access to {min(folders)}, and this host cannot mount"
            )
            return _as_root(extension, view, reason, _INSTALL_FOR_ALL)
    for path in view.writable:
        if not can_write(path, uid):
            raise _not_writable_error(extension, path, path, uid)
    return replace(
        view,
        uid=uid,
        state=_usable_state(extension, view.state, uid),
        inaccessible_folders=tuple(_with_visible_paths(folder, view) for folder in sorted(folders)),
    )


def _with_visible_paths(folder: str, view: View) -> InaccessibleFolder:
    """Return the folder with the paths in it that the view shows."""
    paths = [mount.path for mount in view.visible_paths]
    visible = tuple(path for path in paths if path.startswith(f"{folder}/"))
    return InaccessibleFolder(folder, visible)


def _allot_user_id(extension: str, state_root: str) -> int | None:
    """Return the uid of the extension; None if the host's user namespace has no uid for it."""
    try:
        return allot_user_id(state_root, extension)
    except OSError as error:
        path = registry_file(state_root)
        raise Refused(
            "X0370",
            f"its user cannot be recorded in {path}: {error.strerror}",
            extension=extension,
            help="let the host write that file, or set EXTHOST_HOME to a folder that it can write",
            evidence=Evidence(path=path),
        ) from None


def _as_root(extension: str, view: View, reason: str, fix: str) -> View:
    """Return the view for an extension that runs as user 0. Raises Refused if the extension could
    write any of the host's files. `reason` says why it cannot run as its separate user, and `fix`
    says what the operator can do about that."""
    # In a rootless container, user 0 is an ordinary user of the machine, so nothing is written as
    # root.
    if not is_kernel_root():
        return view
    if view.writable:
        raise Refused(
            "X0392",
            f"it would write {view.writable[0]} as root: {reason}",
            extension=extension,
            help=f"{fix}, or remove the :rw grant",
            evidence=Evidence(path=view.writable[0], key="permissions.filesystem"),
        )
    if view.state:
        _log.warning(
            "[%s] it has no state folder, since it runs as root: %s; to give it one, %s",
            extension,
            reason,
            fix,
        )
    return replace(view, state="")


def _not_writable_error(extension: str, path: str, inaccessible: str, uid: int) -> Refused:
    """Return the error for a granted path that the user cannot write. `inaccessible` is the path
    itself, or a folder above it that this user cannot enter."""
    if inaccessible == path:
        command = f"chown -R {uid} {shlex.quote(path)}"
    else:
        command = f"chmod o+x {shlex.quote(inaccessible)}"
    return Refused(
        "X0392",
        f"user {uid}, which it runs as, cannot write {path}: it has no access to {inaccessible}",
        extension=extension,
        help=f"let that user write it: {command}",
        evidence=Evidence(path=path, key="permissions.filesystem"),
    )


def _usable_state(extension: str, folder: str, uid: int) -> str:
    """Return the state folder if the user can reach it; "" if not."""
    if not folder:
        return ""
    if inaccessible := find_inaccessible_folder(folder, uid):
        _log.warning(
            "[%s] it has no state folder, since its user %d cannot reach %s; set EXTHOST_HOME to "
            "a folder that every user can reach",
            extension,
            uid,
            inaccessible,
        )
        return ""
    return folder
