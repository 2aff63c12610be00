"""The questions that the page shows to a person before a call is made.

A rule or a hook may request that a person confirms a call. For a call of the page, the stream of
the call has an event of the kind `question`, with a random id that only this stream contains: an
answer belongs to one call of one page. For a call whose caller cannot be asked, such as a client of
the gateway without elicitation, the question is shown on every open page (`confirm`). The page
sends the answer in a request of its own. The first answer counts, and any answer but true is a no.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

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


class PageQuestions:
    """The questions that are not answered yet, of all pages of one host."""

    def __init__(self) -> None:
        self._answers: dict[str, asyncio.Future[bool]] = {}
        # The questions that every page shows, by their ids, and the number of open pages.
        self._shared: dict[str, Mapping[str, Any]] = {}
        self._pages = 0
        self._change = asyncio.Event()

    async def ask(
        self,
        question: Mapping[str, Any],
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> Mapping[str, Any]:
        """Send a question as an event of its call, and return the answer. The caller limits the
        time."""
        id = secrets.token_urlsafe(16)
        answer = self._answers[id] = asyncio.get_running_loop().create_future()
        try:
            await send({"kind": "question", "question": id, **_question_as_data(question)})
            return {"agreed": await answer}
        finally:
            self._answers.pop(id, None)
            if self._shared.pop(id, None) is not None:
                self._announce_change()

    def answer(self, id: object, agreed: object) -> None:
        """Answer a question. Raises NotFound if it is not open."""
        answer = self._answers.pop(id, None) if isinstance(id, str) else None
        if answer is None or answer.done():
            raise NotFound(
                "X1846",
                "this question is not open: it was answered before, or its call has ended",
                help="make the call again",
            )
        answer.set_result(agreed is True)

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
        if len(self._shared) >= MAX_SHARED_QUESTIONS:
            raise Refused("X0354", f"{MAX_SHARED_QUESTIONS} questions are open on the page already")

        async def share(question: Mapping[str, Any]) -> None:
            self._shared[question["question"]] = question
            self._announce_change()

        question = {**as_data(confirmation._asdict()), "seconds": None, "client": CLIENT.get()}
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return (await self.ask(question, share))["agreed"] is True
        except TimeoutError:
            raise Refused(
                "X0354", f"no answer came within {ANSWER_SECONDS:g} s", help="answer sooner"
            ) from None

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
        "tool": escape_controls(str(event.get("tool_name", question["hook"]))),
        "arguments": truncate(escape_controls(arguments), _MAX_CHARACTERS),
        "seconds": question["seconds"],
        "client": escape_controls(truncate(question.get("client") or "", 200)),
    }
