"""Runs one tool call with the hooks before and after it.

A hook is a function of an extension that the host calls with an event, here the call of a tool.
`before_tool_call` may change the arguments or stop the call. `after_tool_call` may change the
result, or replace it by a text; it is also called when the tool fails. A text that replaces the
output of a failed tool becomes the message of its error.
"""

import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from exthost.errors import CallFailed, ExthostError, Refused
from exthost.extension.confirmation import Confirm
from exthost.host.hook_policy import HookFailure
from exthost.host.hooks import TOOL_CALL_HOOK, HookOutcome, Hooks, MissingGuard
from exthost.session.failures import copy_error
from exthost.tool_result import ToolResult

# Fields that no hook can change for later hooks: the called tool, and its caller.
_FIXED_FIELDS = frozenset(
    ("tool_name", "tool", "extension_id", "context", "agent_id", "session_id", "duration_ms")
)

CallTool = Callable[[Any], Awaitable[ToolResult]]
"""A function that calls the tool with the given arguments. If the tool replies with an error, the
function returns a result that contains the error."""


class HookedCall:
    """One call of one tool: `tool` is its own name, `name` the name under which it is registered,
    and `extension` the id of its extension.

    `context` is passed to the hooks. `confirm` is the function of the caller that asks a person, or
    None. A hook that failed and did not stop the call (it failed open) is a warning in the result,
    or a note of the error (`__notes__`) if the tool failed.
    """

    def __init__(
        self,
        extension: str,
        tool: str,
        name: str,
        hooks: Hooks,
        context: Mapping[str, Any],
        confirm: Confirm | None,
    ) -> None:
        self._extension = extension
        self._tool = tool
        self._name = name
        self._hooks = hooks
        self._context = context
        self._confirm = confirm
        self._failed_open: tuple[HookFailure, ...] = ()

    async def run(self, arguments: Any, call: CallTool) -> ToolResult:
        """Run the hooks and the call, and return the result, also one that is marked as an error.

        Raises Refused if a hook stops the call, and CallFailed for an error reply.
        """
        if arguments is None:
            arguments = {}  # hooks expect a mapping, to which they may add arguments
        if self._hooks.may_be_called():
            arguments = await self._run_before_hooks(arguments)
        began = time.monotonic()
        try:
            result = await call(arguments)
            if result.error_reply is not None:
                raise result.error_reply
        except ExthostError as error:
            new_error = None
            if self._hooks.may_be_called():
                error_data = {"code": error.code, "message": error.message}
                outcome = await self._run_after_hooks(arguments, began, "error", error_data)
                new_error = _with_text(error, outcome.output)
            for failure in self._failed_open:
                (new_error or error).add_note(str(failure))
            if new_error is not None:
                raise new_error from error
            raise
        if self._hooks.may_be_called():
            outcome = await self._run_after_hooks(arguments, began, "result", result.raw)
            raw = outcome.event["result"]
            # `outcome.output` is the text by which a hook replaced the output. The hook also puts
            # the text into the event. If `raw` is another object, a later hook has changed the
            # result again.
            if outcome.output is not None and raw is outcome.output:
                result = result.with_text(raw)
            elif raw is not result.raw:
                result = result.with_raw(raw)
        if self._failed_open:
            result = result.with_warnings(tuple(map(str, self._failed_open)))
        return result

    async def _run_before_hooks(self, arguments: Any) -> Any:
        """Return the arguments, with the changes of the hooks. Raises Refused if a hook stops the
        call."""
        event = self._make_event(arguments)
        outcome = await self._hooks.run(
            TOOL_CALL_HOOK, event, fixed_fields=_FIXED_FIELDS, confirm=self._confirm
        )
        self._failed_open = outcome.passed_over
        # The cases are in this order because a failed hook and an unanswered question also count as
        # stopped, and have errors of their own.
        if outcome.failure is not None:
            raise _hook_failed_error(self._name, outcome.failure)
        if outcome.unasked is not None:
            raise Refused(
                "X0354",
                f"{self._name} was not called: {outcome.aborted_by} {outcome.reason}",
                extension=outcome.aborted_by,
                help=outcome.unasked.help,
            )
        if outcome.stopped:
            stopper = outcome.aborted_by or outcome.decided_by
            reason = f": {outcome.reason}" if outcome.reason else ""
            message = f"{self._name} was stopped by {stopper}{reason}"
            raise Refused("X0332", message, extension=stopper)
        return outcome.event["arguments"]

    async def _run_after_hooks(
        self, arguments: Any, began: float, key: str, value: Any
    ) -> HookOutcome:
        """Run the hooks after the call, with `value` as the event's `key`, "result" or "error"."""
        event = {
            **self._make_event(arguments),
            "duration_ms": _milliseconds_since(began),
            key: value,
        }
        outcome = await self._hooks.run("after_tool_call", event, fixed_fields=_FIXED_FIELDS)
        self._failed_open += outcome.passed_over
        return outcome

    def _make_event(self, arguments: Any) -> dict[str, Any]:
        """Return the fields of an event that hooks get before and after the call."""
        return {
            "tool_name": self._name,
            "tool": self._tool,
            "extension_id": self._extension,
            "context": self._context,
            "arguments": arguments,
        }


def _with_text(error: ExthostError, text: str | None) -> ExthostError | None:
    """Return a copy of the error of a failed tool, with the text of a hook as its message; None if
    there is no text."""
    if text is None:
        return None
    replaced = copy_error(error)
    replaced.message, replaced.args = text, (text,)
    if isinstance(replaced, CallFailed):
        replaced.error_message = text
    return replaced


def _milliseconds_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _hook_failed_error(name: str, failure: HookFailure) -> Refused:
    """Return the error for a call that was not sent because a hook failed closed."""
    id, hook, error = failure
    if isinstance(error, MissingGuard):
        message = f"{name} was not called: {id} has to judge it first ({hook}): {error.message}"
        return Refused(error.code, message, extension=id, help=error.help)
    return Refused(
        "X0333",
        f"{name} was not called: {id} has to judge it first ({hook}), and could not: "
        f"{error.message}",
        extension=id,
        help=f"{error.help or f'correct {id} and restart it'}; or decide that it guards nothing: "
        f"disable it (exthost disable {shlex.quote(id)}), ignore its folder ([discovery] "
        "ignore_dirs), remove it, or let calls pass that it cannot judge ([hooks] on_failure = "
        f'"open", or hooks = {{ on_failure = "open" }} in [overrides.{id}])',
        evidence=error.evidence,
    )
