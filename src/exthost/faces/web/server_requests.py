"""The requests that an MCP server sends to its client, answered by a person at the web page of the
host, which is the client of its MCP servers.

A server may ask for a form to be filled in (elicitation), for the answer of a model (sampling), and
for the folders of the client (roots). A request during a call of the page is shown beside that
call; any other is shown on every open page. The person answers or refuses it. Roots are not a
question: the page has a list of them for each server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from exthost.errors import CallFailed
from exthost.faces.web.page_questions import PageQuestions
from exthost.host.ruled_calls import ANSWER_SECONDS

SAMPLING = "sampling/createMessage"
ELICITATION = "elicitation/create"
ROOTS = "roots/list"

# The code of JSON-RPC with which clients of MCP report that a person refused.
_REFUSED = -1

SendEvent: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]


class ServerRequests:
    """Answers the requests of all MCP servers of one host. `roots` are the URIs of the folders that
    each server gets, by the id of its extension. `methods` are the requests that the page answers;
    each declares a capability of the client to the server."""

    methods = (SAMPLING, ELICITATION, ROOTS)

    def __init__(self, questions: PageQuestions) -> None:
        self._questions = questions
        # The functions that send the events of the page's calls in progress, by extension, the
        # oldest call first.
        self._calls: dict[str, list[SendEvent]] = {}
        self.roots: dict[str, Sequence[str]] = {}

    @contextmanager
    def call(self, extension: str, send: SendEvent) -> Iterator[None]:
        """While a call of the page runs, show requests of this server beside it."""
        calls = self._calls.setdefault(extension, [])
        calls.append(send)
        try:
            yield
        finally:
            calls.remove(send)
            if not calls:
                self._calls.pop(extension, None)

    def has_call(self, extension: str) -> bool:
        """Return whether the page has a call in progress at this server."""
        return extension in self._calls

    async def answer(self, extension: str, method: str, params: Any) -> Any:
        """Return the answer to a request of a server. Raises CallFailed if a person refuses it, no
        page is open, or no answer comes in time."""
        if method == ROOTS:
            return {"roots": [{"uri": uri} for uri in self.roots.get(extension, ())]}
        calls = self._calls.get(extension)
        if not calls and not self._questions.has_page:
            raise _error(extension, method, "no page of the host is open")
        request = {"extension": extension, "method": method, "params": params}
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._questions.ask_request(request, calls[-1] if calls else None)
        except TimeoutError:
            raise _error(extension, method, f"no answer in {ANSWER_SECONDS:g} s") from None
        if method == ELICITATION:
            if not answer.agreed:
                return {"action": "decline"}
            return {"action": "accept", "content": _as_object(answer.value)}
        if not answer.agreed:
            raise _error(extension, method, "the person at the page refused it")
        # Sampling: the person has written what a model would answer.
        reply = _as_object(answer.value)
        return {
            "role": "assistant",
            "content": {"type": "text", "text": str(reply.get("text", ""))},
            "model": str(reply.get("model") or "person"),
            "stopReason": "endTurn",
        }


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _error(extension: str, method: str, reason: str) -> CallFailed:
    return CallFailed(
        "X1933",
        f"its request {method} was not answered: {reason}",
        extension=extension,
        error_code=_REFUSED,
        error_message=f"{method}: {reason}",
    )
