"""Finds a tool by its name, and starts extensions whose tools are not known yet.

The registry knows the tools of extensions that have been running. An extension announces its tools
in its handshake, so those of one that starts at its first use may be unknown: it is *silent*.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from exthost.errors import ExthostError, NotFound
from exthost.extension.misuse import check_name
from exthost.host.registry import AmbiguousName
from exthost.model.names import registered_prefix

if TYPE_CHECKING:
    from exthost.extension.extension import Extension
    from exthost.host.extension_set import ExtensionSet
    from exthost.host.registry import Registry
    from exthost.model.offer import RegisteredTool


class ToolFinder:
    """Finds the tools of one host."""

    def __init__(self, registry: Registry, extensions: ExtensionSet) -> None:
        self._registry = registry
        self._extensions = extensions

    async def find(self, name: str, capability: str = "", ask_all: bool = False) -> RegisteredTool:
        """Return the tool of this name, of an extension with this capability ("" for any).

        If no known tool has the name, the silent extensions to which the name can belong (for
        `ext_weather_forecast` that is `weather`) are started; if there are none and `ask_all` is
        True, every silent extension is.

        With `ask_all`, every silent extension is also started if the name is a tool's own name,
        because another extension may have a tool of that name, too. Raises NotFound if the name
        is then unknown or ambiguous. If the extension that has the name does not serve, the error
        that says why is raised; no other extension is searched for the name then.
        """
        self._extensions.require_open()
        check_name(name)
        try:
            tool = self._registry.find(name, capability=capability)
            # Only a tool's own name can belong to another extension, too.
            if not ask_all or tool.name == name or ":" in name:
                return tool
            silent = self._silent_extensions()
            if not silent:
                return tool
            await asyncio.gather(*(ext.start() for ext in silent), return_exceptions=True)
            return self._registry.find(name, capability=capability)
        except AmbiguousName:  # a NotFound that no start can change
            raise
        except NotFound as error:
            self._raise_why_owner_is_unavailable(name, error)
            silent = self._silent_extensions()
            owners = [ext for ext in silent if _can_belong_to(name, ext.id)]
            to_start = owners or (silent if ask_all else [])
            if not to_start:
                self._raise_why_unavailable(name)
                raise
        outcomes = await asyncio.gather(*(ext.start() for ext in to_start), return_exceptions=True)
        try:
            return self._registry.find(name, capability=capability)
        except NotFound as error:
            self._raise_why_owner_is_unavailable(name, error)
            if owners:  # the name can only be one of theirs: say why they did not start
                for outcome in outcomes:
                    if isinstance(outcome, ExthostError):
                        raise outcome from None
            self._raise_why_unavailable(name)
            raise

    def _silent_extensions(self) -> list[Extension]:
        return [ext for ext in self._extensions if ext.internals.is_offer_unknown]

    def _raise_why_owner_is_unavailable(self, name: str, error: NotFound) -> None:
        """If an extension has the name but does not serve, raise the error that says why."""
        # Of the errors of `Registry.find`, only that of an extension that does not serve has an id.
        owner = self._extensions.by_id.get(error.extension)
        if owner is not None:
            raise owner.internals.not_running_error(name) from None

    def _raise_why_unavailable(self, name: str) -> None:
        """If an extension that can have this tool is unavailable (failed, refused or stopped),
        raise the error that says so. Return otherwise."""
        for extension in self._extensions:
            if not extension.internals.serves and (
                name in extension.tools or _can_belong_to(name, extension.id)
            ):
                raise extension.internals.not_running_error(name) from None


def _can_belong_to(name: str, extension: str) -> bool:
    """Return whether the name, a registered name or `extension:tool`, can be that of a tool of this
    extension."""
    extension_part, colon, _ = name.partition(":")
    if colon:
        return extension_part == extension
    return name.startswith(registered_prefix(extension))
