"""Merges the resources, resource templates and prompts of all MCP servers into one list of each.

The gateway is one MCP server in front of many. Its clients see these lists, and the gateway looks
up in them which server a resource (`file:///notes.txt`) or a prompt belongs to.

A list is fetched from its server when a client requests it. It is kept until the server announces
a change or is restarted. A server that does not answer in time delays no client: its items are left
out, and clients are notified when they have arrived. Resources keep their URIs, because links in
tool results refer to them. Prompts get the prefix of their extension, as tools do.

To find the server of a URI that is in no list, the catalog looks at the links in earlier tool
results, then at the resource templates. If neither helps, all servers are tried in turn.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.faces.gateway.client_stream import wants_plain_names
from exthost.faces.gateway.mcp_values import MCP_DIALECT
from exthost.model.names import registered_name, registered_prefix

_log = logging.getLogger("exthost.faces.gateway")

# A list that has not arrived from its server after this time is left out of the reply.
LIST_SECONDS = 2.0

# The maximum number of remembered links. The oldest are forgotten first.
MAX_LINKS = 4096

Kind: TypeAlias = Literal["resources", "templates", "prompts"]

# An expression of a URI template (RFC 6570), with its operator as group 1.
_EXPRESSION = re.compile(r"\{([+#./;?&]?)[^{}]*\}")


class Prompt(NamedTuple):
    """A prompt: its extension, and its name in that extension."""

    extension: Extension
    name: str


def is_mcp_server(extension: Extension) -> bool:
    """Return whether this extension is an MCP server."""
    return extension.dialect.name == MCP_DIALECT


def server_capabilities(extension: Extension) -> Mapping[str, Any]:
    """Return the capabilities of an MCP server that is ready, and {} for any other extension."""
    if not is_mcp_server(extension) or not extension.internals.serves:
        return {}
    # The offer is what the extension announced in its handshake.
    capabilities = extension.offer.extra.get("server_capabilities")
    return capabilities if isinstance(capabilities, Mapping) else {}


def is_stateless_server(extension: Extension) -> bool:
    """Return whether an MCP server speaks the stateless era of the protocol, in which there is no
    session and each request describes its client."""
    return extension.offer.extra.get("era") == "stateless"


class Catalog:
    """The resources, templates and prompts of the extensions that `extensions` returns.

    `on_late_list` is called with the kind of a list that arrived after a client got a reply without
    its items. With `plain_names`, a prompt whose name only one server uses is listed under that
    name, unless it looks like the name of another server's prompt.
    """

    def __init__(
        self,
        extensions: Callable[[], Iterable[Extension]],
        on_late_list: Callable[[Kind], None],
        *,
        plain_names: bool = False,
    ) -> None:
        self._extensions = extensions
        self._on_late_list = on_late_list
        self._plain_names = plain_names
        # By id of an extension and kind: the task whose result is the list.
        self._fetch_tasks: dict[tuple[str, Kind], asyncio.Task[list[Any]]] = {}
        self._links: dict[str, str] = {}  # ids of extensions, by URI

    def invalidate(self, extension: str, kinds: Iterable[Kind]) -> None:
        """Discard these lists of an extension; they are fetched again when they are needed."""
        for kind in kinds:
            task = self._fetch_tasks.pop((extension, kind), None)
            if task is not None:
                task.cancel()

    async def close(self) -> None:
        tasks, self._fetch_tasks = list(self._fetch_tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- lists -------------------------------------------------------------------------------

    async def list_resources(self) -> list[Any]:
        """Return every resource. If two servers have the same URI, the resource of the first server
        is returned."""
        return _unique(await self._fetch_items("resources"), "uri")

    async def list_templates(self) -> list[Any]:
        """Return every resource template. Of two with the same template, the first is returned."""
        return _unique(await self._fetch_items("templates"), "uriTemplate")

    async def list_prompts(self) -> list[Any]:
        """Return every prompt, under the name that clients use."""
        items = await self._fetch_items("prompts")
        names = self._listed_names(items)
        prompts = [
            (extension, {**item, "name": name})
            for (extension, item), name in zip(items, names, strict=True)
            if name
        ]
        return _unique(prompts, "name")

    async def _fetch_items(self, kind: Kind) -> list[tuple[Extension, Any]]:
        """Return the items of the lists of all servers, each with its extension. A list that does
        not arrive in time is left out, and reported when it arrives."""
        capability = "prompts" if kind == "prompts" else "resources"
        servers = [ext for ext in self._extensions() if capability in server_capabilities(ext)]
        tasks = [self._fetch(ext, kind) for ext in servers]
        pending = {task for task in tasks if not task.done()}
        if pending:
            _, pending = await asyncio.wait(pending, timeout=LIST_SECONDS)
            for task in pending:
                task.add_done_callback(
                    lambda done: None if done.cancelled() else self._on_late_list(kind)
                )
        return [
            (ext, item)
            for ext, task in zip(servers, tasks, strict=True)
            if task not in pending and not task.cancelled()
            for item in task.result()
            if isinstance(item, dict)
        ]

    def _fetch(self, extension: Extension, kind: Kind) -> "asyncio.Task[list[Any]]":
        """Return the task that fetches a list, or that has fetched it since it last changed."""
        task = self._fetch_tasks.get((extension.id, kind))
        if task is None:
            coroutine = _fetch_list(extension, kind)
            task = asyncio.get_running_loop().create_task(coroutine)
            self._fetch_tasks[extension.id, kind] = task
        return task

    def _listed_names(self, items: list[tuple[Extension, Any]]) -> list[str]:
        """Return the name under which each prompt is listed; "" for a prompt without a valid
        name."""
        server_names = [item.get("name") for _, item in items]
        counts = Counter(name for name in server_names if isinstance(name, str))
        plain_names = wants_plain_names(self._plain_names)
        listed_names = []
        for (extension, _), name in zip(items, server_names, strict=True):
            if not isinstance(name, str):
                listed_names.append("")
            elif plain_names and counts[name] == 1 and not self._may_be_registered(name):
                listed_names.append(name)
            else:
                listed_names.append(registered_name(extension.id, name))
        return listed_names

    def _may_be_registered(self, name: str) -> bool:
        """Return whether the text can be the name of a prompt with its extension: a registered name
        or `extension:prompt`. Such a text is never looked up as a server's own name."""
        return any(
            name.startswith((registered_prefix(extension.id), f"{extension.id}:"))
            for extension in self._extensions()
        )

    def find_server(self, id: str) -> Extension | None:
        """Return the MCP server with this id, or None if no MCP server that is ready has it."""
        for extension in self._extensions():
            if extension.id == id and is_mcp_server(extension) and extension.internals.serves:
                return extension
        return None

    # -- search ------------------------------------------------------------------------------

    async def find_prompt(self, name: str) -> Prompt | None:
        """Return the prompt of this name, or None. Three names are accepted: the name in the list,
        `extension:prompt`, and the server's own name for the prompt if only one server has it."""
        items = await self._fetch_items("prompts")
        for (extension, item), listed_name in zip(items, self._listed_names(items), strict=True):
            server_name = item.get("name")
            if name in (
                listed_name,
                f"{extension.id}:{server_name}",
                registered_name(extension.id, str(server_name)),
            ):
                return Prompt(extension, server_name)
        if self._may_be_registered(name):
            return None
        candidates = [Prompt(ext, name) for ext, item in items if item.get("name") == name]
        return candidates[0] if len(candidates) == 1 else None

    async def find_servers(self, uri: str) -> list[Extension]:
        """Return the servers that may have this resource or resource template: its owners, or every
        server with resources if no owner is known. They are tried in turn until a server has it."""
        return await self.find_owners(uri) or self.resource_servers

    async def find_owners(self, uri: str) -> list[Extension]:
        """Return the servers to which this resource or resource template belongs: it is in their
        lists, a tool result of theirs links to it, or it matches a template of theirs."""
        for kind, key_field in (("resources", "uri"), ("templates", "uriTemplate")):
            for extension, item in await self._fetch_items(kind):  # type: ignore[arg-type]
                if item.get(key_field) == uri:
                    return [extension]
        link_servers = [ext for ext in self.resource_servers if ext.id == self._links.get(uri)]
        if link_servers:
            return link_servers
        template_servers = [
            extension
            for extension, item in await self._fetch_items("templates")
            if _matches(item.get("uriTemplate"), uri)
        ]
        return list(dict.fromkeys(template_servers))  # each server once

    @property
    def resource_servers(self) -> list[Extension]:
        """The servers that are known to have resources."""
        return [ext for ext in self._extensions() if "resources" in server_capabilities(ext)]

    def remember_links(self, extension: str, result: Any) -> None:
        """Remember that this extension has the resources that a tool result of it links to."""
        blocks = result.get("content") if isinstance(result, dict) else None
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict) and block.get("type") == "resource_link":
                uri = block.get("uri")
                if isinstance(uri, str):
                    self._links.pop(uri, None)  # so that it becomes the newest
                    self._links[uri] = extension
        while len(self._links) > MAX_LINKS:
            del self._links[next(iter(self._links))]


