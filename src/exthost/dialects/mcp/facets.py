"""The facets of mcp: the attributes that only extensions of this dialect have.

They are `ext.resources`, `ext.prompts`, `ext.completion` and `ext.logging`. Each method sends one
request of the protocol and returns the result unchanged. The methods that list something request
page after page and return the items of all pages. After `MAX_PAGES` pages or `MAX_LIST_BYTES` they
stop with a warning and return the items so far.
"""

import logging
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from exthost.dialects.caller import Caller
from exthost.dialects.steps import result_of
from exthost.errors import ProtocolViolation, UsageError
from exthost.model.messages import Request
from exthost.wire import jsontext

_log = logging.getLogger("exthost.dialects.mcp")

# The largest number of pages that are requested of one list. Most servers have one to three.
MAX_PAGES = 1000

# The largest size of one list, as JSON. A single message has the limit `limits.max_message`, whose
# default is the same.
MAX_LIST_BYTES = 64 * 1024 * 1024

# Parts of the warning about a list that was cut off.
SAME_PAGE = "comes to the same page again"
ENDLESS = "does not end"
TOO_LARGE = "is longer than 64 MiB"
TOO_DEEP = "is nested too deeply"


def request_all_pages(
    method: str, member: str, warnings: list[str] | None = None
) -> Generator[Request, Any, list[Any]]:
    """Request every page of a list, and return the items of all pages.

    `member` is the JSON field of a page that has the items. If the list is cut off, the reason is
    added to `warnings`.
    """
    collector = _PageCollector(method, member)
    while not collector.done:
        collector.add_page(result_of((yield Request(method, collector.params)), method))
    if collector.warning and warnings is not None:
        warnings.append(collector.warning)
    return collector.items


class _PageCollector:
    """Collects the items of a list page by page. `params` are those of the next request."""

    def __init__(self, method: str, member: str) -> None:
        self._method = method
        self._member = member
        # A cursor is the server's text for the position of the next page.
        self._cursors: set[str] = set()
        self._pages: list[list[Any]] = []
        self._bytes = 0
        self.params: dict[str, Any] = {}
        self.items: list[Any] = []
        self.done = False
        self.warning = ""

    def add_page(self, page: Any) -> None:
        """Add the items of a page. Raises ProtocolViolation if the page is malformed."""
        items = page.get(self._member) if type(page) is dict else None
        if type(items) is not list:
            raise self._page_error(f"its answer has no list of {self._member}")
        cursor = page.get("nextCursor")
        # A page with a known cursor leads back to an earlier page. Often it is an earlier page
        # itself, whose items have been added already.
        leads_back = type(cursor) is str and cursor in self._cursors
        is_repeated = leads_back and items in self._pages
        if not is_repeated:
            self.items += items
            self._pages.append(items)
        if type(cursor) is not str:
            self.done = True
        elif reason := self._reason_to_stop(cursor, page):
            self.warning = (
                f"{self._method} {reason} after {len(self._cursors) + 1} pages; "
                f"the {self._member} until there ({len(self.items)}) are used"
            )
            self.done = True
        else:
            self._cursors.add(cursor)
            self.params = {"cursor": cursor}

    def _reason_to_stop(self, cursor: str, page: Any) -> str:
        """Return the reason to stop before the page at this cursor; "" if there is none."""
        if cursor in self._cursors:
            return SAME_PAGE
        try:
            self._bytes += len(jsontext.encode(page))
        except UsageError:  # nested too deeply to be encoded, although it was decoded
            return TOO_DEEP
        if self._bytes > MAX_LIST_BYTES:
            return TOO_LARGE
        return ENDLESS if len(self._cursors) + 1 >= MAX_PAGES else ""

    def _page_error(self, reason: str) -> ProtocolViolation:
        return ProtocolViolation(
            "X0663",
            f"{self._method}: {reason}",
            help=f"a page is {{{self._member}: […], nextCursor?}}; the last has no nextCursor",
        )


class _Facet:
    """The base class of the facets: requests every page of a list."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def _call_all_pages(
        self, method: str, member: str, timeout: float | None
    ) -> Sequence[Any]:
        """Request every page of a list, and return the items of all pages."""
        collector = _PageCollector(method, member)
        try:
            while not collector.done:
                collector.add_page(
                    await self._caller.call(method, collector.params, timeout=timeout)
                )
        except ProtocolViolation as error:
            error.extension = self._caller.id
            raise
        if collector.warning:
            _log.warning("[%s] %s", self._caller.id, collector.warning)
        return collector.items


class Resources(_Facet):
    """`ext.resources`: resources that can be read."""

    async def list(self, *, timeout: float | None = None) -> Sequence[Any]:
        """Return every resource, from all pages."""
        return await self._call_all_pages("resources/list", "resources", timeout)

    async def templates(self, *, timeout: float | None = None) -> Sequence[Any]:
        """Return every resource template, from all pages."""
        return await self._call_all_pages("resources/templates/list", "resourceTemplates", timeout)

    async def read(self, uri: str, *, timeout: float | None = None) -> Any:
        """Return the contents of one resource."""
        return await self._caller.call("resources/read", {"uri": uri}, timeout=timeout)

    async def subscribe(self, uri: str, *, timeout: float | None = None) -> None:
        """Subscribe to changes of a resource. They are published as `Noticed` events with the
        method `notifications/resources/updated`."""
        await self._caller.call("resources/subscribe", {"uri": uri}, timeout=timeout)

    async def unsubscribe(self, uri: str, *, timeout: float | None = None) -> None:
        """End a subscription. A stateless server has no such request and replies with an error."""
        await self._caller.call("resources/unsubscribe", {"uri": uri}, timeout=timeout)


class Prompts(_Facet):
    """`ext.prompts`: prompts with arguments."""

    async def list(self, *, timeout: float | None = None) -> Sequence[Any]:
        """Return every prompt, from all pages."""
        return await self._call_all_pages("prompts/list", "prompts", timeout)

    async def get(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> Any:
        """Return one prompt with its arguments filled in."""
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = dict(arguments)
        return await self._caller.call("prompts/get", params, timeout=timeout)


class ArgumentCompletion(_Facet):
    """`ext.completion`: completions for an argument of a prompt or a template."""

    async def complete(
        self,
        ref: Mapping[str, Any],
        argument: Mapping[str, str],
        *,
        context: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Return completions. `ref` names a prompt or a template; `argument` has a `name` and the
        beginning of a `value`."""
        params: dict[str, Any] = {"ref": dict(ref), "argument": dict(argument)}
        if context is not None:
            params["context"] = dict(context)
        return await self._caller.call("completion/complete", params, timeout=timeout)


class Logging(_Facet):
    """`ext.logging`: the level of the server's log."""

    async def set_level(self, level: str, *, timeout: float | None = None) -> None:
        """Set the level, from debug to emergency. The messages go to the host's log."""
        await self._caller.call("logging/setLevel", {"level": level}, timeout=timeout)
