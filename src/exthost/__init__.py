"""exthost: one host for extensions that run as child processes, whichever dialect they speak.

`__all__` has the public names. Each is imported lazily, at its first use, so that `exthost --help`
does not have to import asyncio.
"""

import importlib
from typing import TYPE_CHECKING, Any

from exthost._version import __version__

if TYPE_CHECKING:
    from exthost import errors as errors
    from exthost import events as events
    from exthost.connect_function import connect as connect
    from exthost.control.attached_host import attach as attach
    from exthost.events import Bus as Bus
    from exthost.extension.extension import Extension as Extension
    from exthost.host.host import Host as Host
    from exthost.offer import Offer as Offer
    from exthost.offer import Tool as Tool
    from exthost.sync.sync_connection import sync_connect as sync_connect
    from exthost.sync.sync_extension import SyncExtension as SyncExtension
    from exthost.sync.sync_host import SyncHost as SyncHost
    from exthost.tool_result import ToolResult as ToolResult

# The module that defines each public name.
_HOMES = {
    "Bus": "exthost.events",
    "Extension": "exthost.extension.extension",
    "Host": "exthost.host.host",
    "Offer": "exthost.offer",
    "SyncExtension": "exthost.sync.sync_extension",
    "SyncHost": "exthost.sync.sync_host",
    "Tool": "exthost.offer",
    "ToolResult": "exthost.tool_result",
    "attach": "exthost.control.attached_host",
    "connect": "exthost.connect_function",
    "errors": "exthost.errors",
    "events": "exthost.events",
    "sync_connect": "exthost.sync.sync_connection",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'exthost' has no attribute {name!r}{_suggest_module(name)}")
    module = importlib.import_module(home)
    value = module if name == home.rpartition(".")[2] else getattr(module, name)
    globals()[name] = value
    return value


def _suggest_module(name: str) -> str:
    """Return the end of an error message: the public module that has this name, or ""."""
    for home in ("exthost.errors", "exthost.events"):
        value = getattr(importlib.import_module(home), name, None)
        if getattr(value, "__module__", "") == home:
            return f"; it is {home}.{name}"
    return ""


def __dir__() -> list[str]:
    return sorted(__all__)