async def _fetch_list(extension: Extension, kind: Kind) -> list[Any]:
    """Return a list of a server; [] if the server does not have it."""
    fetch: Callable[[], Coroutine[Any, Any, Any]]
    if kind == "prompts":
        fetch = extension.prompts.list
    else:
        fetch = extension.resources.list if kind == "resources" else extension.resources.templates
    try:
        return list(await fetch())
    except ExthostError as error:
        # Many servers have resources and no templates, and reply to this request with an error.
        _log.debug("%s does not list its %s: %s", extension.id, kind, error)
        return []


def _unique(items: Iterable[tuple[Extension, Any]], key_field: str) -> list[Any]:
    """Return the items whose key no earlier server has. Duplicates of one server are kept, because
    the gateway passes the list of a server on unchanged."""
    owners: dict[str, str] = {}
    return [
        item
        for extension, item in items
        if isinstance(item.get(key_field), str)
        and owners.setdefault(item[key_field], extension.id) == extension.id
    ]


def _matches(template: Any, uri: str) -> bool:
    """Return whether a URI matches an RFC 6570 template. A plain expression matches any text
    without a slash; an expression with an operator matches any text.

    The template is that of a server, and must not take long. A regular expression would take
    exponential time for a template with many expressions. So this function computes in which
    places of the URI a match of the parts so far can end. Bit `n` of `ends` stands for the place
    before character `n`.
    """
    if not isinstance(template, str):
        return False
    all_places = (1 << (len(uri) + 1)) - 1
    not_slash = sum(1 << place for place, character in enumerate(uri) if character != "/")
    ends = 1
    position = 0  # in the template
    for expression in _EXPRESSION.finditer(template):
        ends = _add_literal(ends, template[position : expression.start()], uri)
        if not ends:
            return False
        if expression[1]:
            ends = all_places & -(ends & -ends)  # the first place, and all places after it
        else:
            # The addition carries each bit through the characters after it, up to a slash.
            ends |= ((ends & not_slash) + not_slash) ^ not_slash
        position = expression.end()
    ends = _add_literal(ends, template[position:], uri)
    return bool(ends >> len(uri) & 1)


def _add_literal(ends: int, literal: str, uri: str) -> int:
    """Return the places in which this text ends, if it begins in one of the places `ends`."""
    if not literal:
        return ends
    next_ends, place = 0, uri.find(literal)
    while place >= 0:
        if ends >> place & 1:
            next_ends |= 1 << (place + len(literal))
        place = uri.find(literal, place + 1)
    return next_ends
