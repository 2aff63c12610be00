"""One extension, as its users hold it: something that can be called, whichever process serves it.

Any task may call it or close it, in any order. A call goes straight to the queue in the caller's
own step; the owner task beside it starts, restarts and ends processes, and is never in a call's
way. Facets of the dialect (`ext.inference`, `ext.hooks` …) are attributes.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Self

from exthost.dialects.dialect import (
    Dialect,
    HookAnswer,
    HookCall,
    OnProgress,
)
from exthost.errors import (
    CallTimeout,
    ExtensionGone,
    ExthostError,
    NotFound,
    Refused,
    UsageError,
)
from exthost.events import Bus
from exthost.extension.about import About
from exthost.extension.lifecycle import State
from exthost.extension.misuse import elsewhere, given
from exthost.extension.owner import Owner
from exthost.extension.policy import pool_of
from exthost.extension.startup import Starter
from exthost.extension.streaming import make_stream
from exthost.launch.limits import limits_of
from exthost.messages import Notice
from exthost.model import NONE, Offer, Spec, Tool
from exthost.names import nearest
from exthost.session.awaitable_call import AwaitableCall
from exthost.session.failures import copy_error
from exthost.extension.call_factory import CallFactory
from exthost.extension.call_queue import CallQueue
from exthost.session.inbound import Handler

from exthost.session.session import Session
from exthost.session.stream import EventStream

_log = logging.getLogger("exthost.extension")


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
        assert limits.max_in_flight is not None
        self.spec = spec
        self.dialect = dialect
        self._stop_limit = limits.stop
        self._loop = asyncio.get_running_loop()
        self.calls = CallFactory(spec, dialect, limits)
        self.queue = CallQueue(
            spec.id,
            max_in_flight=limits.max_in_flight,
            retry_once=(spec.retry or dialect.traits.retry) == "once",
            is_shared=shared,
            is_serial=dialect.traits.in_turn,
            is_pool=pool_of(spec).most > 1,
            bus=bus or Bus(),
            loop=self._loop,
        )
        starter = Starter(
            spec,
            dialect,
            self.queue,
            limits,
            handlers=handlers,
            environ=environ,
            vet=vet,
            attend=attend,
        )
        self._owner = Owner(
            starter, self.queue, self.queue.bus, on_change=on_change, objection=objection
        )
        self.add_facets(dialect)

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
        """Send a request in the dialect's own words, and wait for its result.

        `wait=False` fails at once if the extension is not ready, instead of waiting for it.
        """
        if not wait:
            self._be_ready(method)
        call = AwaitableCall(*self.calls.of_method(method, params, timeout), self.queue)
        self.queue.submit(call)
        try:
            await call
        except RuntimeError as error:
            raise elsewhere(self.queue, error) from None
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
        if not wait:
            self._be_ready(name)
        owner = self._owner
        tool = owner.tools.get(name)
        if tool is None or not owner.has_told:
            if self._may_offer_more:
                # What it offers is known when it is there; the call itself would start it as well.
                await self._come_up(timeout)
            tool = self.tool(name)
        parts = self.calls.of_tool(tool, {} if arguments is None else arguments, timeout, context)
        call = AwaitableCall(*parts, self.queue)
        call.context = context
        if on_progress is not None:
            call.on_progress = on_progress
        self.queue.submit(call)
        try:
            await call
        except RuntimeError as error:
            raise elsewhere(self.queue, error) from None
        return call.value

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
        session = self.queue.sessions[0]
        self._owner.idling.uses += 1
        if timeout is not None:
            try:
                async with asyncio.timeout(timeout):
                    await session.drained()
            except TimeoutError:
                raise CallTimeout(
                    "X0841",
                    f"{method} was not sent: it has read nothing for {timeout:g} s",
                    extension=self.id,
                    help="the extension must read its stdin while it works",
                ) from None
        session.send(Notice(method, params))

    def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> EventStream:
        """Ask for something that answers in events: `async with ext.stream(…) as events`.

        `timeout` is for the whole of it, to its last event.
        """
        limit = self.calls.limit_of(method)
        whole = None if timeout is None else given(timeout)
        return make_stream(self.queue, self.dialect, method, params, limit, whole)

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
            raise copy_error(error)
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

    # -- inside ------------------------------------------------------------------------------

    async def _operate(self, name: str, params: Any, timeout: float | None, shown: str) -> Any:
        """Run one of the neutral operations."""
        parts = self.calls.of_operation(name, params, timeout, shown)
        call = AwaitableCall(*parts, self.queue)
        self.queue.submit(call)
        try:
            await call
        except RuntimeError as error:
            raise elsewhere(self.queue, error) from None
        return call.value

    def tool(self, name: str) -> Tool:
        """Return the tool of this name, as it was offered last. Raises NotFound."""
        tool = self._owner.tools.get(name)
        if tool is not None:
            return tool
        if self._owner.state is not State.READY and self._owner.cause is not None:
            raise copy_error(self._owner.cause)
        near = nearest(name, self.tools)
        raise NotFound(
            "X1202",
            f"it offers no tool {name!r}",
            extension=self.id,
            help=f"did you mean {near!r}?" if near else "see what it offers: exthost inspect",
        )

    async def _come_up(self, timeout: float | None) -> None:
        """Wait until it is ready or is not going to be, within the time of the call."""
        self._owner.need()
        try:
            async with asyncio.timeout(self.calls.tool_limit if timeout is None else given(timeout)):
                await self._owner.settle()
        except TimeoutError:
            pass  # the call that follows says what was missing

    def _be_ready(self, what: str) -> None:
        if not self.queue.sessions:
            self._owner.need_probe()
            raise self.absence(what)

    def absence(self, what: str) -> ExthostError:
        """Why it cannot serve this just now."""
        cause = self._owner.cause
        if self._owner.state is State.OPEN:
            return self._owner.guard.refusal(what)
        if self.queue.closed is not None:
            return self.queue.closed(what)
        if cause is not None:
            return copy_error(cause)
        return ExtensionGone(
            "X1007",
            f"{what} is not available: the extension is {self.state}",
            extension=self.id,
            help="wait for it, or start it with restart()",
        )
