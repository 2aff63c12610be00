"""As whom a root host runs a sandboxed extension.

Every extension is a user of its own (`process/user_ids.py`). Where that user cannot reach what the
program needs (an interpreter below /root, the usual case of version managers), the extension stays
user 0 without capabilities, but only if it can write nothing of the host's: what it wrote there
would be root's. Else it is refused, with the command that makes it work. A state folder is not
worth a refusal: the extension then has none.
"""

import logging
from dataclasses import replace

from exthost.errors import Evidence, Refused
from exthost.process.user_ids import blocked_by, can_write, closed_above, is_kernel_root, user_id
from exthost.process.view import system_view
from exthost.sandbox.means import Tools
from exthost.sandbox.strict import View

__all__ = ["user_of", "with_own_user"]

_log = logging.getLogger("exthost.launch")


def user_of(extension: str, tools: Tools) -> int | None:
    """Return the user that this host can run an extension as; None if only its own."""
    return user_id(extension) if tools.uid == 0 and tools.setpriv else None


def with_own_user(extension: str, view: View, tools: Tools) -> View:
    """Return the view with the user that a root host runs the extension as. Raises Refused if it
    could write something as root, or its own user could not write what was granted."""
    uid = user_of(extension, tools)
    if uid is None:
        return _as_root(extension, view, "this host cannot become another user (setpriv)")
    system = {one.path for one in system_view(network=True).shown}
    for one in view.shown:
        if one.path not in system and (closed := blocked_by(one.path, uid)):
            if one.access == "write":
                raise _not_writable(extension, one.path, closed, uid)
            why = f"its own user {uid} cannot reach {one.path}, since {closed} is closed to it"
            return _as_root(extension, view, why)
    for path in view.writable:
        if not can_write(path, uid):
            raise _not_writable(extension, path, path, uid)
    return replace(view, uid=uid, state=_usable_state(extension, view.state, uid))


def _as_root(extension: str, view: View, why: str) -> View:
    """Return the view for user 0, which then writes nothing of the host's."""
    if not is_kernel_root():  # of a container that an ordinary user runs
        return view
    if view.writable:
        raise Refused(
            "X0392",
            f"it may write {view.writable[0]}, and would write it as root: {why}",
            extension=extension,
            help="install what it runs where every user can reach it (/usr/local, /opt), or take "
            "the :rw grant out",
            evidence=Evidence(path=view.writable[0], key="permissions.filesystem"),
        )
    if view.state:
        _log.warning("[%s] it has no state folder, since it runs as root: %s", extension, why)
    return replace(view, state="")


def _not_writable(extension: str, path: str, closed: str, uid: int) -> Refused:
    command = f"chown -R {uid} {path}" if closed == path else f"chmod o+x {closed}"
    return Refused(
        "X0392",
        f"it may write {path}, and the user that it runs as ({uid}) cannot: {closed} is closed",
        extension=extension,
        help=f"let that user write it: {command}",
        evidence=Evidence(path=path, key="permissions.filesystem"),
    )


def _usable_state(extension: str, folder: str, uid: int) -> str:
    """Return the state folder if the user can reach it, once it is made for that user."""
    if not folder:
        return ""
    if closed := closed_above(folder, uid):
        _log.warning(
            "[%s] it has no state folder, since its user %d cannot reach %s; set EXTHOST_HOME to "
            "a folder that every user can reach",
            extension,
            uid,
            closed,
        )
        return ""
    return folder
