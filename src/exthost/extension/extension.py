"""The public object of one extension: it can be called, whichever process serves it.

Any task may call it or close it, in any order. `Calls` makes the calls and sends them directly to
their queue. The `Supervisor` starts, restarts and ends processes, and calls do not pass through it.
`Status` has the state. Facets of the dialect (`ext.inference`, `ext.prompts` …) are attributes.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Self, TypeVar

from exthost.dialects.base import Dialect
from exthost.dialects.calls import HookAnswer
from exthost.dialects.facet_attributes import FacetAttributes
from exthost.dialects.meanings import OnProgress
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.errors import CallTimeout, ExthostError, Refused
from exthost.events import Bus
from exthost.extension.calls import Calls, make_queue
from exthost.extension.facets import attach_facets, find_facet
from exthost.extension.lifecycle import Health, State, health, serves
from exthost.extension.misuse import checked_timeout
from exthost.extension.startup import Spawn, Starter
from exthost.extension.stats import Counts, Stats, Totals, build_stats
from exthost.extension.status import Status
from exthost.extension.stream_calls import make_stream
from exthost.extension.supervisor import Supervisor
from exthost.extension.toolbox import Toolbox
from exthost.launch.integrity import digests
from exthost.launch.limits import limits_of
from exthost.messages import Notification
from exthost.names import registered_name
from exthost.offer import Offer, Tool
from exthost.process.child import Child
from exthost.process.environment import Environment
from exthost.session.failures import copy_error
from exthost.session.inbound import Handler
from exthost.session.session import Session
from exthost.session.stream import EventStream
from exthost.spec import Spec
from exthost.tool_result import ToolResult
from exthost.trace.traffic import Traffic

F = TypeVar("F")


class Extension(FacetAttributes):
    """One extension under supervision. Made by `connect` or by a host."""

    def __init__(
        self,
        spec: Spec,
        dialect: Dialect,
        *,
        bus: Bus | None = None,
        handlers: Mapping[str, Handler] = MappingProxyType({}),
        environ: Mapping[str, str] | None = None,
        on_change: Callable[[], None] | None = None,
        objection: Callable[[], Refused | None] | None = None,
        vet: Callable[[Offer], None] | None = None,
        attend: Callable[[Session], Mapping[str, Handler]] | None = None,
        spawn: Spawn = Child,
        shared: bool = False,
        replaces: bool = False,
        traffic: Traffic | None = None,
    ) -> None:
        """`objection` returns why a host must not admit the extension; it is called every time
        that is decided. `vet` raises if an offer conflicts with another extension. `attend`
        returns the handlers for one process; `handlers` are for all of them, and go first.
        `spawn` executes a launch plan: tests put something else in the place of a process.
        `replaces`: no change is published before `take_over`. `traffic` is that of its host."""
        loop = asyncio.get_running_loop()
        limits = limits_of(spec, dialect)
        bus = bus or Bus()
        self.spec = spec
        self.dialect = dialect
        self.queue = make_queue(spec, dialect, limits, bus=bus, is_shared=shared, loop=loop)
        self._stop_limit = limits.stop
        self._starter = Starter(
            spec,
            dialect,
            self.queue,
            limits,
            handlers=handlers,
            environ=environ,
            vet=vet,
            objection=objection,
            attend=attend,
            spawn=spawn,
            traffic=traffic,
        )
        self._status = Status(
            spec,
            bus,
            offer_is_known=dialect.traits.tools == "manifest",
            on_change=on_change,
            is_published=not replaces,
        )
        self._supervisor = Supervisor(self._starter, self.queue, self._status)
        self.calls = Calls(spec, dialect, limits, self.queue, self._status, self._supervisor)
        self._counts = Counts(self.queue, self._supervisor)
        self._totals = Totals(self._counts)
        self._starter.on_new_process = attach_facets(self, dialect)

    def __repr__(self) -> str:
        return f"<Extension {self.id!r} ({self.dialect.name}) {self.state}>"

    # -- calls -------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | None = None,
        wait: bool = True,
    ) -> Coroutine[Any, Any, Any]:
        """Call a method of the dialect, and return its result.

        `wait=False` fails at once if the extension is not ready, instead of waiting for it.
        """
        return self.calls.call(method, params, timeout, wait)

    def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = EMPTY_MAPPING,
        wait: bool = True,
        on_progress: OnProgress | None = None,
        check: bool = True,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Call one of its tools by the tool's own name. `on_progress` is called with the progress
        that the extension reports.

        A tool that fails raises CallFailed; `check=False` returns its result instead. A call that
        does not happen (no process, no answer in time) raises either way.
        """
        return self.calls.call_tool(name, arguments, timeout, context, wait, on_progress, check)

    async def list_tools(self, *, timeout: float | None = None) -> tuple[Tool, ...]:
        """Request its tools again, if its dialect has a request for that. Changes nothing."""
        tools: tuple[Tool, ...] = await self.calls.operate(
            "list_tools", None, timeout, "list_tools"
        )
        return tools

    async def run_hook(
        self, name: str, event: Mapping[str, Any], *, timeout: float | None = None
    ) -> HookAnswer:
        """Run one of its hooks on an event. If its process dies, the next one is asked once more
        within the same time limit."""
        return await self.calls.run_hook(name, event, timeout)

    async def check_health(self, *, timeout: float | None = None) -> Any:
        """Request its health, if its dialect has a request for that. `health` then shows the reply,
        as long as this process serves and until the next request."""
        try:
            answer = await self.calls.operate("health", None, timeout, "health")
        except CallTimeout:
            self._status.reported_health = Health.UNHEALTHY
            raise
        reported: Any = answer.get("status") if isinstance(answer, Mapping) else None
        is_ill = reported in (Health.DEGRADED, Health.UNHEALTHY)
        self._status.reported_health = Health(reported) if is_ill else None
        return answer

    async def notify(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> None:
        """Send a notification, which has no reply.

        With a `timeout` it waits for the process to read everything before it, or CallTimeout."""
        session = self.calls.require_session(method)
        self._supervisor.idle.uses += 1
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
        session.send(Notification(method, params))

    def try_notify(self, method: str, params: Any = None) -> bool:
        """Send a notification at once, before any later call; return False if that cannot be."""
        return self.calls.try_notify(method, params)

    def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> EventStream:
        """Call a method whose reply is a stream of events: `async with ext.stream(…) as events`.

        `timeout` is for the whole stream, to its last event.
        """
        limit = self.calls.factory.limit_of(method)
        whole = None if timeout is None else checked_timeout(timeout)
        return make_stream(self.queue, self.dialect, method, params, limit, whole)

    # -- life --------------------------------------------------------------------------------

    def admit(self) -> None:
        """Admit it, or refuse it if something that it requires is not there; start nothing."""
        self._supervisor.admit()

    @property
    def starts_eagerly(self) -> bool:
        """Whether a host starts it at once, or at its first use."""
        return (self.spec.start or self.dialect.traits.start) == "eager"

    async def start(self) -> Self:
        """Start it and wait until it is ready. Raises the error that kept it from getting ready."""
        if self._status.state is not State.READY:
            self._supervisor.need()
            await self._supervisor.settle()
        self._require_ready()
        return self

    async def restart(self) -> None:
        """Start a fresh process, also out of `failed`.

        If one is serving, the fresh one gets ready beside it and then takes its place: calls under
        way are answered by the old one, new ones by the new. If the fresh one does not get ready,
        the old one goes on, and the error is raised.
        """
        error = await self._supervisor.restart()
        if error is not None:
            raise copy_error(error)
        self._require_ready()

    def _require_ready(self) -> None:
        if self._status.state is not State.READY:
            raise self.absence("it")

    def hold(self) -> AbstractContextManager[None]:
        """Keep it from being ended as idle (`limits.idle`): `with ext.hold(): …`."""
        return self._supervisor.idle.hold()

    async def close(self, *, patience: float | None = 0.0) -> None:
        """End it. Returns when nothing of it is left; closing twice is fine.

        Calls under way have `patience` seconds to end before (None: as long as their own limits
        say), and then what their process gives them when it is asked to end.
        """
        await self._supervisor.stop(math.inf if patience is None else patience)
        self._totals.remove(self._counts)

    async def drain(self) -> None:
        """End it when its calls under way have ended, or `limits.stop` is over."""
        await self.close(patience=self._stop_limit)

    def kill(self) -> None:
        """Kill its processes at once; whoever closes it need not wait."""
        self._supervisor.processes.kill()

    def take_over(self, old: "Extension | None") -> None:
        """Replace `old` as the extension of this id: publish the differences between the two, and
        continue its counts. `old` publishes no change any more."""
        if old is not None:
            self._totals = old._totals
            self._totals.add(self._counts)
        self._status.take_over(old._status if old is not None else None)

    # -- facts -------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its name in the host."""
        return self.spec.id

    @property
    def state(self) -> State:
        """Its state in the life-cycle table: equal to its word, as in `ext.state == "ready"`."""
        return self._status.state

    @property
    def health(self) -> Health:
        """One word: running, degraded, unhealthy, restarting, idle, suspended, failed …

        While it is ready, this is what it last answered to `check_health`, or degraded if it has
        crashed before or its breaker is not closed again yet.
        """
        status, recovery = self._status, self._supervisor.recovery
        if status.state is State.READY and status.reported_health:
            return status.reported_health
        crashed = recovery.restarts.has_crashed or recovery.gate.is_half_open
        return health(status.state, crashed=crashed)

    @property
    def cause(self) -> ExthostError | None:
        """The error because of which it is not ready; None if it is ready."""
        return self._status.cause

    @property
    def offer(self) -> Offer:
        """What it offers, by its last handshake or its manifest."""
        return self._status.offer

    @property
    def tools(self) -> Toolbox:
        """Its tools by their own names; `tools.call` returns an error where `call_tool` raises."""
        return Toolbox(self.dialect, lambda: self._status.tools, self.call_tool)

    @property
    def manifest(self) -> Any:
        """Its manifest as the dialect has read it; None for an extension without a manifest."""
        return self.spec.manifest

    @property
    def serves(self) -> bool:
        """Whether its tools are listed: it can serve them, or will be started for a call."""
        return serves(self._status.state)

    @property
    def argv(self) -> tuple[str, ...]:
        """What was executed, or would be."""
        return self._starter.argv

    @property
    def traffic(self) -> Traffic:
        """Its messages, or those of all extensions of its host, for whoever wants to see them."""
        return self._starter.traffic()

    @property
    def environment(self) -> Environment:
        """Which variables its process gets, and which are held back."""
        return self._starter.prepared().environment

    @property
    def enforced(self) -> Mapping[str, Any]:
        """What contains its process, as data."""
        return self._starter.prepared().enforced

    @property
    def digests(self) -> dict[str, str]:
        """What could be pinned of it, by the keys of `sha256` in a config."""
        return digests(self.spec, self._starter.prepared().plan, self._status.offer.tools)

    def facet(self, kind: type[F]) -> F:
        """Return the facet of this class, also of a dialect that others bring. Raises UsageError
        if its dialect has none."""
        return find_facet(self, kind)

    def registered_name(self, tool: str) -> str:
        """Return the name under which a host lists one of its tools."""
        return registered_name(self.id, tool)

    def knows(self, tool: str) -> bool:
        """Return whether the extension itself, and not only its manifest, offers this tool."""
        return self.calls.known_tool(tool) is not None

    @property
    def is_silent(self) -> bool:
        """Whether its offer is known only after it is started."""
        return not self._status.tools and self.calls.may_offer_more

    @property
    def may_have_hooks(self) -> bool:
        """Whether only its handshake, still to come, tells whether it has hooks."""
        return self.calls.may_have_hooks

    def absence(self, what: str) -> ExthostError:
        """Return the error for a use that it cannot serve now."""
        return self._supervisor.absence(what)

    @property
    def stats(self) -> Stats:
        """Counts since it was loaded, and facts of the process that is there now."""
        return build_stats(self._totals, self._status, self._supervisor, self.queue.loop.time())
