"""Questions of a host to the client of a call, on the control socket.

A hook may request that a person confirms a tool call. If the client of the call has declared that
it can ask (the parameter `confirm` of the call), the host sends it the question as an event of the
call, and waits for the answer until the time of the call is over:

    {"id": 7, "event": {"kind": "question", "question": 1, "extension": "guard", "message": "…",
                        "hook": "before_tool_call", "event": {…}, "seconds": 29.5}}
    {"verb": "answer", "params": {"question": 1, "agreed": true}}

`question` is the number of the question on this connection. So an answer cannot be mistaken for the
answer to a different question, or the answer of a different client. Any answer but `agreed: true`
means no. If the client fails to ask, it sends the cause as `error`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import Any, TypeAlias

from exthost.errors import Refused
from exthost.extension.callbacks import call_plain_or_async
from exthost.extension.confirmation import Confirm, Confirmation
from exthost.host.control.as_data import as_data

_log = logging.getLogger("exthost.host.control")

# The most characters of a client's error that the host repeats.
_MAX_ERROR_CHARS = 500

# A longer time limit has no effect in practice, and some event loops have no timer for it.
_MAX_SECONDS = 1e9

AskClient: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Sends a question to the client of one request, and returns the params of its answer."""


# -- the host's end ------------------------------------------------------------------------------


def confirm_by_client(ask: AskClient, time_limit: Callable[[], float]) -> Confirm:
    """Return a function that asks the client of a call which begins now. `time_limit` returns the
    time limit of the call in seconds. The function raises Refused if no answer comes within this
    time, or if the client could not ask anybody."""
    now = asyncio.get_running_loop().time
    began = now()

    async def confirm(confirmation: Confirmation) -> bool:
        limit = min(time_limit(), _MAX_SECONDS)
        deadline = began + limit
        question = as_data(confirmation._asdict())
        question["seconds"] = round(max(0.0, deadline - now()), 3)
        try:
            async with asyncio.timeout_at(deadline):
                answer = await ask(question)
        except TimeoutError:
            raise Refused(
                "X0354",
                f"no answer arrived within the {limit:g} s of the call",
                help="answer sooner, or give the call more time: timeout=…, --timeout",
            ) from None
        if "error" in answer:
            error = str(answer["error"])[:_MAX_ERROR_CHARS]
            raise Refused(
                "X0354",
                f"its caller could not ask ({error})",
                help="correct the function that asks (confirm=…) in the program that made the call",
            )
        return answer.get("agreed") is True

    return confirm


# -- the client's end ----------------------------------------------------------------------------


def read_question(event: Mapping[str, Any]) -> Confirmation:
    """Return the question in an event of the kind `question`."""
    return Confirmation(event["extension"], event["message"], event["hook"], event["event"])


class QuestionAnswers:
    """Answers the questions of the host during one call. `send_answer` is called with the params of
    each answer. `confirm` runs in the context of the task that creates this object."""

    def __init__(
        self, confirm: Confirm, send_answer: Callable[[Mapping[str, Any]], object]
    ) -> None:
        self._confirm = confirm
        self._send_answer = send_answer
        self._context = copy_context()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, event: Mapping[str, Any]) -> None:
        """Begin to answer a question."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._answer(event), context=self._context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Give up the questions that are not answered: the call has ended."""
        for task in self._tasks:
            task.cancel()

    async def _answer(self, event: Mapping[str, Any]) -> None:
        answer: dict[str, Any] = {"question": event["question"], "agreed": False}
        try:
            answer["agreed"] = (
                await call_plain_or_async(self._confirm, read_question(event)) is True
            )
        except Exception as error:
            _log.exception(
                "[%s] no person could be asked: %s", event["extension"], event["message"]
            )
            answer["error"] = f"{type(error).__name__}: {error}"
        self._send_answer(answer)
