"""Runs the tool calls in a model's response, and returns the messages that answer them.

This is `host.run_calls(response)`. `model_responses` reads the calls, `model_answers` writes the
answers. A response may have any number of calls, so a limited number runs at a time: the time limit
of a call begins when it runs.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from exthost.dialects.meanings import OnProgress, Progress
from exthost.errors import ExthostError
from exthost.events import check_callback
from exthost.extension.callbacks import call_plain_or_async
from exthost.extension.confirmation import Confirm, Confirmation, check_confirm
from exthost.extension.misuse import check_context, check_timeout, wrong_type_error
from exthost.host.model_api.media import KINDS, model_text, result_parts
from exthost.host.model_api.model_answers import Answer, MediaLimits, media_limits, messages
from exthost.host.model_api.model_responses import ModelCall, read_calls
from exthost.host.model_api.registered_tools import RegisteredTools, is_selected, read_patterns
from exthost.tool_result import ToolResult
from exthost.wire import jsontext

_log = logging.getLogger("exthost.tools")

# A larger number does not make the calls of a model faster, and each running call takes memory.
MAX_CONCURRENT_CALLS = 64

# How much of the arguments the question to a person shows; its `event` has all of them.
_SHOWN_CHARACTERS = 500


class CallingHost(Protocol):
    """The part of a host that is used here."""

    @property
    def tools(self) -> RegisteredTools: ...

    @property
    def call_tool(self) -> Callable[..., Any]: ...


class CallOptions(NamedTuple):
    """The parameters of `Host.run_calls`."""

    context: Mapping[str, Any]
    timeout: float | None = None
    on_progress: OnProgress | None = None
    only: Iterable[str] | None = None
    confirm: Confirm | None = None
    media: Collection[str] | None = None


async def run_model_calls(host: CallingHost, response: Any, options: CallOptions) -> list[Any]:
    """Run the tool calls in a response; return the messages that answer them. Raises UsageError if
    `response` is not one."""
    calls = read_calls(response)
    check_confirm(options.confirm)
    if options.on_progress is not None:
        check_callback(options.on_progress, "on_progress")
    check_context(options.context)
    if options.timeout is not None:
        check_timeout(options.timeout)
    kinds = options.media
    if kinds is not None and not (
        isinstance(kinds, Collection)
        and not isinstance(kinds, str)
        and all(kind in KINDS for kind in kinds)
    ):
        raise wrong_type_error("media", f"a list of {', '.join(KINDS)}", kinds)
    patterns = None if options.only is None else read_patterns(options.only)
    run = _ModelRun(host, options, patterns, media_limits(calls.api, options.media))
    answers: list[Answer | None] = [None] * len(calls.calls)
    waiting = iter(enumerate(calls.calls))
    async with asyncio.TaskGroup() as group:
        for _ in range(min(MAX_CONCURRENT_CALLS, len(answers))):
            group.create_task(_answer_each(run, waiting, answers))
    return messages(calls, [answer for answer in answers if answer is not None])


async def _answer_each(
    run: "_ModelRun", waiting: Iterator[tuple[int, ModelCall]], answers: list[Answer | None]
) -> None:
    """Run calls one after another until none waits. Several of these tasks share `waiting`."""
    for position, call in waiting:
        answers[position] = await run.answer(call)


class _ModelRun(NamedTuple):
    """The calls of one response."""

    host: CallingHost
    options: CallOptions
    patterns: tuple[str, ...] | None
    limits: MediaLimits

    async def answer(self, call: ModelCall) -> Answer:
        """Make one call. A call that fails is an answer, too."""
        try:
            problem = call.problem or await self._find_objection(call)
            if problem:
                return Answer([model_text(problem)], is_error=True)
            result = await self._call(call)
            limits = self.limits
            parts = result_parts(result, limits.kinds, limits.types, limits.max_bytes)
            return Answer(parts, result.is_error)
        except ExthostError as error:
            return Answer([model_text(error.message)], is_error=True)

    async def _find_objection(self, call: ModelCall) -> str:
        """Return why the call is not allowed, or ""."""
        tool = self.host.tools.get(call.name)
        if self.patterns is not None and not is_selected(self.patterns, call.name, tool):
            return f"the tool {call.name!r} cannot be used here"
        if self.options.confirm is None:
            return ""
        extension = "" if tool is None else tool.extension
        event = {"tool_name": call.name, "arguments": call.arguments, "call_id": call.id}
        shown = jsontext.display_text(call.arguments)
        message = f"the model requests {call.name} with {shown:.{_SHOWN_CHARACTERS}}"
        question = Confirmation(extension, message, "", event)
        try:
            answer = await call_plain_or_async(self.options.confirm, question)
        except Exception:
            _log.exception("confirm failed, so %s was not called", call.name)
            answer = None
        return "" if answer is True else f"{call.name} was not confirmed, so it was not called"

    async def _call(self, call: ModelCall) -> ToolResult:
        context = check_context(self.options.context)
        if call.id:
            context = {**context, "call_id": call.id}
        on_progress = self.options.on_progress
        report = None if on_progress is None else _with_call_id(on_progress, call.id)
        result: ToolResult = await self.host.call_tool(
            call.name,
            call.arguments,
            context=context,
            timeout=self.options.timeout,
            on_progress=report,
            check=False,
            confirm=self.options.confirm,
        )
        return result


def _with_call_id(on_progress: OnProgress, id: str) -> OnProgress:
    """Return a callback that passes progress on with the model's id of the call."""

    def report(progress: Progress) -> None:
        on_progress(progress._replace(id=id))

    return report
