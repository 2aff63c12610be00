"""The control socket of a host in a Python program: `Host(control=True)`."""

from pathlib import Path
from typing import Protocol

from exthost.config import Config
from exthost.control.served_host import ServedHost
from exthost.errors import UsageError


class ControlSocket(Protocol):
    """An open socket."""

    async def close(self) -> None: ...


def control_path(control: bool | str | Path, config: Config) -> str | None:
    """Return the path that names the socket; None if none is wanted. Raises UsageError if the
    config is no file and no path was given."""
    if isinstance(control, str | Path):
        return str(control)
    if not control:
        return None
    if config.folder is None:
        raise UsageError(
            "X1381",
            "control=True needs a config that is a file: its path names the socket",
            help='give a path instead: control="agent.toml"; clients name the same',
        )
    return config.origin


async def open_control_socket(host: ServedHost, path: str) -> ControlSocket:
    """Open the socket of this host under the path of its config, and serve it.

    Raises UsageError if another host has it.
    """
    # Few hosts have a socket; the others do not pay for its modules.
    from exthost.control.server import ControlServer
    from exthost.control.status_report import StatusReport

    control = ControlServer(host, StatusReport(host), path, is_program=True)
    await control.serve()
    return control
