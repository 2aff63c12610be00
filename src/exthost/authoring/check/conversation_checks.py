"""The checks of requests: how an extension handles requests that are unknown, invalid, large,
cancelled or sent several in one write, and how fast it replies.

`exthost check` runs them after the handshake. Each check enters its result in the ledger, by the
name of a rule. All checks use the same process. If a check ended the process, the next check starts
a new one.
"""

import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

from exthost.authoring.check.checked_process import (
    AnswerTimeout,
    CheckedProcess,
    NoAnswer,
    describe_error,
)
from exthost.authoring.check.ledger import Ledger
from exthost.authoring.check.offer_audit import tool_with_required_arguments
from exthost.authoring.check.settings import Settings
from exthost.authoring.check.starter import Starter
from exthost.dialects.calls import ToolCall
from exthost.dialects.conformance import UNKNOWN_METHOD, UNKNOWN_TOOL, Conformance
from exthost.errors import CallFailed, ExthostError, ProtocolViolation
from exthost.model.messages import Failure, Notification, Request
from exthost.model.offer import Offer, Tool
from exthost.model.schema import Checker
from exthost.model.shortened_text import shorten_to

# The size of the padding in the large message, and an upper bound of the rest of that message.
LARGE_BYTES = 2**20
UNPADDED_BYTES = 4096

# The number of requests in one write, and the number of requests whose replies are timed.
JOINED_REQUESTS = 5
TIMED_REQUESTS = 15

# Slower replies and starts are a warning. A reply that waits for a timer takes 40 ms and more.
SLOW_REPLY_SECONDS = 0.05
SLOW_START_SECONDS = 5.0

# How many characters of the reason of a tool's failure are shown.
_MAX_REASON = 300

# How long a process is watched after the last request, in case that request makes it exit.
_LAST_SECONDS = 0.1

_UNKNOWN = Request(UNKNOWN_METHOD, {})

# An id that no request of a check has, because ids are counted from the dialect's first id.
_UNUSED_ID = 987654

# The JSON-RPC code of a method that does not exist.
_NO_SUCH_METHOD = -32601

_TOOL_ENDED_IT = "the call ended the process: see stderr, and catch exceptions around each call"
_TOOL_SILENT = (
    "no reply arrived: answer every call, with an error if needed; --reply-timeout allows more time"
)


class _EndedItself(Exception):
    """A process ended without a request to end. The finding is recorded."""


