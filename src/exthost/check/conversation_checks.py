"""The checks of a conversation: what an extension does with each kind of request.

All of them use one process, and a fresh one after a check that ended it.
"""

import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

from exthost.check.ledger import Ledger
from exthost.check.offer_audit import tool_with_required_arguments
from exthost.check.operation import call_tool
from exthost.check.peer import NoAnswer, Peer, reason_of
from exthost.check.settings import Settings
from exthost.check.starter import Starter
from exthost.dialects.calls import ToolCall
from exthost.dialects.conformance import UNKNOWN_METHOD, UNKNOWN_TOOL, Conformance
from exthost.errors import CallFailed, ExthostError, ProtocolViolation
from exthost.messages import Failure, Notification, Request
from exthost.offer import Offer
from exthost.schema import Checker

LARGE_BYTES = 2**20
JOINED_REQUESTS = 5
TIMED_REQUESTS = 15

# Slower is worth a warning: a reply that waits for a timer takes 40 ms and more.
SLOW_REPLY_SECONDS = 0.05
SLOW_START_SECONDS = 5.0

_UNKNOWN = Request(UNKNOWN_METHOD, {})

_TOOL_FAILED = "the tool itself failed: see stderr, or give --call arguments that it accepts"


class ConversationChecks:
    """The checks of one extension that need a handshake and no end."""

    def __init__(
        self, starter: Starter, conformance: Conformance, ledger: Ledger, settings: Settings
    ) -> None:
        self._starter = starter
        self._conformance = conformance
        self._ledger = ledger
        self._settings = settings
        self._seconds = settings.reply_seconds
        self._ping: Request | None = None
        self.peer: Peer | None = None
        self.offer = Offer()

    async def run(self, peer: Peer, offer: Offer) -> None:
        """Run all of them; the last process is left in `peer`."""
        self.peer, self.offer = peer, offer
        for check in (
            self._check_speed,
            self._check_joined_frames,
            self._check_unknown_method,
            self._check_unknown_tool,
            self._check_bad_arguments,
            self._check_results,
            self._check_large_message,
            self._check_cancel,
        ):
            await self._run_one(check)

    async def _run_one(self, check: Callable[[Peer], Awaitable[None]]) -> None:
        peer = self.peer
        if peer is None or not peer.is_alive:
            try:
                peer, _ = await self._starter.connect()
            except (NoAnswer, ExthostError) as error:
                self._ledger.add_finding(
                    "restart", f"it did not start again: {reason_of(error)}", peer
                )
                return
        self.peer = peer
        await check(peer)
        self._ledger.absorb(peer)
        if not peer.is_alive:
            await self._starter.release(peer)
            self.peer = None

    async def _is_answered(self, peer: Peer, rule: str, what: str) -> bool:
        """Return whether a request without an effect is answered; if not, record the rule."""
        if self._ping is None:
            if not peer.is_alive:
                self._ledger.add_finding(rule, f"{what} {peer.describe_end()}", peer)
                return False
            return True
        try:
            await peer.request(self._ping, self._seconds)
        except NoAnswer as silence:
            self._ledger.add_finding(rule, f"{what} {silence}", peer)
            await self._starter.release(peer)
            self.peer = None
            return False
        return True

    # -- the checks --------------------------------------------------------------------------

    async def _check_speed(self, peer: Peer) -> None:
        """Find a request that is answered, and measure how fast."""
        for ping in self._conformance.pings:
            try:
                await peer.request(ping, self._seconds)
            except NoAnswer:
                if not peer.is_alive:
                    return
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
                await peer.request(self._ping, self._seconds)
            except NoAnswer:
                return
            times.append(time.perf_counter() - began)
        took = median(times)
        if took > SLOW_REPLY_SECONDS:
            why = f"{self._ping.method} takes {took * 1000:.0f} ms, at the median of {len(times)}"
            self._ledger.add_finding("speed", why)
        self._ledger.mark_checked("speed", reason=f"{self._ping.method} takes {took * 1000:.1f} ms")

    async def _check_joined_frames(self, peer: Peer) -> None:
        ping = self._ping
        if ping is None:
            self._ledger.skip("joined-frames", "no request without an effect is answered")
            return
        began = time.perf_counter()
        data, futures = b"", []
        for _ in range(JOINED_REQUESTS):
            frame, numbered = peer.frame_of(ping)
            data += frame
            futures.append(peer.answer_to(numbered))
        answers = 0
        try:
            await peer.write(data)
            for future in futures:
                await peer.wait_for(future, ping.method, self._seconds)
                answers += 1
        except NoAnswer as silence:
            why = f"{answers} of {JOINED_REQUESTS} requests in one write were answered: {silence}"
            self._ledger.add_finding("joined-frames", why, peer)
            await self._drop(peer)
        for future in futures:
            if not future.done():
                future.cancel()
            elif not future.cancelled():
                future.exception()
        self._ledger.mark_checked("joined-frames", time.perf_counter() - began)

    async def _check_unknown_method(self, peer: Peer) -> None:
        if self.peer is None or peer.dialect.closed:
            self._ledger.skip("unknown-method", "the dialect has no way to name a method")
            return
        began = time.perf_counter()
        try:
            answer = await peer.request(_UNKNOWN, self._seconds)
        except NoAnswer as silence:
            self._ledger.add_finding("unknown-method", str(silence), peer)
            await self._drop(peer)
        else:
            if not isinstance(answer, Failure):
                why = f"{UNKNOWN_METHOD} was answered with a result, as if it existed"
                self._ledger.add_finding("unknown-method", why, peer)
            await self._is_answered(peer, "unknown-method", "after an unknown method")
        self._ledger.mark_checked("unknown-method", time.perf_counter() - began)

    async def _check_unknown_tool(self, peer: Peer) -> None:
        if not self.offer.tools or peer.dialect.closed:
            self._ledger.skip("unknown-tool", "it has no tools")
            return
        call = ToolCall(UNKNOWN_TOOL, {})
        await self._call_in_vain(peer, "unknown-tool", call, "a tool that does not exist")

    async def _check_bad_arguments(self, peer: Peer) -> None:
        tool = tool_with_required_arguments(self.offer)
        if tool is None:
            self._ledger.skip("bad-arguments", "no tool requires arguments")
            return
        call = ToolCall(tool.name, {}, tool=tool)
        what = f"{tool.name} without the arguments that it requires"
        await self._call_in_vain(peer, "bad-arguments", call, what)

    async def _call_in_vain(self, peer: Peer, rule: str, call: ToolCall, what: str) -> None:
        """Make a call that must be refused."""
        began = time.perf_counter()
        try:
            result = await call_tool(peer, call, self.offer, self._seconds)
        except NoAnswer as silence:
            self._ledger.add_finding(rule, f"{what}: {silence}", peer)
            await self._drop(peer)
        except CallFailed:
            await self._is_answered(peer, rule, f"after a call of {what}")
        except ProtocolViolation as violation:
            self._ledger.add_finding(rule, f"{what}: {violation.message}", peer)
        else:
            is_error = peer.dialect.result_reader.is_error
            if is_error is None or not is_error(result):
                self._ledger.add_finding(rule, f"{what} was answered with a result", peer)
        self._ledger.mark_checked(rule, time.perf_counter() - began)

    async def _check_results(self, peer: Peer) -> None:
        if not self._settings.calls:
            self._ledger.skip("result", "no tool was called: --call NAME calls one")
            return
        began = time.perf_counter()
        tools = {tool.name: tool for tool in self.offer.tools}
        for name, arguments in self._settings.calls:
            if name not in tools:
                known = ", ".join(tools) or "none"
                self._ledger.add_finding("result", f"there is no tool {name}; it has: {known}")
                continue
            try:
                call = ToolCall(name, arguments, tool=tools[name])
                result = await call_tool(peer, call, self.offer, self._seconds)
            except (NoAnswer, ExthostError) as error:
                fix = _TOOL_FAILED if isinstance(error, CallFailed) else ""
                self._ledger.add_finding("result", f"{name}: {reason_of(error)}", peer, fix=fix)
                if not peer.is_alive:
                    return
                continue
            self._check_result(peer, name, tools[name].output_schema, result)
        self._ledger.mark_checked("result", time.perf_counter() - began)

    def _check_result(self, peer: Peer, name: str, schema: Any, result: Any) -> None:
        reader = peer.dialect.result_reader
        if reader.is_error is not None and reader.is_error(result):
            why = f"{name} failed: {reader.text(result)[:300]}"
            self._ledger.add_finding("result", why, peer, fix=_TOOL_FAILED)
            return
        checker = Checker.of(schema)
        if checker is not None:
            for problem in checker.problems(reader.data(result), "result"):
                self._ledger.add_finding("result", f"{name}: {problem}", peer)

    async def _check_large_message(self, peer: Peer) -> None:
        request = self._ping if self._ledger.has("unknown-method") else _UNKNOWN
        if request is None or peer.dialect.closed:
            self._ledger.skip("large-message", "the dialect has no request for it")
            return
        began = time.perf_counter()
        padded = request._replace(params={"padding": "é" * (LARGE_BYTES // 2)})
        try:
            await peer.request(padded, max(self._seconds, 5.0))
        except NoAnswer as silence:
            self._ledger.add_finding("large-message", f"a message of 1 MiB: {silence}", peer)
            await self._drop(peer)
        self._ledger.mark_checked("large-message", time.perf_counter() - began)

    async def _check_cancel(self, peer: Peer) -> None:
        make = peer.dialect.cancel_message
        if make is None or self._ping is None:
            self._ledger.skip("cancel", "the dialect has no word for it")
            return
        began = time.perf_counter()
        data, numbered = peer.frame_of(self._ping)
        future = peer.answer_to(numbered)
        unknown = numbered._replace(id=987654)
        try:
            await peer.write(data)
            for cancelled in (numbered, unknown):
                message = make(cancelled, "check")
                if isinstance(message, Notification):
                    await peer.notify(message)
                elif message is not None:
                    await peer.request(message, self._seconds)
        except NoAnswer as silence:
            self._ledger.add_finding("cancel", str(silence), peer)
        future.cancel()
        await self._is_answered(peer, "cancel", "after a cancelled call")
        self._ledger.mark_checked("cancel", time.perf_counter() - began)

    async def _drop(self, peer: Peer) -> None:
        """End a process that owes an answer, so that the next check has a fresh one."""
        await self._starter.release(peer)
        self.peer = None
