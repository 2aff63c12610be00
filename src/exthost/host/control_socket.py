"""Opens the control socket of a host in a Python program, for `Host(control=True)`.

By this local socket `exthost status`, `exthost call` and `exthost.attach` reach the host.
"""

from pathlib import Path
from typing import Protocol

from exthost.config import Config
from exthost.errors import UsageError
from exthost.host.control.served_host import ServedHost


class ControlSocket(Protocol):
    """An open control socket."""

    async def close(self) -> None: ...


def control_path(control: bool | str | Path, config: Config) -> str | None:
    """Return the path that identifies the socket, or None if `control` is False.

    With True, it is the path of the config. Raises UsageError if the config was not read from a
    file. The socket itself is elsewhere (see `control.address`).
    """
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
    """Open the socket of this host and accept clients. `path` is the result of `control_path`.

    Raises UsageError if another running host has opened it.
    """
    # Imported lazily, because few hosts have a socket.
    from exthost.host.control.server import ControlServer
    from exthost.host.control.status_report import StatusReport

    control = ControlServer(host, StatusReport(host), path, is_program=True)
    await control.serve()
    return control
