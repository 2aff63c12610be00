"""The questions that the page shows to a person before a call is made.

A rule or a hook may request that a person confirms a call. The stream of the call then has an event
of the kind `question`, and the page sends the answer in a request of its own. A question has a
random id that only this stream contains, so an answer belongs to one call of one page. The first
answer counts. Any answer but true is a no.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from exthost.errors import NotFound, escape_controls
from exthost.faces.web.page_values import to_json, truncate

# How much of the arguments and of the message the page displays.
_MAX_CHARACTERS = 20_000


class PageQuestions:
    """The questions that are not answered yet, of all pages of one host."""

    def __init__(self) -> None:
        self._answers: dict[str, asyncio.Future[bool]] = {}

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
    }