class ConversationChecks:
    """The checks of one extension that run after a handshake, on a live process."""

    def __init__(
        self, starter: Starter, conformance: Conformance, ledger: Ledger, settings: Settings
    ) -> None:
        self._starter = starter
        self._conformance = conformance
        self._ledger = ledger
        self._settings = settings
        self._seconds = settings.reply_seconds
        # A request without an effect that the extension has answered; None if there is none.
        self._ping: Request | None = None
        self.process: CheckedProcess | None = None
        self.offer = Offer()

    async def run(self, process: CheckedProcess, offer: Offer) -> None:
        """Run all checks. Afterwards `process` is the last process, or None if it has ended."""
        self.process, self.offer = process, offer
        for rule, check in (
            ("speed", self._check_speed),
            ("joined-frames", self._check_joined_frames),
            ("unknown-method", self._check_unknown_method),
            ("unknown-tool", self._check_unknown_tool),
            ("bad-arguments", self._check_bad_arguments),
            ("result", self._check_results),
            ("large-message", self._check_large_message),
            ("cancel", self._check_cancel),
        ):
            try:
                await self._run_one(check)
            except _EndedItself:
                self._ledger.skip(rule, "the process ended on its own")
            except ExthostError as error:
                self._ledger.skip(rule, f"the dialect cannot send it: {error.message}")
            except Exception as error:  # code of the dialect, which another package may have
                self._ledger.skip(rule, f"the dialect cannot send it: {error!r}")
        self._ledger.mark_checked("stays-alive")
        if self.process is not None and await self.process.pipes.exits_within(_LAST_SECONDS):
            await self._record_end(self.process)

    async def _run_one(self, check: Callable[[CheckedProcess], Awaitable[None]]) -> None:
        process = await self._live_process()
        if process is None:
            return
        await check(process)
        self._ledger.add_message_problems(process)
        if self.process is not None and not self.process.is_alive:
            await self._record_end(self.process)

    async def _record_end(self, process: CheckedProcess) -> None:
        """Record that a process ended on its own, unless an earlier one did, and drop it."""
        status = await process.find_own_end()
        if status is not None and not self._ledger.has("stays-alive"):
            reason = f"the process {status} on its own, {process.describe_place()}"
            self._ledger.add_finding("stays-alive", reason, process)
        await self._drop(process)

    async def _record_silence(
        self, rule: str, subject: str, silence: NoAnswer, process: CheckedProcess, fix: str = ""
    ) -> None:
        """Record that the rule is broken, since a request was not answered, and drop the process.
        Raises _EndedItself if the process exited with 0: a request that does harm ends a program
        with another status, so the end has nothing to do with the rule."""
        status = await process.find_own_end()
        if status is not None and status.code == 0:
            await self._record_end(process)
            raise _EndedItself
        self._ledger.add_finding(rule, f"{subject}{silence}", process, fix=fix)
        await self._drop(process)

    async def _live_process(self) -> CheckedProcess | None:
        """Return the process, or a new process if it has ended; None if no new process starts."""
        process = self.process
        if process is not None and not process.is_alive:
            await self._record_end(process)
        if self.process is None:
            try:
                process, _ = await self._starter.connect()
            except (NoAnswer, ExthostError) as error:
                self._ledger.add_finding(
                    "restart", f"it did not start again: {describe_error(error)}", process
                )
                return None
        self.process = process
        return process

    async def _check_still_answers(self, process: CheckedProcess, rule: str, when: str) -> bool:
        """Return whether a request without an effect is answered. If not, record that the rule is
        broken. The message begins with `when`, such as "after an unknown method"."""
        if self._ping is None:
            if not process.is_alive:
                await self._record_silence(
                    rule, f"{when} ", NoAnswer(process.describe_end()), process
                )
                return False
            return True
        try:
            await process.request(self._ping, self._seconds)
        except NoAnswer as silence:
            await self._record_silence(rule, f"{when} ", silence, process)
            return False
        return True

    # -- the checks --------------------------------------------------------------------------

    async def _check_speed(self, process: CheckedProcess) -> None:
        """Find a request without an effect that is answered, and measure the time of its
        replies."""
        for ping in self._conformance.pings:
            try:
                await process.request(ping, self._seconds)
            except NoAnswer:
                if not process.is_alive:
                    await self._record_end(process)
                    raise _EndedItself from None
                continue
            self._ping = ping
            break
        if self._ping is None:
            self._ledger.skip("speed", "no request without an effect is answered")
            return
        times = []
        for _ in range(TIMED_REQUESTS):
            began = time.perf_counter()
            try:
                await process.request(self._ping, self._seconds)
            except NoAnswer:
                if process.is_alive:
                    return
                await self._record_end(process)
                raise _EndedItself from None
            times.append(time.perf_counter() - began)
        seconds = median(times)
        if seconds > SLOW_REPLY_SECONDS:
            reason = (
                f"{self._ping.method} takes {seconds * 1000:.0f} ms, at the median of {len(times)}"
            )
            self._ledger.add_finding("speed", reason)
        self._ledger.mark_checked(
            "speed", reason=f"{self._ping.method} takes {seconds * 1000:.1f} ms"
        )

    async def _check_joined_frames(self, process: CheckedProcess) -> None:
        """Send several requests in one write; each must be answered."""
        ping = self._ping
        if ping is None:
            self._ledger.skip("joined-frames", "no request without an effect is answered")
            return
        began = time.perf_counter()
        data, calls = b"", []
        for _ in range(JOINED_REQUESTS):
            frame, call = process.prepare_request(ping)
            data += frame
            calls.append(call)
        answers = 0
        try:
            await process.write(data)
            for call in calls:
                await process.wait_for(call, self._seconds)
                answers += 1
        except NoAnswer as silence:
            subject = f"{answers} of {JOINED_REQUESTS} requests in one write were answered: "
            await self._record_silence("joined-frames", subject, silence, process)
        for call in calls:
            if not call.future.done():
                call.future.cancel()
            elif not call.future.cancelled():
                call.future.exception()  # otherwise asyncio logs it as never retrieved
        self._ledger.mark_checked("joined-frames", time.perf_counter() - began)

    async def _check_unknown_method(self, process: CheckedProcess) -> None:
        """Send a request with an unknown method, which must be answered with an error."""
        if self.process is None or process.dialect.has_fixed_methods:
            self._ledger.skip("unknown-method", "the dialect has no way to name a method")
            return
        if not self._conformance.pings:
            self._ledger.skip("unknown-method", "the dialect has no rule about such a request")
            return
        began = time.perf_counter()
        try:
            answer = await process.request(_UNKNOWN, self._seconds)
        except NoAnswer as silence:
            await self._record_silence("unknown-method", "", silence, process)
        else:
            if not isinstance(answer, Failure):
                reason = f"{UNKNOWN_METHOD} was answered without an error, as if it existed"
                self._ledger.add_finding("unknown-method", reason, process)
            await self._check_still_answers(process, "unknown-method", "after an unknown method")
        self._ledger.mark_checked("unknown-method", time.perf_counter() - began)

    async def _check_unknown_tool(self, process: CheckedProcess) -> None:
        if not self.offer.tools or process.dialect.has_fixed_methods:
            self._ledger.skip("unknown-tool", "it has no tools")
            return
        if "unknown-tool" not in self._conformance.refused_calls:
            self._ledger.skip("unknown-tool", "the host makes no such call")
            return
        call = ToolCall(UNKNOWN_TOOL, {}, spec=self._starter.spec)
        await self._check_refused_call(process, "unknown-tool", call, "a tool that does not exist")

    async def _check_bad_arguments(self, process: CheckedProcess) -> None:
        tool = tool_with_required_arguments(self.offer)
        if tool is None:
            self._ledger.skip("bad-arguments", "no tool requires arguments")
            return
        if "bad-arguments" not in self._conformance.refused_calls:
            self._ledger.skip("bad-arguments", "the host makes no such call")
            return
        call = ToolCall(tool.name, {}, tool=tool, spec=self._starter.spec)
        subject = f"{tool.name} without the arguments that it requires"
        await self._check_refused_call(process, "bad-arguments", call, subject)

    async def _check_refused_call(
        self, process: CheckedProcess, rule: str, call: ToolCall, subject: str
    ) -> None:
        """Make a call that the extension must refuse. If it does not, record that the rule is
        broken. `subject` describes the call in the message."""
        began = time.perf_counter()
        try:
            result = await process.call_tool(call, self._seconds)
        except NoAnswer as silence:
            fix = _suggest_fix(silence, process)
            await self._record_silence(rule, f"{subject}: ", silence, process, fix)
        except CallFailed:
            await self._check_still_answers(process, rule, f"after a call of {subject}")
        except ProtocolViolation as violation:
            reason = f"{subject}: {violation.message}"
            self._ledger.add_finding(rule, reason, process, fix=_suggest_fix(violation, process))
        else:
            is_error = process.dialect.result_reader.is_error
            if is_error is None or not is_error(result):
                self._ledger.add_finding(rule, f"{subject} was answered without an error", process)
        self._ledger.mark_checked(rule, time.perf_counter() - began)

    async def _check_results(self, process: CheckedProcess) -> None:
        """Call the tools that the option --call names, and check their results."""
        if not self._settings.calls:
            self._ledger.skip("tool-failure", "no tool was called: --call NAME calls one")
            if self._conformance.trial_call is None:
                self._ledger.skip("result", "no tool was called: --call NAME calls one")
            else:
                await self._check_trial_call(process, *self._conformance.trial_call)
            return
        tools = {tool.name: tool for tool in self.offer.tools}
        for name, arguments in self._settings.calls:
            if name not in tools:
                names = ", ".join(tools)
                fix = f"give --call one of: {names}" if names else "it offers no tools at all"
                self._ledger.add_finding("result", f"there is no tool {name}", fix=fix)
                continue
            live_process = await self._live_process()
            if live_process is None:
                return
            await self._check_requested_call(live_process, tools[name], arguments)

    async def _check_requested_call(
        self, process: CheckedProcess, tool: Tool, arguments: Any
    ) -> None:
        """Make a call that the option --call requests, and check its result."""
        name = tool.name
        process.byte_log.clear()  # the evidence begins with this call
        began = time.perf_counter()
        try:
            call = ToolCall(name, arguments, tool=tool, spec=self._starter.spec)
            result = await process.call_tool(call, self._seconds)
        except (NoAnswer, ExthostError) as error:
            if isinstance(error, CallFailed) and error.error_code != _NO_SUCH_METHOD:
                self._record_tool_failure(process, name, error.error_message or error.message)
                return
            fix = _suggest_fix(error, process)
            if isinstance(error, NoAnswer):  # it may never answer again
                await self._record_silence("result", f"{name}: ", error, process, fix)
            else:
                self._ledger.add_finding("result", f"{name}: {error.message}", process, fix=fix)
            return
        self._check_result(process, name, tool.output_schema, result)
        self._ledger.mark_checked("tool-failure", time.perf_counter() - began)

    async def _check_trial_call(self, process: CheckedProcess, name: str, arguments: Any) -> None:
        """Make a call without an effect. It may fail, but must be answered with a result."""
        tool = next((tool for tool in self.offer.tools if tool.name == name), None)
        if tool is None:
            self._ledger.skip("result", f"it does not offer {name}")
            return
        began = time.perf_counter()
        process.byte_log.clear()  # the evidence begins with this call
        try:
            call = ToolCall(name, arguments, tool=tool)
            result = await process.call_tool(call, self._seconds)
        except CallFailed:
            await self._drop(process)  # it may expect a message that the failed call did not send
        except (NoAnswer, ExthostError) as error:
            fix = _suggest_fix(error, process)
            if isinstance(error, NoAnswer):
                await self._record_silence("result", f"{name}: ", error, process, fix)
            else:
                self._ledger.add_finding("result", f"{name}: {error.message}", process, fix=fix)
        else:
            self._check_result(process, name, tool.output_schema, result)
        self._ledger.mark_checked("result", time.perf_counter() - began)

    def _record_tool_failure(self, process: CheckedProcess, name: str, reason: str) -> None:
        """Record that a tool failed. It may fail, so no rule of the dialect is broken."""
        self._ledger.add_finding(
            "tool-failure", f"{name} failed: {shorten_to(_MAX_REASON, reason)}", process
        )
        self._ledger.skip("result", f"{name} failed, so there is no result to check")

    def _check_result(self, process: CheckedProcess, name: str, schema: Any, result: Any) -> None:
        reader = process.dialect.result_reader
        if reader.is_error is not None and reader.is_error(result):
            self._record_tool_failure(process, name, reader.text(result))
            return
        self._ledger.mark_checked("result")
        checker = Checker.of(schema)
        if checker is not None:
            for problem in checker.problems(reader.data(result), "result"):
                self._ledger.add_finding("result", f"{name}: {problem}", process)

    async def _check_large_message(self, process: CheckedProcess) -> None:
        """Send a request of 1 MiB, which must be answered, even if only with an error."""
        # An unknown method has no effect, whatever its params. But it is of no use here if the
        # extension has already failed to answer it.
        request = self._ping if self._ledger.has("unknown-method") else _UNKNOWN
        if request is None or process.dialect.has_fixed_methods or not self._conformance.pings:
            self._ledger.skip("large-message", "the dialect has no request for it")
            return
        limit = process.max_message_bytes
        if limit < 2 * UNPADDED_BYTES:
            self._ledger.skip("large-message", f"max_message is {limit:,} bytes")
            return
        began = time.perf_counter()
        size = min(LARGE_BYTES, limit - UNPADDED_BYTES)
        subject = "a message of 1 MiB" if size == LARGE_BYTES else f"a message of {size:,} bytes"
        # "é" is two bytes in UTF-8: a program that counts characters instead of bytes fails.
        padded = request._replace(params={"padding": "é" * (size // 2)})
        seconds = max(self._seconds, 5.0)
        try:
            await process.request(padded, seconds)
        except NoAnswer as silence:
            status = await process.find_own_end()
            has_exited = status is not None and status.code == 0
            if has_exited and not self._ledger.has("stays-alive"):
                await self._check_large_message_first(process, padded, seconds, subject)
            else:
                await self._record_silence("large-message", f"{subject}: ", silence, process)
        self._ledger.mark_checked("large-message", time.perf_counter() - began, subject)

    async def _check_large_message_first(
        self, ended: CheckedProcess, padded: Request, seconds: float, subject: str
    ) -> None:
        """Send the large message to a new process as its first request, because a process ended by
        itself at this message. A reader of lines with a size limit takes a longer line for the end
        of its input, and so the program exits with 0, as it does at the end. Raises _EndedItself if
        the message was not the cause."""
        await self._drop(ended)
        process = await self._live_process()
        if process is None:
            return
        try:
            await process.request(padded, seconds)
        except NoAnswer as silence:
            self._ledger.add_finding("large-message", f"{subject}: {silence}", process)
            await self._drop(process)
            return
        await self._record_end(ended)
        raise _EndedItself

    async def _check_cancel(self, process: CheckedProcess) -> None:
        """Send a request and its cancellation, then that of an unknown call. Another request must
        be answered."""
        make_message = process.dialect.cancel_message
        if make_message is None or self._ping is None:
            reason = (
                "message that cancels a call"
                if make_message is None
                else "request without an effect"
            )
            self._ledger.skip("cancel", f"the dialect has no {reason}")
            return
        began = time.perf_counter()
        data, call = process.prepare_request(self._ping)
        numbered = self._ping._replace(id=call.id)
        # An extension must ignore the cancellation of a call that it does not know.
        unknown = numbered._replace(id=_UNUSED_ID)
        try:
            await process.write(data)
            for cancelled in (numbered, unknown):
                message = make_message(cancelled, "check")
                if isinstance(message, Notification):
                    await process.notify(message)
                elif message is not None:
                    await process.request(message, self._seconds)
        except NoAnswer as silence:
            await self._record_silence("cancel", "", silence, process)
        else:
            call.future.cancel()
            await self._check_still_answers(process, "cancel", "after a cancelled call")
        self._ledger.mark_checked("cancel", time.perf_counter() - began)

    async def _drop(self, process: CheckedProcess) -> None:
        """End a process that has not answered, so that the next check starts a new process."""
        await self._starter.release(process)
        self.process = None


def _suggest_fix(error: NoAnswer | ExthostError, process: CheckedProcess) -> str:
    """Return what to do about a call that failed; "" for the fix that the rule suggests."""
    if isinstance(error, AnswerTimeout):
        return _TOOL_SILENT
    if isinstance(error, ProtocolViolation):
        return error.help
    return _TOOL_ENDED_IT if process.pipes.status is not None else ""
