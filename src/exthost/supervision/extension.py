"""One extension, as its users hold it: something that can be called, whichever process serves it.

Any task may call it or close it, in any order. A call goes straight to the desk in the caller's
own step; the owner task beside it starts, restarts and ends processes, and is never in a call's
way. Facets of the dialect (`ext.inference`, `ext.hooks` …) are attributes.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Self, TypeVar

from exthost.dialects.dialect import (
    Dialect,
    HookAnswer,
    HookCall,
    Once,
    OnProgress,
    Operation,
    Row,
    ToolCall,
)
from exthost.errors import (
    NOTHING,
    CallFailed,
    CallTimeout,
    ExtensionGone,
    ExthostError,
    NotFound,
    Refused,
    UsageError,
)
from exthost.events import Bus
from exthost.messages import Notice
from exthost.model import NONE, Offer, Spec, Tool
from exthost.names import nearest
from exthost.schema import Checker
from exthost.session.awaited import Awaited
from exthost.session.causes import copy_of
from exthost.session.desk import Desk
from exthost.session.inbound import Handler
from exthost.session.pooldesk import PoolDesk
from exthost.session.session import Session
from exthost.session.state import Call, Sink
from exthost.session.stream import EventStream
from exthost.supervision.about import About
from exthost.supervision.launching import limits_of, method_limits_of, pool_of
from exthost.supervision.lifecycle import State
from exthost.supervision.misuse import elsewhere, given
from exthost.supervision.owner import Owner
from exthost.supervision.starting import Starter
from exthost.supervision.streaming import make_stream
from exthost.tool_result import ToolResult, tool_failed

_log = logging.getLogger("exthost.supervision")

AnyCall = TypeVar("AnyCall", bound=Call)


class Extension(About):
    """One extension under supervision. Made by `connect` or by a host."""

    def __init__(
        self,
        spec: Spec,
        dialect: Dialect,
        *,
        bus: Bus | None = None,
        handlers: Mapping[str, Handler] = MappingProxyType({}),
        environ: Mapping[str, str] | None = None,
        on_change: Any = None,
        objection: Callable[[], Refused | None] | None = None,
        vet: Callable[[Offer], None] | None = None,
        attend: Callable[[Session], Mapping[str, Handler]] | None = None,
        shared: bool = False,
    ) -> None:
        """`objection` tells why a host must not admit it, asked each time it comes to the gate;
        `vet` raises if what its handshake came to cannot be had beside the others. `attend` has
        the handlers of one process of its; `handlers` are for any, and go before those."""
        limits = limits_of(spec, dialect)
        assert limits.max_in_flight is not None and limits.call is not None
        self.spec = spec
        self.dialect = dialect
        self._call_limit = limits.call
        self._stop_limit = limits.stop
        self._each = dialect.traits.time_limit == "exchange"
        self._method_limits = method_limits_of(spec, dialect)
        self._tool_limit = self._limit("call_tool")
        self._methods = dialect.methods
        self._loop = asyncio.get_running_loop()
        by_order = dialect.traits.correlation == "order"
        pooled = pool_of(spec).most > 1
        self.desk = (PoolDesk if pooled else Desk)(
            spec.id,
            max_in_flight=limits.max_in_flight,
            retry_once=(spec.retry or dialect.traits.retry) == "once",
            shared=shared,
            special=shared or bool(dialect.methods) or dialect.closed or by_order,
            in_turn=dialect.traits.in_turn,
            bus=bus or Bus(),
            loop=self._loop,
        )
        starter = Starter(
            spec,
            dialect,
            self.desk,
            limits,
            handlers=handlers,
            environ=environ,
            vet=vet,
            attend=attend,
        )
        self._owner = Owner(
            starter, self.desk, self.desk.bus, on_change=on_change, objection=objection
        )
        self.add_facets(dialect)
        self._checkers: dict[str, tuple[Tool, Checker | None]] = {}

    def __repr__(self) -> str:
        return f"<Extension {self.id!r} ({self.dialect.name}) {self.state}>"

    # -- calling -----------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | None = None,
        wait: bool = True,
    ) -> Any:
        """Ask in the dialect's own words, and wait for the answer.

        `wait=False` fails at once if the extension is not ready, instead of waiting for it.
        """
        desk = self.desk
        if not wait:
            self._be_ready(method)
        if timeout is None:
            limit = self._limit(method)
        else:  # a number that is not itself is none
            limit = timeout if type(timeout) is float and timeout == timeout else given(timeout)
        session = desk.session
        if (
            session is None
            or desk.special
            or desk.waiting
            or desk.listeners
            or len(session.pending) >= desk.max_in_flight
        ):
            call = self._new_call(Awaited.at(desk), method, params, limit)
            call.each = timeout is None and self._each
            desk.take(call)
        else:
            call = session.ask_plainly(method, params, limit)
        try:
            await call
        except asyncio.CancelledError:
            desk.cancel(call)
            raise
        except RuntimeError as error:
            raise elsewhere(desk, error) from None
        return call.value

    async def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = NONE,
        wait: bool = True,
        on_progress: OnProgress | None = None,
        check: bool = True,
    ) -> ToolResult:
        """Call one of its tools by the tool's own name. `on_progress` is told how far it has come,
        where the extension tells.

        A tool that fails raises CallFailed; `check=False` returns its result instead. A call that
        does not happen (no process, no answer in time) raises either way.
        """
        arguments = {} if arguments is None else arguments
        if not wait:
            self._be_ready(name)
        if not self.knows(name) and self._may_offer_more:
            # What it offers is known when it is there; the call itself would start it as well.
            await self._come_up(timeout)
        tool = self._tool(name)
        self._check(tool, arguments)
        asked = ToolCall(name, arguments, context, tool, self.spec)
        try:
            raw = await self._operate("call_tool", asked, timeout, name, context, on_progress)
        except CallFailed as error:
            if check:
                raise
            return ToolResult.from_error_reply(error)
        result = ToolResult(raw, self.dialect.result_reader)
        if check and result.is_error:
            raise self.tool_failed(result, name)
        return result

    def tool_failed(self, result: ToolResult, name: str) -> CallFailed:
        """Return the error for a result of this tool that is marked as an error."""
        session = self.desk.session
        evidence = session.witness.evidence() if session is not None else NOTHING
        return tool_failed(result, name, extension=self.id, evidence=evidence)

    async def list_tools(self, *, timeout: float | None = None) -> tuple[Tool, ...]:
        """Ask it again what it offers, where its dialect has a way to ask. Changes nothing."""
        listed: tuple[Tool, ...] = await self._operate("list_tools", None, timeout, "list_tools")
        return listed

    async def run_hook(
        self, name: str, event: Mapping[str, Any], *, timeout: float | None = None
    ) -> HookAnswer:
        """Let one of its hooks look at an event."""
        answer: HookAnswer = await self._operate("hook", HookCall(name, event), timeout, name)
        return answer

    async def check_health(self, *, timeout: float | None = None) -> Any:
        """Ask it how it is, where its dialect has a way to ask. `health` then shows what it said,
        for as long as this process serves and until it is asked again."""
        try:
            answer = await self._operate("health", None, timeout, "health")
        except CallTimeout:
            self._owner.ailment = "unhealthy"
            raise
        status = answer.get("status") if isinstance(answer, Mapping) else None
        self._owner.ailment = status if status in ("degraded", "unhealthy") else ""
        return answer

    async def notify(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> None:
        """Tell it something that has no answer.

        With a `timeout` it is only said once everything before it was taken in: who does not read
        for so long is told no more.
        """
        self._be_ready(method)
        session = self.desk.session
        assert session is not None
        self._owner.idling.uses += 1
        if timeout is not None:
            try:
                async with asyncio.timeout(timeout):
                    await session.roomy()
            except TimeoutError:
                raise CallTimeout(
                    "X0841",
                    f"{method} was not sent: it has read nothing for {timeout:g} s",
                    extension=self.id,
                    help="the extension must read its stdin while it works",
                ) from None
        session.tell(Notice(method, params))

    def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> EventStream:
        """Ask for something that answers in events: `async with ext.stream(…) as events`.

        `timeout` is for the whole of it, to its last event.
        """
        limit = self._limit(method)
        whole = None if timeout is None else given(timeout)
        return make_stream(self.desk, self.dialect, method, params, limit, whole)

    # -- living ------------------------------------------------------------------------------

    def admit(self) -> None:
        """Let it through the gate, or refuse it; nothing is started yet."""
        self._owner.admit()

    @property
    def starts_eagerly(self) -> bool:
        """Whether a host starts it at once, or at its first use."""
        return (self.spec.start or self.dialect.traits.start) == "eager"

    async def start(self) -> Self:
        """Start it and wait until it is ready; raises why it did not get ready."""
        if self._owner.state is not State.READY:
            self._owner.need()
            await self._owner.settle()
        if self._owner.state is not State.READY:
            raise self.absence("it")
        return self

    async def restart(self) -> None:
        """Have a fresh process, also out of `failed`.

        If one is serving, the fresh one gets ready beside it and then takes its place: calls under
        way are answered by the old one, new ones by the new. If the fresh one does not get ready,
        the old one goes on, and why is raised.
        """
        error = await self._owner.ask_again()
        if error is not None:
            raise copy_of(error)
        if self._owner.state is not State.READY:
            raise self.absence("it")

    def hold(self) -> AbstractContextManager[None]:
        """Keep it from being let go as idle (`limits.idle`): `with ext.hold(): …`."""
        return self._owner.idling.hold()

    async def close(self, *, patience: float | None = 0.0) -> None:
        """End it. Returns when nothing of it is left; closing twice is fine.

        Calls under way have `patience` seconds to end before (None: their own limits alone say how
        long), and then what their process gives them when it is asked to end.
        """
        await self._owner.stop(math.inf if patience is None else patience)

    async def drain(self) -> None:
        """End it when its calls under way have ended, or `limits.stop` is over."""
        await self.close(patience=self._stop_limit)

    def kill(self) -> None:
        """End its processes at once, without a word; whoever closes it need not wait."""
        self._owner.crew.kill()

    # -- for the blocking face: from any thread, the outcome goes to the sink ------------------

    def begin(self, method: str, params: Any, timeout: float | None, sink: Sink) -> Call:
        """Send a call whose caller sees to its own deadline."""
        limit = self._limit(method) if timeout is None else given(timeout)
        call = self._new_call(Call.into_sink(sink), method, params, limit)
        call.each = timeout is None and self._each
        self.desk.submit(call)
        return call

    def begin_tool(
        self,
        name: str,
        arguments: Any,
        timeout: float | None,
        context: Mapping[str, Any],
        sink: Sink,
    ) -> Call:
        """Send the call of a tool whose caller sees to its own deadline."""
        arguments = {} if arguments is None else arguments
        tool = self._tool(name)
        self._check(tool, arguments)
        limit = self._tool_limit if timeout is None else given(timeout)
        asked = ToolCall(name, arguments, context, tool, self.spec)
        call = Call.into_sink(sink)
        self._of_operation(call, self._operation("call_tool"), asked, name, limit)
        call.each = timeout is None and self._each
        call.context = context
        self.desk.submit(call)
        return call

    # -- inside ------------------------------------------------------------------------------

    def _limit(self, method: str) -> float:
        return self._method_limits.get(method, self._call_limit)

    def _new_call(self, call: AnyCall, method: str, params: Any, timeout: float) -> AnyCall:
        """A call in the dialect's own words, which may be more than one exchange."""
        operation = self._methods.get(method)
        if operation is not None:
            return self._of_operation(call, operation, params, method, timeout)
        if self.dialect.closed:
            known = ", ".join(self._methods)
            raise NotFound(
                "X1203",
                f"the {self.dialect.name} dialect has no method {method!r}",
                extension=self.id,
                help=f"its methods are: {known}",
            )
        return call.asks(method, params, timeout, self.desk.now())

    def _of_operation(
        self, call: AnyCall, operation: Operation, params: Any, name: str, timeout: float
    ) -> AnyCall:
        now = self.desk.now()
        if isinstance(operation, Row):
            method, asked, _ = operation.request(params)
            return call.asks(method, asked, timeout, now).mapped(operation.result)
        if isinstance(operation, Once):
            call.once, call.plain = operation, False
            return call.asks(name, params, timeout, now)
        return call.asks(name, params, timeout, now).through(operation(params))

    def _operation(self, name: str) -> Operation:
        operation = self.dialect.operations.get(name)
        if operation is None:
            raise UsageError(
                "X1308",
                f"the {self.dialect.name} dialect has no way to do this: {name}",
                extension=self.id,
            )
        return operation

    async def _operate(
        self,
        name: str,
        params: Any,
        timeout: float | None,
        shown: str,
        context: Mapping[str, Any] = NONE,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """Run one of the neutral operations."""
        if timeout is not None:
            limit = given(timeout)
        else:
            limit = self._tool_limit if name == "call_tool" else self._limit(name)
        call = Awaited.at(self.desk)
        self._of_operation(call, self._operation(name), params, shown, limit)
        call.each = timeout is None and self._each
        call.context = context
        if on_progress is not None:
            call.on_progress = on_progress
        self.desk.take(call)
        try:
            await call
        except asyncio.CancelledError:
            self.desk.cancel(call)
            raise
        except RuntimeError as error:
            raise elsewhere(self.desk, error) from None
        return call.value

    def _tool(self, name: str) -> Tool:
        tool = self._owner.tools.get(name)
        if tool is not None:
            return tool
        if self._owner.state is not State.READY and self._owner.cause is not None:
            raise copy_of(self._owner.cause)
        near = nearest(name, self.tools)
        raise NotFound(
            "X1202",
            f"it offers no tool {name!r}",
            extension=self.id,
            help=f"did you mean {near!r}?" if near else "see what it offers: exthost inspect",
        )

    def _check(self, tool: Tool, arguments: Any) -> None:
        known, checker = self._checkers.get(tool.name, (None, None))
        if known is not tool:
            checker = Checker.of(tool.input_schema)
            if checker is not None and checker.warning:
                _log.warning("[%s] %s: %s", self.id, tool.name, checker.warning)
            self._checkers[tool.name] = (tool, checker)
        problems = checker.problems(arguments) if checker is not None else []
        if problems:
            raise UsageError(
                "X1301",
                f"the arguments of {tool.name} do not fit its schema: {'; '.join(problems)}",
                extension=self.id,
                help="nothing was sent; `exthost inspect --json` shows the tool's input_schema",
            )

    async def _come_up(self, timeout: float | None) -> None:
        """Wait until it is ready or is not going to be, within the time of the call."""
        self._owner.need()
        try:
            async with asyncio.timeout(self._tool_limit if timeout is None else given(timeout)):
                await self._owner.settle()
        except TimeoutError:
            pass  # the call that follows says what was missing

    def _be_ready(self, what: str) -> None:
        if self.desk.session is None:
            self._owner.need_probe()
            raise self.absence(what)

    def absence(self, what: str) -> ExthostError:
        """Why it cannot serve this just now."""
        cause = self._owner.cause
        if self._owner.state is State.OPEN:
            return self._owner.guard.refusal(what)
        if self.desk.closed is not None:
            return self.desk.closed(what)
        if cause is not None:
            return copy_of(cause)
        return ExtensionGone(
            "X1007",
            f"{what} is not available: the extension is {self.state}",
            extension=self.id,
            help="wait for it, or start it with restart()",
        )
