"""mcp's facets: `ext.resources`, `ext.prompts`, `ext.completion`, `ext.logging`; and its pages.

Thin: each method words one request of the protocol and returns what the server answered, as it
came. Lists are read to their last page, up to a cap; a server that pages for ever is told of.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from exthost.dialects.caller import Caller
from exthost.dialects.steps import expect
from exthost.errors import ProtocolViolation
from exthost.messages import Request

# So many pages of one list, and no more: real servers have one to three.
MOST_PAGES = 100


def pages(method: str, member: str) -> Generator[Request, Any, list[Any]]:
    """Every item of a list that comes in pages, as exchanges."""
    reading = _Pages(method, member)
    while not reading.done:
        reading.take(expect((yield Request(method, reading.params)), method))
    return reading.items


class _Pages:
    """A list being read page by page."""

    def __init__(self, method: str, member: str) -> None:
        self._method = method
        self._member = member
        self._cursors: set[str] = set()
        self.params: dict[str, Any] = {}
        self.items: list[Any] = []
        self.done = False

    def take(self, page: Any) -> None:
        """One more page. Raises ProtocolViolation for one that is none, or one too many."""
        items = page.get(self._member) if type(page) is dict else None
        if type(items) is not list:
            raise self._wrong(f"its answer has no list of {self._member}")
        self.items += items
        cursor = page.get("nextCursor")
        if type(cursor) is not str:
            self.done = True
        elif cursor in self._cursors or len(self._cursors) + 1 >= MOST_PAGES:
            why = "comes to the same page again" if cursor in self._cursors else "does not end"
            raise self._wrong(f"{why} after {len(self._cursors) + 1} pages")
        else:
            self._cursors.add(cursor)
            self.params = {"cursor": cursor}

    def _wrong(self, why: str) -> ProtocolViolation:
        return ProtocolViolation(
            "X0663",
            f"{self._method}: {why}",
            help=f"a page is {{{self._member}: […], nextCursor?}}; the last has no nextCursor",
        )


class _Facet:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def _all(self, method: str, member: str, timeout: float | None) -> Sequence[Any]:
        reading = _Pages(method, member)
        try:
            while not reading.done:
                reading.take(await self._caller.call(method, reading.params, timeout=timeout))
        except ProtocolViolation as error:
            error.extension = self._caller.id
            raise
        return reading.items


class Resources(_Facet):
    """`ext.resources`: what can be read."""

    async def list(self, *, timeout: float | None = None) -> Sequence[Any]:
        """Every resource, of all pages."""
        return await self._all("resources/list", "resources", timeout)

    async def templates(self, *, timeout: float | None = None) -> Sequence[Any]:
        """Every template of resources, of all pages."""
        return await self._all("resources/templates/list", "resourceTemplates", timeout)

    async def read(self, uri: str, *, timeout: float | None = None) -> Any:
        """The contents of one resource."""
        return await self._caller.call("resources/read", {"uri": uri}, timeout=timeout)

    async def subscribe(self, uri: str, *, timeout: float | None = None) -> None:
        """Be told when it changes: as `Noticed` events, `notifications/resources/updated`."""
        await self._caller.call("resources/subscribe", {"uri": uri}, timeout=timeout)

    async def unsubscribe(self, uri: str, *, timeout: float | None = None) -> None:
        """Be told no more. A stateless server has no word for it, and says so."""
        await self._caller.call("resources/unsubscribe", {"uri": uri}, timeout=timeout)


class Prompts(_Facet):
    """`ext.prompts`: prompts with places to fill in."""

    async def list(self, *, timeout: float | None = None) -> Sequence[Any]:
        """Every prompt, of all pages."""
        return await self._all("prompts/list", "prompts", timeout)

    async def get(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> Any:
        """One prompt, filled in."""
        asked: dict[str, Any] = {"name": name}
        if arguments is not None:
            asked["arguments"] = dict(arguments)
        return await self._caller.call("prompts/get", asked, timeout=timeout)


class Completion(_Facet):
    """`ext.completion`: how an argument of a prompt or a template could go on."""

    async def complete(
        self,
        ref: Mapping[str, Any],
        argument: Mapping[str, str],
        *,
        context: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """`ref` names a prompt or a template, `argument` has a `name` and a `value` begun."""
        asked: dict[str, Any] = {"ref": dict(ref), "argument": dict(argument)}
        if context is not None:
            asked["context"] = dict(context)
        return await self._caller.call("completion/complete", asked, timeout=timeout)


class Logging(_Facet):
    """`ext.logging`: how much it tells."""

    async def set_level(self, level: str, *, timeout: float | None = None) -> None:
        """From debug to emergency; what it tells goes into the host's log."""
        await self._caller.call("logging/setLevel", {"level": level}, timeout=timeout)
