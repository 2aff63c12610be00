"""What MCP servers offer beside tools: resources, resource templates and prompts, as one list each.

Lists are fetched when somebody wants them and kept until their server says that they changed or is
started again. A server that does not answer in time holds up nobody: its items come later, with a
notification. Resources keep their URIs, since links lead to them. Prompts have names like tools do.

A URI that is in no list is looked up where a link to it came from, then by the templates, then at
each server in turn.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.gateway.mcp_values import NATIVE
from exthost.names import registered_name

__all__ = ["Catalog", "Kind", "Prompt", "capabilities_of", "is_native", "speaks_stateless"]

_log = logging.getLogger("exthost.gateway")

# A list is answered after this with what has come.
LIST_SECONDS = 2.0

# Links of tool results, so many of them, the oldest forgotten first.
MAX_LINKS = 4096

Kind: TypeAlias = Literal["resources", "templates", "prompts"]

_EXPRESSION = re.compile(r"\{([+#./;?&]?)[^}]*\}")


class Prompt(NamedTuple):
    """A prompt: the extension that has it, and its name there."""

    extension: Extension
    name: str


def is_native(extension: Extension) -> bool:
    """Whether this is an MCP server."""
    return extension.dialect.name == NATIVE


def capabilities_of(extension: Extension) -> Mapping[str, Any]:
    """Return the capabilities of an MCP server that serves."""
    if not is_native(extension) or not extension.serves:
        return {}
    has = extension.offer.extra.get("server_capabilities")
    return has if isinstance(has, Mapping) else {}


def speaks_stateless(extension: Extension) -> bool:
    """Whether an MCP server speaks the era without a handshake."""
    return extension.offer.extra.get("era") == "stateless"


class Catalog:
    """The resources, templates and prompts of the extensions that `extensions` returns.
    `on_late` is called with the kind of a list that came after it was wanted."""

    def __init__(
        self,
        extensions: Callable[[], Iterable[Extension]],
        on_late: Callable[[Kind], None],
        *,
        plain_names: bool = False,
    ) -> None:
        self._extensions = extensions
        self._on_late = on_late
        self._plain_names = plain_names
        self._fetched: dict[tuple[str, Kind], asyncio.Task[list[Any]]] = {}
        self._links: dict[str, str] = {}

    def forget(self, extension: str, kinds: Iterable[Kind]) -> None:
        """Fetch these lists again when they are wanted."""
        for kind in kinds:
            task = self._fetched.pop((extension, kind), None)
            if task is not None:
                task.cancel()

    async def close(self) -> None:
        tasks, self._fetched = list(self._fetched.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- lists -------------------------------------------------------------------------------

    async def resources(self) -> list[Any]:
        """Return every resource. If two servers have one URI, the first keeps it."""
        return _unique(await self._items("resources"), "uri")

    async def templates(self) -> list[Any]:
        """Return every resource template, likewise."""
        return _unique(await self._items("templates"), "uriTemplate")

    async def prompts(self) -> list[Any]:
        """Return every prompt under its name here."""
        items = await self._items("prompts")
        names = self._names(items)
        shown = [
            (extension, {**item, "name": name})
            for (extension, item), name in zip(items, names, strict=True)
            if name
        ]
        return _unique(shown, "name")

    async def _items(self, kind: Kind) -> list[tuple[Extension, Any]]:
        capability = "prompts" if kind == "prompts" else "resources"
        able = [ext for ext in self._extensions() if capability in capabilities_of(ext)]
        tasks = [self._fetch(ext, kind) for ext in able]
        late = {task for task in tasks if not task.done()}
        if late:
            _, late = await asyncio.wait(late, timeout=LIST_SECONDS)
            for task in late:
                task.add_done_callback(
                    lambda done: None if done.cancelled() else self._on_late(kind)
                )
        return [
            (ext, item)
            for ext, task in zip(able, tasks, strict=True)
            if task not in late and not task.cancelled()
            for item in task.result()
            if isinstance(item, dict)
        ]

    def _fetch(self, extension: Extension, kind: Kind) -> "asyncio.Task[list[Any]]":
        task = self._fetched.get((extension.id, kind))
        if task is None:
            coroutine = _listed(extension, kind)
            task = asyncio.get_running_loop().create_task(coroutine)
            self._fetched[extension.id, kind] = task
        return task

    def _names(self, items: list[tuple[Extension, Any]]) -> list[str]:
        own = [item.get("name") for _, item in items]
        return [
            ""
            if not isinstance(name, str)
            else name
            if self._plain_names and own.count(name) == 1
            else registered_name(ext.id, name)
            for (ext, _), name in zip(items, own, strict=True)
        ]

    def server(self, id: str) -> Extension | None:
        """Return the MCP server with this id, if it serves."""
        for extension in self._extensions():
            if extension.id == id and is_native(extension) and extension.serves:
                return extension
        return None

    # -- owners ------------------------------------------------------------------------------

    async def prompt(self, name: str) -> Prompt | None:
        """Return the prompt of this name: as listed, `extension:prompt`, or its own name if only
        one server has it."""
        items = await self._items("prompts")
        for (extension, item), shown in zip(items, self._names(items), strict=True):
            own = item.get("name")
            if name in (shown, f"{extension.id}:{own}", registered_name(extension.id, str(own))):
                return Prompt(extension, own)
        same = [Prompt(ext, name) for ext, item in items if item.get("name") == name]
        return same[0] if len(same) == 1 else None

    async def servers_of(self, uri: str) -> list[Extension]:
        """Return the servers that may have this resource, or this resource template; those that are
        asked in turn if the one before does not have it."""
        for kind, member in (("resources", "uri"), ("templates", "uriTemplate")):
            for extension, item in await self._items(kind):  # type: ignore[arg-type]
                if item.get(member) == uri:
                    return [extension]
        able = [ext for ext in self._extensions() if "resources" in capabilities_of(ext)]
        linked = [ext for ext in able if ext.id == self._links.get(uri)]
        if linked:
            return linked
        matching = [
            extension
            for extension, item in await self._items("templates")
            if _matches(item.get("uriTemplate"), uri)
        ]
        return list(dict.fromkeys(matching)) or able

    def note_links(self, extension: str, result: Any) -> None:
        """Remember from where a result of a tool leads to which resources."""
        blocks = result.get("content") if isinstance(result, dict) else None
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict) and block.get("type") == "resource_link":
                uri = block.get("uri")
                if isinstance(uri, str):
                    self._links.pop(uri, None)
                    self._links[uri] = extension
        while len(self._links) > MAX_LINKS:
            del self._links[next(iter(self._links))]


async def _listed(extension: Extension, kind: Kind) -> list[Any]:
    fetch: Callable[[], Coroutine[Any, Any, Any]]
    if kind == "prompts":
        fetch = extension.prompts.list
    else:
        fetch = extension.resources.list if kind == "resources" else extension.resources.templates
    try:
        return list(await fetch())
    except ExthostError as error:
        # Many servers have resources and no templates, and say so with an error.
        _log.debug("%s does not list its %s: %s", extension.id, kind, error)
        return []


def _unique(items: Iterable[tuple[Extension, Any]], member: str) -> list[Any]:
    """Return the items whose key no earlier server has. What one server lists twice stays so."""
    owners: dict[str, str] = {}
    return [
        item
        for extension, item in items
        if isinstance(item.get(member), str)
        and owners.setdefault(item[member], extension.id) == extension.id
    ]


def _matches(template: Any, uri: str) -> bool:
    """Whether a URI can be one of an RFC 6570 template: each expression stands for any text."""
    if not isinstance(template, str):
        return False
    parts: list[str] = []
    end = 0
    for found in _EXPRESSION.finditer(template):
        parts += re.escape(template[end : found.start()]), ".*" if found[1] else "[^/]*"
        end = found.end()
    return re.fullmatch("".join((*parts, re.escape(template[end:]))), uri) is not None
