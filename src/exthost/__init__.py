"""exthost: a host for extensions, which are child processes that speak one of several dialects.

A dialect is the protocol that an extension speaks on its stdin and stdout. `docs/architecture.md`
describes the packages, and the path of a call through them.

`__all__` lists the public names. Each name is imported lazily, at its first use, so that `exthost
--help` does not have to import asyncio.
"""

from exthost._version import __version__

# The same as `typing.TYPE_CHECKING`. Importing `typing` would take longer than all else that the
# relay of `exthost gateway` does when it starts.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from exthost import errors as errors
    from exthost import events as events
    from exthost.events import Bus as Bus
    from exthost.extension.extension import Extension as Extension
    from exthost.host.connect_function import connect as connect
    from exthost.host.control.attached_host import attach as attach
    from exthost.host.host import Host as Host
    from exthost.host.sync.sync_attached_host import sync_attach as sync_attach
    from exthost.host.sync.sync_connection import sync_connect as sync_connect
    from exthost.host.sync.sync_extension import SyncExtension as SyncExtension
    from exthost.host.sync.sync_host import SyncHost as SyncHost
    from exthost.model.offer import Offer as Offer
    from exthost.model.offer import Tool as Tool
    from exthost.tool_result import ToolResult as ToolResult

# The module that defines each public name.
_MODULES_BY_NAME = {
    "Bus": "exthost.events",
    "Extension": "exthost.extension.extension",
    "Host": "exthost.host.host",
    "Offer": "exthost.model.offer",
    "SyncExtension": "exthost.host.sync.sync_extension",
    "SyncHost": "exthost.host.sync.sync_host",
    "Tool": "exthost.model.offer",
    "ToolResult": "exthost.tool_result",
    "attach": "exthost.host.control.attached_host",
    "connect": "exthost.host.connect_function",
    "errors": "exthost.errors",
    "events": "exthost.events",
    "sync_attach": "exthost.host.sync.sync_attached_host",
    "sync_connect": "exthost.host.sync.sync_connection",
}

__all__ = ["__version__", *_MODULES_BY_NAME]


def __getattr__(name: str) -> "Any":
    import importlib

    module_name = _MODULES_BY_NAME.get(name)
    if module_name is None:
        raise AttributeError(f"module 'exthost' has no attribute {name!r}{_suggest_module(name)}")
    module = importlib.import_module(module_name)
    # "errors" and "events" are modules themselves.
    value = module if name == module_name.rpartition(".")[2] else getattr(module, name)
    globals()[name] = value
    return value


def _suggest_module(name: str) -> str:
    """Return the end of an error message: the public module that has this name, or ""."""
    import importlib

    for module_name in ("exthost.errors", "exthost.events"):
        value = getattr(importlib.import_module(module_name), name, None)
        if getattr(value, "__module__", "") == module_name:
            return f"; it is {module_name}.{name}"
    return ""


def __dir__() -> list[str]:
    return sorted(__all__)
