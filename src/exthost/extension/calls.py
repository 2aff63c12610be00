"""The calls of one extension: made here, sent through its queue, awaited by their callers.

Any task may call. A call goes to the queue in the caller's own step; the supervisor is only asked
where no process serves.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from exthost.dialects.dialect import Dialect, Once, OnProgress, Operation, Row, ToolCall
from exthost.errors import NotFound, UsageError
from exthost.events import Bus
from exthost.extension.lifecycle import State
from exthost.extension.misuse import elsewhere, given
from exthost.extension.policy import pool_of
from exthost.extension.status import Status
from exthost.extension.supervisor import Supervisor
from exthost.launch.limits import method_limits_of
from exthost.model import NONE, Limits, Spec, Tool
from exthost.names import nearest
from exthost.schema import Checker
from exthost.session.awaited import Awaited
from exthost.session.causes import copy_of
from exthost.session.desk import Desk
from exthost.session.pooldesk import PoolDesk
from exthost.session.session import Session
from exthost.session.state import Call, Sink

_log = logging.getLogger("exthost.extension")

AnyCall = TypeVar("AnyCall", bound=Call)

# States in which a start is under way or a call would cause one.
_UNDERWAY = (State.DISCOVERED, State.ADMITTED, State.STARTING, State.BACKOFF)


def make_desk(
    spec: Spec,
    dialect: Dialect,
    limits: Limits,
    *,
    bus: Bus,
    shared: bool,
    loop: asyncio.AbstractEventLoop,
) -> Desk:
    """Make the queue of an extension's calls, for one process or a pool."""
    assert limits.max_in_flight is not None
    by_order = dialect.traits.correlation == "order"
    return (PoolDesk if pool_of(spec).most > 1 else Desk)(
        spec.id,
        max_in_flight=limits.max_in_flight,
        retry_once=(spec.retry or dialect.traits.retry) == "once",
        shared=shared,
        special=shared or bool(dialect.methods) or dialect.closed or by_order,
        in_turn=dialect.traits.in_turn,
        bus=bus,
        loop=loop,
    )


class Calls:
    """Makes and sends the calls of one extension."""

    __slots__ = (
        "_call_limit",
        "_checkers",
        "_each",
        "_method_limits",
        "_methods",
        "_status",
        "_supervisor",
        "_tool_limit",
        "desk",
        "dialect",
        "spec",
    )

    def __init__(
        self,
        spec: Spec,
        dialect: Dialect,
        limits: Limits,
        desk: Desk,
        status: Status,
        supervisor: Supervisor,
    ) -> None:
        assert limits.call is not None
        self.spec = spec
        self.dialect = dialect
        self.desk = desk
        self._status = status
        self._supervisor = supervisor
        self._call_limit = limits.call
        self._each = dialect.traits.time_limit == "exchange"
        self._method_limits = method_limits_of(spec, dialect)
        self._tool_limit = self.limit("call_tool")
        self._methods = dialect.methods
        self._checkers: dict[str, tuple[Tool, Checker | None]] = {}

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
            self.require_session(method)
        if timeout is None:
            limit = self.limit(method)
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
    ) -> Any:
        """Call one of its tools by the tool's own name. `on_progress` is told how far it has come,
        where the extension tells."""
        arguments = {} if arguments is None else arguments
        if not wait:
            self.require_session(name)
        if not self.knows(name) and self.may_offer_more:
            # What it offers is known when it is there; the call itself would start it as well.
            await self._come_up(timeout)
        tool = self._tool(name)
        self._check(tool, arguments)
        asked = ToolCall(name, arguments, context, tool, self.spec)
        return await self.operate("call_tool", asked, timeout, name, context, on_progress)

    async def operate(
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
            limit = self._tool_limit if name == "call_tool" else self.limit(name)
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

    def begin(self, method: str, params: Any, timeout: float | None, sink: Sink) -> Call:
        """Send a call whose caller sees to its own deadline."""
        limit = self.limit(method) if timeout is None else given(timeout)
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

    def limit(self, method: str) -> float:
        """Return the time limit of a method or operation."""
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
                extension=self.spec.id,
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
                extension=self.spec.id,
            )
        return operation

    def _tool(self, name: str) -> Tool:
        tool = self._status.tools.get(name)
        if tool is not None:
            return tool
        if self._status.state is not State.READY and self._status.cause is not None:
            raise copy_of(self._status.cause)
        near = nearest(name, self._status.tools)
        raise NotFound(
            "X1202",
            f"it offers no tool {name!r}",
            extension=self.spec.id,
            help=f"did you mean {near!r}?" if near else "see what it offers: exthost inspect",
        )

    def _check(self, tool: Tool, arguments: Any) -> None:
        known, checker = self._checkers.get(tool.name, (None, None))
        if known is not tool:
            checker = Checker.of(tool.input_schema)
            if checker is not None and checker.warning:
                _log.warning("[%s] %s: %s", self.spec.id, tool.name, checker.warning)
            self._checkers[tool.name] = (tool, checker)
        problems = checker.problems(arguments) if checker is not None else []
        if problems:
            raise UsageError(
                "X1301",
                f"the arguments of {tool.name} do not fit its schema: {'; '.join(problems)}",
                extension=self.spec.id,
                help="nothing was sent; `exthost inspect --json` shows the tool's input_schema",
            )

    async def _come_up(self, timeout: float | None) -> None:
        """Wait until it is ready or is not going to be, within the time of the call."""
        self._supervisor.need()
        try:
            async with asyncio.timeout(self._tool_limit if timeout is None else given(timeout)):
                await self._supervisor.settle()
        except TimeoutError:
            pass  # the call that follows says what was missing

    def require_session(self, what: str) -> Session:
        """Return a session that serves, or raise why there is none."""
        session = self.desk.session
        if session is None:
            self._supervisor.need_probe()
            raise self._supervisor.absence(what)
        return session

    def knows(self, tool: str) -> bool:
        """Return whether the extension itself offers this tool. A manifest may name tools without
        their schemas, and arguments are not sent unchecked."""
        return self._status.offer_is_known and tool in self._status.tools

    @property
    def may_offer_more(self) -> bool:
        """Whether a handshake, still to come, tells what it offers; a manifest tells at once."""
        return self._status.state in _UNDERWAY and self.dialect.traits.tools == "handshake"
