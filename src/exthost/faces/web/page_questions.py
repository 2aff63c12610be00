"""The questions that the web page of a host shows to a person: before a call is made, and during a
call.

A rule or a hook may request that a person confirms a call. For a call of the page, the stream of
the call has an event of the kind `question`, with a random id that only this stream contains, so
that no other page can answer it. For a call whose caller cannot be asked, such as a client of the
gateway without elicitation, the question is shown on every open page (`confirm`). The page sends
the answer in a separate request. The first answer counts, and any answer but true is a no.
A request of an MCP server to its client is shown in the same way (`server_requests`); its answer
has a value as well.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from exthost.errors import NotFound, Refused, escape_controls
from exthost.extension.caller import CLIENT
from exthost.extension.confirmation import Confirmation
from exthost.faces.web.page_values import to_json, truncate
from exthost.host.control.as_data import as_data
from exthost.host.ruled_calls import ANSWER_SECONDS

# How much of the arguments and of the message the page displays.
_MAX_CHARACTERS = 20_000

# The most questions that all pages show. A person does not answer more in time.
MAX_SHARED_QUESTIONS = 50


class PageAnswer(NamedTuple):
    """The answer of a person. `value` is what the person wrote, if the question asks for it."""

    agreed: bool
    value: Any = None


class PageQuestions:
    """The questions that are not answered yet, of all pages of one host."""

    def __init__(self) -> None:
        self._answers: dict[str, asyncio.Future[PageAnswer]] = {}
        # The questions that every page shows, by their ids, and the number of open pages.
        self._shared: dict[str, Mapping[str, Any]] = {}
        self._pages = 0
        self._change = asyncio.Event()

    async def ask(
        self,
        question: Mapping[str, Any],
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> Mapping[str, Any]:
        """Send a question as an event of its call, and return the answer in the form in which a
        client of the host answers, `{"agreed": …}`. The caller limits the time."""
        data = {"kind": "question", **_question_as_data(question)}
        return {"agreed": (await self._ask(data, send)).agreed}

    async def ask_request(
        self,
        request: Mapping[str, Any],
        send: Callable[[Mapping[str, Any]], Awaitable[None]] | None,
    ) -> PageAnswer:
        """Show a request of an MCP server, and return the answer. `send` sends it as an event of a
        call, so that only the page of that call shows it; with None, every open page does. The
        caller limits the time. Raises Refused if too many questions are open."""
        if send is None:
            self._require_room()
        data = {"kind": "request", **_request_as_data(request)}
        return await self._ask(data, send or self._share)

    async def _ask(
        self, data: Mapping[str, Any], send: Callable[[Mapping[str, Any]], Awaitable[None]]
    ) -> PageAnswer:
        id = secrets.token_urlsafe(16)
        answer: asyncio.Future[PageAnswer] = asyncio.get_running_loop().create_future()
        self._answers[id] = answer
        try:
            await send({**data, "question": id})
            return await answer
        finally:
            self._answers.pop(id, None)
            if self._shared.pop(id, None) is not None:
                self._announce_change()

    @property
    def has_page(self) -> bool:
        """Whether a page is open."""
        return self._pages > 0

    def answer(self, id: object, agreed: object, value: Any = None) -> None:
        """Answer a question. Raises NotFound if it is not open."""
        answer = self._answers.pop(id, None) if isinstance(id, str) else None
        if answer is None or answer.done():
            raise NotFound(
                "X1846",
                "this question is not open: it was answered before, or its call has ended",
                help="make the call again",
            )
        answer.set_result(PageAnswer(agreed is True, value))

    # -- questions about the calls of others -------------------------------------------------

    async def confirm(self, confirmation: Confirmation) -> bool:
        """Ask on every open page, and return the first answer. Raises Refused if no page is open,
        too many questions are open, or no answer comes in time."""
        if not self._pages:
            raise Refused(
                "X0354",
                "there is no person to ask: its caller cannot be asked, and no page is open",
                help="open the page of the host (exthost run --web), or use a client that can ask",
            )
        self._require_room()
        # The page shows who makes the call, because it is not a call of the page, and no countdown.
        question = {**as_data(confirmation._asdict()), "seconds": None, "client": CLIENT.get()}
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return (await self.ask(question, self._share))["agreed"] is True
        except TimeoutError:
            raise Refused(
                "X0354", f"no answer came within {ANSWER_SECONDS:g} s", help="answer sooner"
            ) from None

    def _require_room(self) -> None:
        """Raise Refused if every page already shows as many questions as allowed."""
        if len(self._shared) >= MAX_SHARED_QUESTIONS:
            raise Refused("X0354", f"{MAX_SHARED_QUESTIONS} questions are open on the page already")

    async def _share(self, question: Mapping[str, Any]) -> None:
        """Show a question on every open page."""
        self._shared[question["question"]] = question
        self._announce_change()

    async def follow(self) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yield the questions that one page shows, and again after each change. Runs until it is
        closed."""
        self._pages += 1
        try:
            while True:
                change = self._change
                yield {"questions": list(self._shared.values())}
                await change.wait()
        finally:
            self._pages -= 1

    def _announce_change(self) -> None:
        self._change.set()
        self._change = asyncio.Event()


def _question_as_data(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a question that the page displays. Invisible characters are escaped, so
    that they do not change how the rest looks."""
    event = question["event"]
    arguments = to_json(event.get("arguments")).decode("utf-8", "replace")
    return {
        "extension": question["extension"],
        "message": truncate(escape_controls(question["message"]), _MAX_CHARACTERS),
        # The event of a hook that is not about a tool call has no tool: then the name of the hook.
        "tool": escape_controls(str(event.get("tool_name", question["hook"]))),
        "arguments": truncate(escape_controls(arguments), _MAX_CHARACTERS),
        "seconds": question["seconds"],
        "client": escape_controls(truncate(question.get("client") or "", 200)),
    }


def _request_as_data(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a request of a server that the page displays. The page makes a form of
    `requestedSchema`, so that schema is sent as it is, or not at all if it is too long."""
    params = request["params"] if isinstance(request["params"], dict) else {}
    # `_meta` is for programs, not for the person.
    shown = to_json({name: value for name, value in params.items() if name != "_meta"})
    schema = params.get("requestedSchema")
    is_short = len(to_json(schema)) <= _MAX_CHARACTERS
    return {
        "extension": request["extension"],
        "method": request["method"],
        "message": truncate(escape_controls(str(params.get("message", ""))), _MAX_CHARACTERS),
        "shown": truncate(escape_controls(shown.decode("utf-8", "replace")), _MAX_CHARACTERS),
        "params": {"requestedSchema": schema if is_short else None},
    }
