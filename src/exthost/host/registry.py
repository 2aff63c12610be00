"""The tools that can be called now, by name, and the extension of each.

Every tool of every dialect has one registered name (see `names`). If two extensions have a tool of
the same registered name, the first in the order of the host keeps it, and a warning names the
other; when the first ends, the other gets the name. A tool is also found by `extension:tool`, in
which the extension may be given by its id or its own name; and by the tool's own name, if only one
extension has it, or only one with the requested capability.

The tables are rebuilt at the first look-up after a change: a hundred extensions that get ready one
after another cost one rebuild. Knows no process and no loop.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from exthost.errors import NotFound
from exthost.names import capability_fits, nearest, prefixed_description, registered_name
from exthost.offer import Offer, RegisteredTool, Tool

_log = logging.getLogger("exthost.host.registry")

# In a message, as many names as a person reads.
_SHOWN_NAMES = 5


class Server(Protocol):
    """What the registry needs to know of an extension."""

    @property
    def id(self) -> str: ...
    @property
    def serves(self) -> bool: ...
    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def offer(self) -> Offer: ...


class Registry:
    """The tools of one host by their names."""

    def __init__(self, on_change: Callable[[], None] | None = None) -> None:
        self._on_change = on_change
        self._servers: Iterable[Server] = ()
        self._stale = True
        self._tools: dict[str, RegisteredTool] = {}
        # The tools by registered name, empty while they have to be collected anew. Every call
        # looks here first.
        self.current: Mapping[str, RegisteredTool] = {}
        self._by_own_name: dict[str, list[RegisteredTool]] = {}
        self.logged_warnings: set[str] = set()
        self.warnings: tuple[str, ...] = ()

    def set_extensions(self, servers: Iterable[Server]) -> None:
        """Use these extensions, in this order."""
        self._servers = servers
        self._stale, self.current = True, {}

    def mark_stale(self) -> None:
        """Rebuild the tables at the next look-up, because an offer or a state has changed."""
        self._stale, self.current = True, {}
        if self._on_change is not None:
            self._on_change()

    @property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """The tools by registered name, in the order of the extensions."""
        return MappingProxyType(self._fresh())

    def get(self, name: str) -> RegisteredTool | None:
        """Return the tool of this registered name, or None."""
        if self._stale:
            self._fresh()
        return self._tools.get(name)

    def find(self, name: str, *, capability: str = "") -> RegisteredTool:
        """Return the tool of this name in any spelling, of an extension with this capability.
        Raises NotFound with the nearest name."""
        found = self._fresh().get(name)
        extension, colon, own = name.partition(":")
        same = self._by_own_name.get(own if colon else name, []) if found is None else [found]
        if colon:
            same = [tool for tool in same if extension in (tool.extension, tool.provider)]
        if capability and same:
            same = [tool for tool in same if _has(tool, capability)]
            if not same:
                raise NotFound(
                    "X1220",
                    f"no extension with the capability {capability} has a tool {name!r}",
                    help="exthost inspect shows the capabilities of an extension",
                )
        if len(same) == 1:
            return same[0]
        raise self._not_found(name, same)

    def _fresh(self) -> dict[str, RegisteredTool]:
        if self._stale:
            self._stale = False
            self._rebuild()
        return self._tools

    def _rebuild(self) -> None:
        tools: dict[str, RegisteredTool] = {}
        by_own_name: dict[str, list[RegisteredTool]] = {}
        warnings = []
        for server in list(self._servers):
            if not server.serves:
                continue
            for tool in server.tools.values():
                registered = _registered(server, tool)
                first = tools.setdefault(registered.name, registered)
                by_own_name.setdefault(tool.name, []).append(registered)
                if first is not registered:
                    warnings.append(
                        f"{registered.name} is taken by {first.extension}:{first.tool}, so "
                        f"{registered.extension}:{registered.tool} is not listed under it"
                    )
        self._tools, self._by_own_name = tools, by_own_name
        self.current = tools
        self.warnings = tuple(warnings)
        for warning in warnings:
            if warning not in self.logged_warnings:
                self.logged_warnings.add(warning)
                _log.warning("%s", warning)

    def _not_found(self, name: str, same: list[RegisteredTool]) -> NotFound:
        if same:
            ways = ", ".join(tool.name for tool in same[:_SHOWN_NAMES])
            return NotFound(
                "X1204",
                f"{len(same)} extensions have a tool {name!r}",
                help=f"say which one you mean: {ways}",
            )
        near = nearest(name, [*self._tools, *self._by_own_name])
        if near is not None:
            help = f"did you mean {near!r}?"
        elif self._tools:
            help = f"see what there is: exthost tools (there are {len(self._tools)})"
        else:
            help = "no extension offers a tool right now: see exthost list"
        return NotFound("X1201", f"there is no tool {name!r}", help=help)


def _has(tool: RegisteredTool, capability: str) -> bool:
    return any(capability_fits(capability, offered) for offered in tool.capabilities)


def _registered(server: Server, tool: Tool) -> RegisteredTool:
    return RegisteredTool(
        name=registered_name(server.id, tool.name),
        description=prefixed_description(server.id, tool.description),
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        extra=tool.extra,
        tool=tool.name,
        extension=server.id,
        provider=server.offer.name,
        capabilities=server.offer.capabilities,
    )
