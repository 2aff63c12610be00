"""Finds a tool by its name; starts extensions whose tools only a handshake shows."""

import asyncio

from exthost.errors import ExthostError, NotFound
from exthost.host.extension_set import ExtensionSet
from exthost.host.registry import Registry
from exthost.names import registered_name
from exthost.offer import RegisteredTool

__all__ = ["ToolFinder"]

# The code of the error for a name that several tools have.
_SEVERAL = "X1204"


class ToolFinder:
    """Finds the tools of one host."""

    def __init__(self, registry: Registry, extensions: ExtensionSet) -> None:
        self._registry = registry
        self._extensions = extensions

    async def find(self, name: str, capability: str = "", ask_all: bool = False) -> RegisteredTool:
        """Return the tool of this name, of an extension with this capability.

        If it is not known, the extensions whose tools are not known yet are started: those
        that the name can belong to, or with `ask_all` each of them. With `ask_all` they are also
        started for a tool's own name, which another of them may have as well.
        """
        self._extensions.require_open()
        try:
            tool = self._registry.find(name, capability=capability)
            if not ask_all or tool.name == name or ":" in name:
                return tool
            silent = [ext for ext in self._extensions if ext.is_silent]
            if not silent:
                return tool
            await asyncio.gather(*(ext.start() for ext in silent), return_exceptions=True)
            return self._registry.find(name, capability=capability)
        except NotFound as unknown:
            if unknown.code == _SEVERAL:
                raise
            silent = [ext for ext in self._extensions if ext.is_silent]
            owners = [ext for ext in silent if _can_belong_to(name, ext.id)]
            started = owners or (silent if ask_all else [])
            if not started:
                self._raise_absence(name)
                raise
        outcomes = await asyncio.gather(*(ext.start() for ext in started), return_exceptions=True)
        try:
            return self._registry.find(name, capability=capability)
        except NotFound:
            for outcome in outcomes:
                if owners and isinstance(outcome, ExthostError):
                    raise outcome from None
            self._raise_absence(name)
            raise

    def _raise_absence(self, name: str) -> None:
        """Raise why the extension of this tool does not serve, if there is one."""
        for extension in self._extensions:
            if not extension.serves and (
                name in extension.tools or _can_belong_to(name, extension.id)
            ):
                raise extension.absence(name) from None


def _can_belong_to(name: str, extension: str) -> bool:
    """Return whether a tool's name, in any spelling, can belong to this extension."""
    extension_part, colon, _ = name.partition(":")
    if colon:
        return extension_part == extension
    return name.startswith(registered_name(extension, ""))
