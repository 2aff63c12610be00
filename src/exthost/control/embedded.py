"""The control socket of a host in a Python program: `Host(control=True)`."""

import os

from exthost.control.report import Report
from exthost.control.server import Control
from exthost.host.host import Host

__all__ = ["open_control"]


async def open_control(host: Host, config: str | os.PathLike[str]) -> Control:
    """Open the socket of this host under the path of its config, and serve it.

    Raises UsageError if another host has it.
    """
    control = Control(host, Report(host), os.fspath(config), is_program=True)
    await control.serve()
    return control
