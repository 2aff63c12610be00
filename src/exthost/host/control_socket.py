"""How a host opens its control socket, which belongs to a package above it.

`exthost.control` looks at hosts, so it imports this package and not the other way round. It is
found by name here, as an installed dialect is, and only if the socket is wanted.
"""

import importlib
from pathlib import Path
from typing import Any, Protocol

from exthost.config import Config
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


async def open_control_socket(host: object, path: str) -> ControlSocket:
    """Open the socket of this host."""
    embedded: Any = importlib.import_module("exthost.control.embedded")
    control: ControlSocket = await embedded.open_control(host, path)
    return control
