"""The public object of one extension. It hides which process handles a call.

    async with exthost.Host.from_config("exthost.toml") as host:
        ext = host["text"]
        result = await ext.call_tool("shout", {"text": "hi"})

Any task may call it or close it, in any order. `Calls` makes the calls and submits them to the call
queue. The `Supervisor` starts, restarts and ends processes; calls do not pass through it. `Status`
has the state. An extension speaks one dialect (protocol); its facets (the attributes that only
extensions of one dialect have, such as `ext.inference`) are set here by `attach_facets`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from exthost.dialects.facet_attributes import FacetAttributes
from exthost.errors import CallTimeout
from exthost.events import Bus
from exthost.extension.calls import Calls, make_queue
from exthost.extension.facets import attach_facets, find_facet
from exthost.extension.internals import ExtensionInternals
from exthost.extension.lifecycle import Health, State, health_in
from exthost.extension.misuse import (
    check_loop,
    check_may_start,
    check_name,
    check_timeout,
    wrong_type_error,
)
from exthost.extension.startup import NO_CHECKS, ProcessStarter
from exthost.extension.stats import build_stats
from exthost.extension.status import Status
from exthost.extension.supervisor import Supervisor
from exthost.extension.timeouts import require_time_left
from exthost.extension.tool_interceptor import NO_INTERCEPTOR
from exthost.launch.integrity import compute_digests
from exthost.launch.limits import resolve_limits
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.lock_record import judge_tools
from exthost.process.child import Child
from exthost.session.failures import copy_error

if TYPE_CHECKING:
    from exthost.dialects.base import Dialect
    from exthost.dialects.calls import HookAnswer
    from exthost.dialects.meanings import OnProgress
    from exthost.errors import ExthostError
    from exthost.extension.confirmation import Confirm
    from exthost.extension.startup import Spawn, StartChecks
    from exthost.extension.stats import Stats
    from exthost.extension.tool_interceptor import ToolInterceptor
    from exthost.extension.toolbox import Toolbox
    from exthost.model.lock_record import Quarantine
    from exthost.model.offer import Offer, Tool
    from exthost.model.spec import Spec
    from exthost.process.environment import Environment
    from exthost.session.inbound import Handler
    from exthost.session.session import Session
    from exthost.session.stream import EventStream
    from exthost.session.trace.traffic import Traffic
    from exthost.tool_result import ToolResult


F = TypeVar("F")


class Extension(FacetAttributes):
    """One supervised extension, as a host sees it. `connect` and hosts create it.

    `exthost.sdk.Extension` is another class: the extension itself, for its author."""

    def __init__(
        self,
        spec: Spec,
        dialect: Dialect,
        *,
        bus: Bus | None = None,
        handlers: Mapping[str, Handler] = MappingProxyType({}),
        environ: Mapping[str, str] | None = None,
        on_change: Callable[[], None] | None = None,
        checks: StartChecks = NO_CHECKS,
        check_offer: Callable[[Offer], None] | None = None,
        session_handlers: Callable[[Session], Mapping[str, Handler]] | None = None,
        spawn: Spawn = Child,
        shared: bool = False,
        replaces: bool = False,
        traffic: Traffic | None = None,
        interceptor: ToolInterceptor = NO_INTERCEPTOR,
    ) -> None:
        """Create an extension that is not started.

        handlers          answer requests of the extension to the host, by method
        environ           the host's environment variables; None means those of this process
        on_change         called when the state or the tools have changed
        checks            the checks before a start that concern other extensions of the host
        check_offer       raises if the offer of a new process conflicts with another extension
        session_handlers  returns further handlers for a new session; `handlers` take precedence
        spawn             executes a launch plan; tests pass a substitute for a process
        shared            whether calls come from several threads
        replaces          whether it will replace a running extension of the same id, as in a
                          reload; until then it publishes no changes of its state
        traffic           the recorder of messages, shared by the extensions of a host
        interceptor       what the host runs around the tool calls
        """
        loop = asyncio.get_running_loop()
        limits = resolve_limits(spec, dialect)
        bus = bus or Bus()
        self.spec = spec
        self.dialect = dialect
        self._queue = make_queue(spec, dialect, limits, bus=bus, is_shared=shared, loop=loop)
        self._stop_limit = limits.stop  # in seconds
        self._starter = ProcessStarter(
            spec,
            dialect,
            self._queue,
            limits,
            handlers=handlers,
            environ=environ,
            check_offer=check_offer,
            checks=checks,
            session_handlers=session_handlers,
            spawn=spawn,
            traffic=traffic,
        )
        self._status = Status(
            spec,
            bus,
            offer_is_known=dialect.traits.tools == "manifest",
            on_change=on_change,
            publishes_changes=not replaces,
        )
        self._supervisor = Supervisor(self._starter, self._queue, self._status)
        self._calls = Calls(
            spec, dialect, limits, self._queue, self._status, self._supervisor, interceptor
        )
        self.internals = ExtensionInternals(
            spec,
            dialect,
            self._queue,
            self._calls,
            self._starter,
            self._status,
            self._supervisor,
        )
        self._starter.on_new_process = attach_facets(self, dialect)

    def __repr__(self) -> str:
        return f"<Extension {self.id!r} ({self.dialect.name}) {self.state}>"

    if not TYPE_CHECKING:  # a type checker would accept any name then

        def __getattr__(self, name: str) -> Any:
            """Raise the error for a missing name; for a facet, it says which dialect has it."""
            from exthost.dialects.missing_facet import missing_attribute_error

            raise missing_attribute_error(self, name)

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

        With `wait=False` the call fails at once if the extension is not ready.
        """
        return self._calls.call(method, params, timeout, wait)

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
        hooks: bool = True,
        confirm: Confirm | None = None,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Call a tool of this extension by the tool's own name, and return its result.

        `on_progress` is called with each progress report of the extension. A tool that fails raises
        CallFailed; with `check=False` its result is returned instead. A call that cannot be made,
        or gets no reply in time, raises in both cases. The hooks of the host's extensions run
        before and after the call, as in `Host.call_tool`.
        """
        return self._calls.call_tool(
            name, arguments, timeout, context, wait, on_progress, check, hooks, confirm
        )

    async def list_tools(self, *, timeout: float | None = None) -> tuple[Tool, ...]:
        """Request the list of tools and return it; raise UsageError if the dialect has no such
        request. The tools of the extension stay as they are. Tools that differ from the lock, or
        are in quarantine, are left out."""
        tools: tuple[Tool, ...] = await self._calls.run_operation(
            "list_tools", None, timeout, "list_tools"
        )
        lock = self.spec.lock
        if lock is None or lock.mode != "enforce":
            return tools
        allowed, _quarantined = judge_tools(lock.record, tools)
        # In a pool, another process may have the changed form of a tool.
        return tuple(tool for tool in allowed if tool.name not in self.quarantined)

    async def run_hook(
        self, name: str, event: Mapping[str, Any], *, timeout: float | None = None
    ) -> HookAnswer:
        """Run a hook of this extension on an event. If the process dies, the hook is sent once more
        to the next process, within the same time limit."""
        check_name(name, "a hook")
        if not isinstance(event, Mapping):
            raise wrong_type_error("event", "a mapping, such as a dict", event)
        return await self._calls.run_hook(name, event, timeout)

    async def check_health(self, *, timeout: float | None = None) -> Any:
        """Request a health report, if the dialect has such a request, and return it. `health` shows
        the report until the next one, or until another process is ready."""
        if timeout is not None:  # an expired limit is not the extension's fault
            require_time_left(self.id, "health", timeout)
        ready_at = self._status.ready_at
        try:
            report = await self._calls.run_operation("health", None, timeout, "health")
        except CallTimeout:
            self._status.record_health(Health.UNHEALTHY, ready_at)
            raise
        reported_status: Any = report.get("status") if isinstance(report, Mapping) else None
        is_bad = reported_status in (Health.DEGRADED, Health.UNHEALTHY)
        self._status.record_health(Health(reported_status) if is_bad else None, ready_at)
        return report

    async def notify(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> None:
        """Send a notification, which has no reply. Raises UsageError in a dialect without them.

        With a `timeout`, wait first until everything that was sent before is in the pipe (the
        process need not have read it yet); raise CallTimeout if the pipe stays full.
        """
        await self._calls.notify(method, params, timeout)

    def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> EventStream:
        """Call a method whose reply is a stream of events: `async with ext.stream(…) as events`.

        `timeout` limits the whole stream, up to its end. Raises UsageError for other methods.
        """
        check_name(method)
        self._calls.factory.refuse_quarantined(method, params)
        limit = self._calls.factory.time_limit_for(method)
        stream_limit = None if timeout is None else require_time_left(self.id, method, timeout)
        from exthost.extension.stream_calls import make_stream

        return make_stream(self._queue, self.dialect, method, params, limit, stream_limit)

    # -- life --------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Start the extension and return when it is ready. Raise the error that prevented it."""
        check_may_start(self._queue)
        if self._status.state is not State.READY:
            self._supervisor.request_start()
            await self._supervisor.wait_until_settled()
        self._require_ready()
        return self

    async def restart(self) -> None:
        """Start a new process, in any state.

        A running process gets calls until the new one is ready; then calls go to the new process,
        and the old one ends after its last reply. If the new process does not get ready, the old
        one stays in use and the error is raised.
        """
        check_may_start(self._queue)
        error = await self._supervisor.restart()
        if error is not None:
            raise copy_error(error)
        self._require_ready()

    def _require_ready(self) -> None:
        if self._status.state is not State.READY:
            # The error reads "it is not available: the extension is …".
            raise self._supervisor.not_running_error("it")

    def hold(self) -> AbstractContextManager[None]:
        """Prevent `limits.idle` from ending the extension inside a block: `with ext.hold(): …`."""
        return self._supervisor.idle.hold()

    async def close(self, *, patience: float | None = 0.0) -> None:
        """End the extension, and return when none of its processes is left. Closing twice is
        allowed.

        Calls in flight get `patience` seconds to finish first; None waits as long as their own
        limits. Then the processes are shut down by the steps of their dialect.
        """
        seconds = math.inf if patience is None else check_timeout(patience, "patience")
        if not (self._queue.loop.is_closed() or self._queue.is_forked):
            check_loop(self._queue)
        await self._supervisor.stop(seconds)
        await self._starter.close()
        self.internals.stop_counting()

    async def drain(self) -> None:
        """End the extension after its calls in flight have finished, or after `limits.stop`
        seconds."""
        await self.close(patience=self._stop_limit)

    def kill(self) -> None:
        """Kill every process of the extension at once. `close` then returns soon."""
        self._supervisor.processes.kill()

    # -- facts -------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The name of the extension in its host."""
        return self.spec.id

    @property
    def state(self) -> State:
        """The state in the life-cycle table. It equals its name as text: `ext.state == "ready"`."""
        return self._status.state

    @property
    def health(self) -> Health:
        """The health: running, degraded, unhealthy, restarting, idle, suspended, failed …

        While the extension is ready, its health is what it last replied to `check_health`, if that
        was degraded or unhealthy. Otherwise it is degraded if a process has crashed, if its pool
        has lost one, or if the breaker is half-open.
        """
        status, recovery = self._status, self._supervisor.recovery
        if status.state is State.READY and status.reported_health:
            return status.reported_health
        has_crashed = (
            recovery.restarts.has_crashed
            or status.lost_process is not None
            or recovery.breaker.is_half_open
        )
        return health_in(status.state, has_crashed=has_crashed)

    @property
    def cause(self) -> ExthostError | None:
        """The error that keeps the extension from being ready; None if it is ready."""
        return self._status.cause

    @property
    def offer(self) -> Offer:
        """The tools, hooks and capabilities that the last handshake announced; before a handshake,
        those that the manifest declares."""
        return self._status.offer

    @property
    def tools(self) -> Toolbox:
        """The tools by their own names. `tools.call` returns errors as results (mcp and roder)."""
        from exthost.extension.toolbox import Toolbox

        return Toolbox(self.dialect, lambda: self._status.tools, self.call_tool)

    @property
    def quarantined(self) -> Mapping[str, Quarantine]:
        """The announced tools that differ from the lock of the config, by name. They cannot be
        called."""
        return self._status.quarantined

    @property
    def manifest(self) -> Any:
        """The manifest as the dialect has read it; None without a manifest."""
        return self.spec.manifest

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line of the last start, or of the next one."""
        return self._starter.argv

    @property
    def environment(self) -> Environment:
        """The variables that the process gets, and the names of those that are withheld."""
        return self._starter.prepared().environment

    @property
    def enforced(self) -> Mapping[str, Any]:
        """The sandbox of the process, as data."""
        return self._starter.prepared().enforced

    @property
    def digests(self) -> dict[str, str]:
        """The digests that a config can pin, by the keys of its `sha256` table."""
        return compute_digests(self.spec, self._starter.prepared().plan, self._status.offer.tools)

    def facet(self, kind: type[F]) -> F:
        """Return the facet of this class, of a built-in or a third-party dialect. Raises UsageError
        if the dialect has no such facet."""
        return find_facet(self, kind)

    @property
    def stats(self) -> Stats:
        """The counts since the extension was loaded, and facts about the current process."""
        return build_stats(
            self.internals.totals, self._status, self._supervisor, self._queue.loop.time()
        )
