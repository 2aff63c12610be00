"""Computes the folder that contains all files of the host.

The relay of `exthost gateway` (`faces/relay`), a small process between an MCP client and a host,
imports this module and must start as fast as possible. So this module imports nothing but `sys`,
unless HOME is not set.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def state_root(environ: "Mapping[str, str]") -> str:
    """Return the folder that contains all files of the host: `$EXTHOST_HOME`, or a folder in the
    platform's state folder."""
    configured = environ.get("EXTHOST_HOME")
    if configured:
        return configured
    user_home = environ.get("HOME") or _recorded_home()
    if sys.platform == "darwin":
        return _join(user_home, "Library/Application Support/exthost")
    # The XDG specification says to ignore a relative path.
    xdg_state = environ.get("XDG_STATE_HOME", "")
    base = xdg_state if xdg_state.startswith("/") else _join(user_home, ".local/state")
    return _join(base, "exthost")


def _recorded_home() -> str:
    """Return the home folder in the record of this process's user: a service manager sets no HOME
    for a service of the system, and the user's shell must find the same folder."""
    import os
    import pwd  # lazily, because HOME is almost always set

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"


def _join(folder: str, path: str) -> str:
    return f"{folder.rstrip('/')}/{path}"
