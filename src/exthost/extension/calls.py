"""Makes the calls of one extension, submits them to the call queue and awaits their results.

Any task of the loop may call. A call is submitted synchronously, without a task switch, and is
written to the process at once if one is ready. If none is ready, or every process of a pool is
busy, the queue notifies the supervisor, which starts one.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from threading import get_ident
from typing import Any

from exthost.dialects.base import Dialect
from exthost.dialects.calls import HookAnswer, HookCall
from exthost.dialects.meanings import OnProgress
from exthost.errors import (
    CallFailed,
    CallTimeout,
    ExtensionGone,
    ExthostError,
    NotFound,
)
from exthost.events import Bus, check_callback
from exthost.extension.call_factory import CallFactory, PreparedTool
from exthost.extension.call_queue import CallQueue
from exthost.extension.confirmation import Confirm, check_confirm
from exthost.extension.isolation import is_isolated
from exthost.extension.lifecycle import State
from exthost.extension.misuse import check_context, check_loop, check_name, check_timeout
from exthost.extension.policy import effective_pool_size
from exthost.extension.quarantine import quarantine_error
from exthost.extension.status import Status
from exthost.extension.supervisor import Supervisor
from exthost.extension.timeouts import not_ready_in_time_error, require_time_left
from exthost.extension.tool_interceptor import ToolInterceptor, ToolOptions
from exthost.model.messages import Notification
from exthost.model.names import nearest
from exthost.model.offer import Tool
from exthost.model.result_limit import limit_reader
from exthost.model.shortened_text import shorten_to
from exthost.model.spec import Limits, Spec
from exthost.session.awaitable_call import AwaitableCall
from exthost.session.call import Call
from exthost.session.callback_call import CallbackCall, OnEnd
from exthost.session.failures import copy_error, failed_twice_error
from exthost.session.session import Session
from exthost.tool_result import ToolResult, tool_error

# States in which the extension is not ready, and a start is in progress or a call causes a start.
_BEFORE_READY = (State.DISCOVERED, State.ADMITTED, State.STARTING, State.BACKOFF)

# A part of the help of the error for a tool that an extension does not have.
_OTHER_METHODS_HELP = "for a method that is not a tool: exthost call --method, or ext.call"

# How many tools the help of the same error names.
_MAX_LISTED_TOOLS = 8

# A process that leaves more than this in its stdin pipe is too busy for a notification that must
# not wait. This is half the capacity of a Linux pipe, so a notification does not fill the pipe.
_MAX_UNREAD_BYTES = 32 * 1024


def make_queue(
    spec: Spec,
    dialect: Dialect,
    limits: Limits,
    *,
    bus: Bus,
    is_shared: bool,
    loop: asyncio.AbstractEventLoop,
) -> CallQueue:
    """Make the queue of an extension's calls, for one process or a pool.

    `is_shared`: calls are submitted from several threads, as `SyncHost` does.
    """
    assert limits.max_in_flight is not None
    queue = CallQueue(
        spec.id,
        max_in_flight=1 if is_isolated(spec) else limits.max_in_flight,
        retry_once=(spec.retry or dialect.traits.retry) == "once",
        is_shared=is_shared,
        # In a positional dialect replies carry no id, and match requests by their order.
        is_serial=dialect.traits.positional or is_isolated(spec),
        is_pool=effective_pool_size(spec).max > 1,
        bus=bus,
        loop=loop,
    )
    queue.outcomes.read_results_with(dialect.result_reader)
    return queue


class Calls:
    """Makes and submits the calls of one extension. `factory` makes the parts of calls and checks
    their arguments; the blocking API uses it, too."""

    __slots__ = (
        "_dialect", "_queue", "_spec", "_status", "_supervisor", "_thread", "factory",
        "interceptor", "result_limit", "result_reader",
    )  # fmt: skip

    def __init__(
        self,
        spec: Spec,
        dialect: Dialect,
        limits: Limits,
        queue: CallQueue,
        status: Status,
        supervisor: Supervisor,
        interceptor: ToolInterceptor,
    ) -> None:
        self._spec = spec
        self._dialect = dialect
        self._queue = queue
        self.result_limit = limits.result
        self.result_reader = limit_reader(dialect.result_reader, limits.result)
        self._status = status
        self._supervisor = supervisor
        self._thread = get_ident()  # the thread of the loop: an extension is made there
        self.interceptor = interceptor
        self.factory = CallFactory(spec, dialect, limits)
        self.factory.hide_secrets = status.without_secrets
        if spec.lock is not None:
            # A tool that differs from the lock (the record of what was approved) is in quarantine:
            # it must not be called. A call that waits for a process is checked again before it is
            # sent, because the tools of the new process may differ.
            self.factory.find_quarantined = lambda: status.quarantined
            queue.find_refusal = self.factory.find_refusal

    async def call(
        self,
        method: str,
        params: Any,
        timeout: float | None,
        wait: bool,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """Send a request of the dialect with this method name, and return its result.

        `timeout` is in seconds; None means the limit that is configured. With `wait` False, raise
        an error at once if no process is ready. `on_progress` is called with each progress report.
        """
        queue = self._queue
        # A thread runs one loop at a time. `check_loop` asks asyncio, which takes longer: in Python
        # 3.11 asyncio makes a system call.
        if get_ident() != self._thread or not queue.loop.is_running():
            check_loop(queue)
        if not wait:
            self.require_session(method)
        wire_method, wire_params, handler, limit = self.factory.for_method(method, params, timeout)
        call = AwaitableCall(wire_method, wire_params, handler, limit, queue)
        if on_progress is not None:
            call.on_progress = check_callback(on_progress, "on_progress")
        queue.submit(call)
        await call
        return call.value

    async def call_tool(
        self,
        name: str,
        arguments: Any,
        timeout: float | None,
        context: Mapping[str, Any],
        wait: bool,
        on_progress: OnProgress | None,
        check: bool,
        hooks: bool = True,
        confirm: Confirm | None = None,
        is_judged: bool = False,
    ) -> ToolResult:
        """Call a tool, starting the extension if needed, and return its result. This is the one way
        to call a tool: the hooks of the host's extensions run before and after it.

        `context` has values of the caller (a trace context, for example), which the dialect may
        send and events carry. With `check`, a tool that fails raises CallFailed; without, its
        result is returned. With `hooks` False no hook is called, which the audit records. `confirm`
        asks a person if a hook requests that, instead of the host's own. The other parameters are
        the same as in `call`.

        `is_judged`: the interceptor, which runs the hooks, has allowed this call already. Only
        `call_directly` sets it, through which the interceptor makes the call.
        """
        queue = self._queue
        if get_ident() != self._thread or not queue.loop.is_running():  # as in `call`
            check_loop(queue)
        try:
            prepared = self._status.prepared_tools.get(name)
        except TypeError:  # it has no hash, so it is not a string: `check_name` raises the error
            prepared = None
        interceptor = self.interceptor
        # With `hooks` False the interceptor runs no hook, but records the call in the audit. The
        # first field of a PreparedTool is the tool.
        skips_interceptor = is_judged or (
            hooks
            and (
                interceptor.is_idle
                or (
                    prepared is not None
                    and interceptor.allows(self._spec.id, prepared[0], arguments, context)
                )
            )
        )
        if not skips_interceptor:
            options = ToolOptions(timeout, context, wait, on_progress, check, hooks, confirm)
            return await interceptor.run(self, name, arguments, options)
        if not wait:
            self.require_session(name)
        wait_began_at = None
        if prepared is None:
            prepared, wait_began_at = await self._prepare_first_call(name, timeout)
        method, params, handler, limit = self.factory.for_tool(
            prepared, arguments, timeout, context
        )
        call = AwaitableCall(method, params, handler, limit, queue)
        if wait_began_at is not None:  # one time limit for the start and the call
            call.started_at, call.deadline = wait_began_at, wait_began_at + limit
        call.context, call.tool = context, name
        if on_progress is not None:
            call.on_progress = check_callback(on_progress, "on_progress")
        if confirm is not None:
            check_confirm(confirm)
        queue.submit(call)
        try:
            await call
        except CallFailed as error:
            if check:
                raise
            return ToolResult.from_error_reply(error)
        result = ToolResult(call.value, self.result_reader)
        if check and call.has_error_result:
            raise self.tool_error(result, name, call)
        return result

    async def _prepare_first_call(
        self, name: str, timeout: float | None
    ) -> tuple[PreparedTool, float | None]:
        """Return a tool that was not called before, ready to be called. If the extension had to be
        started to find out whether it has the tool, also return when that wait began, else None.
        Raises the error that keeps the tool from being called."""
        check_name(name)
        prepared = self.prepare_announced_tool(name)
        if prepared is not None:
            return prepared, None
        wait_began_at = None
        if self.may_offer_more:
            # Only a start makes the offer known. The call would cause a start anyway.
            wait_began_at = self._queue.now()
            await self._wait_for_start(name, timeout)
        return self.factory.prepare(self.tool(name)), wait_began_at

    @property
    def extension(self) -> str:
        """The id of the extension."""
        return self._spec.id

    @property
    def dialect_name(self) -> str:
        """The name of its dialect."""
        return self._dialect.name

    def announced_tool(self, name: str) -> Tool | None:
        """Return the tool of this name if it was called before and has not changed, else None."""
        try:
            prepared = self._status.prepared_tools.get(name)
        except TypeError:  # it has no hash, so it is not a string
            return None
        return None if prepared is None else prepared[0]

    def is_unjudged(self, tool: Tool | None) -> bool:
        """Return whether neither a rule nor a hook judges the calls of an announced tool."""
        interceptor = self.interceptor
        return interceptor.is_idle or (
            tool is not None and interceptor.is_unjudged(self._spec.id, tool)
        )

    def registered_name(self, name: str) -> str:
        """Return the name under which a tool of the extension is registered."""
        return self._dialect.registered_name(self._spec.id, name)

    async def prepare_to_call(self, name: str, options: ToolOptions) -> None:
        """Raise the error of a call that cannot be made; see `InterceptedCalls`."""
        check_context(options.context)
        check_confirm(options.confirm)
        if options.on_progress is not None:
            check_callback(options.on_progress, "on_progress")
        if options.timeout is not None:
            require_time_left(self._spec.id, name, options.timeout)
        if not options.wait:
            self.require_session(name)
        if self.prepare_announced_tool(name) is None:
            check_name(name)
            if self.may_offer_more:
                await self._wait_for_start(name, options.timeout)
            self.tool(name)

    def call_directly(
        self, name: str, arguments: Any, options: ToolOptions
    ) -> Coroutine[Any, Any, ToolResult]:
        """Call a tool without an interceptor; see `InterceptedCalls`."""
        timeout, context, wait, on_progress, check, _, _ = options
        return self.call_tool(
            name, arguments, timeout, context, wait, on_progress, check, is_judged=True
        )

    def start_tool_with_callback(
        self,
        name: str,
        arguments: Any,
        timeout: float | None,
        context: Mapping[str, Any],
        on_end: OnEnd,
    ) -> Call | None:
        """Call a tool without a task that awaits the result: `on_end` is called with the value or
        the error. Return the call, which `cancel` takes.

        Return None if no process is ready, the tool is not known yet, or hooks or a person may
        judge the call; the caller then uses `call_tool`, which waits. Raises the error that keeps
        the call from being sent.
        """
        queue, interceptor = self._queue, self.interceptor
        prepared = self.prepare_announced_tool(name)
        if prepared is None or not queue.sessions:
            return None
        if not (
            interceptor.is_idle
            or interceptor.allows(self._spec.id, prepared[0], arguments, context)
        ):
            return None
        parts = self.factory.for_tool(prepared, arguments, timeout, context)
        call = CallbackCall(*parts, queue, on_end, context)
        call.tool = name
        queue.submit(call)
        return call

    def cancel(self, call: Call) -> None:
        """Cancel a call of `start_tool_with_callback`; its `on_end` is not called."""
        if not call.ended:
            self._queue.cancel(call)

    def flush_log(self) -> None:
        """Publish at once every stderr line that the processes have written until now."""
        for session in self._queue.live_sessions:
            session.diagnostics.drain_stderr()
            session.diagnostics.flush()

    def tool_error(self, result: ToolResult, name: str, call: Call | None = None) -> CallFailed:
        """Return the error for a result of this tool that is marked as an error.

        `call` is the call that returned the result, if it is known: the evidence (command line,
        last stderr lines) then comes from the process of that call. Without `call`, the evidence
        comes from the only process; with several processes the error has no evidence, because it
        is not known which of them returned the result.
        """
        sessions = self._queue.sessions
        session = sessions[0] if len(sessions) == 1 else None
        if call is not None and call.session is not None:
            session = call.session
        if session is None:
            error = tool_error(result, name, extension=self._spec.id)
            if sessions:  # all of them have the same secrets
                sessions[0].diagnostics.hide_in_error(error)
            return error
        # Every stderr line is newer than time 0, so without a call no line is marked as older.
        evidence = session.diagnostics.evidence_since(0.0 if call is None else call.started_at)
        error = tool_error(result, name, extension=self._spec.id, evidence=evidence)
        session.diagnostics.add_advice(error)
        return error

    async def run_operation(
        self, name: str, params: Any, timeout: float | None, display_name: str = ""
    ) -> Any:
        """Run an operation that has the same name in every dialect, such as `hook` or `list_tools`.
        `display_name` is its name in errors and events."""
        check_loop(self._queue)
        parts = self.factory.for_operation(name, params, timeout, display_name)
        call = AwaitableCall(*parts, self._queue)
        self._queue.submit(call)
        await call
        return call.value

    async def run_hook(
        self, name: str, event: Mapping[str, Any], timeout: float | None
    ) -> HookAnswer:
        """Run a hook. If its process dies, the hook is sent once more to the next process, within
        the same time limit."""
        now = self._queue.loop.time
        limit = self.factory.time_limit_for("hook") if timeout is None else check_timeout(timeout)
        deadline = now() + limit
        params = HookCall(name, event, self._spec)
        answer: HookAnswer
        try:
            answer = await self.run_operation("hook", params, timeout, name)
        except ExtensionGone as error:
            # With `retry_once` the queue has sent it twice; if it is closed, no process will come.
            if self._queue.retry_once or self._queue.make_closed_error is not None:
                raise
            first_error = error
        else:
            return answer
        seconds_left = deadline - now()
        if seconds_left <= 0.0:
            raise first_error
        try:
            answer = await self.run_operation("hook", params, seconds_left, name)
        except CallFailed:
            raise
        except ExthostError as second_error:
            raise failed_twice_error(first_error, second_error) from None
        return answer

    def tool(self, name: str) -> Tool:
        """Return the tool of this name from the last offer (what the extension announced). Raises
        NotFound, or the error that keeps the extension from running."""
        check_name(name)
        tool = self._status.tools.get(name)
        if tool is not None:
            return tool
        quarantined = self._status.quarantined
        for quarantine in quarantined.values():
            if quarantine.tool.name == name:
                raise quarantine_error(self._spec.id, quarantine)
        # If a handshake announces the tools, the process that could not start may have this tool:
        # the caller must see why it did not start, not "no such tool".
        is_announced_by_process = self._dialect.traits.tools != "manifest"
        cause = self._status.cause
        if is_announced_by_process and self._status.state is not State.READY and cause is not None:
            make_error = self._queue.make_closed_error
            raise copy_error(cause) if make_error is None else make_error(name)
        if name in self._status.gone_tools:
            raise NotFound(
                "X1202",
                f"it offered the tool {name!r} when it ran before, and does not any more",
                extension=self._spec.id,
                help=self._list_tools(),
            )
        nearest_name = nearest(name, self._status.tools)
        raise NotFound(
            "X1202",
            f"it offers no tool {name!r}",
            extension=self._spec.id,
            help=f"did you mean {nearest_name!r}?" if nearest_name else self._list_tools(),
        )

    def _list_tools(self) -> str:
        names = list(self._status.tools)
        more = ", …" if len(names) > _MAX_LISTED_TOOLS else ""
        listed = ", ".join(repr(shorten_to(60, name)) for name in names[:_MAX_LISTED_TOOLS]) + more
        return f"its tools are: {listed or 'none'}; {_OTHER_METHODS_HELP}"

    async def _wait_for_start(self, name: str, timeout: float | None) -> None:
        """Wait until the extension is ready or cannot get ready. Raises CallTimeout after the time
        limit of the call of this tool."""
        limit = self.factory.time_limit_of_tool(name, timeout)
        self._supervisor.request_start()
        try:
            async with asyncio.timeout(limit):
                await self._supervisor.wait_until_settled()
        except TimeoutError:
            raise not_ready_in_time_error(self._spec.id, name, limit, self._status.cause) from None

    async def notify(self, method: str, params: Any, timeout: float | None) -> None:
        """Send a notification. With a `timeout` in seconds, wait first until there is room in the
        pipe: everything that was sent before is in it. In a pool, one process gets the
        notification."""
        check_loop(self._queue)
        check_name(method)
        self.factory.refuse_quarantined(method, params)
        session = self.require_session(method)
        self._supervisor.idle.record_use()
        if timeout is not None:
            try:
                async with asyncio.timeout(check_timeout(timeout)):
                    await session.drained()
            except TimeoutError:
                raise CallTimeout(
                    "X0841",
                    f"{method} was not sent: its stdin was still full after {timeout:g} s",
                    extension=self._spec.id,
                    help="the extension must read its stdin while it works",
                ) from None
            if session.cause is not None:  # it ended while this task waited
                raise session.closed_error(method)
        session.send(Notification(method, params))

    def try_notify(self, method: str, params: Any) -> bool:
        """Send a notification at once. Return False if no process is ready, or if too much of what
        was sent before is unread. In a pool, one process gets the notification."""
        sessions = self._queue.sessions
        if not sessions or sessions[0].unread_bytes() > _MAX_UNREAD_BYTES:
            return False
        self._supervisor.idle.record_use()
        sessions[0].send(Notification(method, params))
        return True

    def require_session(self, name: str) -> Session:
        """Return the session of a ready process, the oldest one of a pool. Raise the error that
        says why no process is ready; `name` is the method or tool that the error names."""
        sessions = self._queue.sessions
        if not sessions:
            self._supervisor.request_probe()
            raise self._supervisor.not_running_error(name)
        return sessions[0]

    def prepare_announced_tool(self, name: str) -> PreparedTool | None:
        """Return the tool of this name, ready to be called, if its schema is known. Otherwise
        return None.

        In most dialects the extension must have announced the tool: a manifest may lack its schema,
        and arguments must not be sent unchecked. Some dialects take their tools from manifests.
        """
        # `prepared_tools` is read before `tools`, because the loop's thread may replace both while
        # another thread is here. Otherwise an old tool could get into the new `prepared_tools`.
        prepared_tools = self._status.prepared_tools
        try:
            prepared = prepared_tools.get(name)
            tool = self._status.tools.get(name)
        except TypeError:  # a list or another value without a hash, which is not a name
            return None
        if prepared is None and tool is not None and self._status.offer_is_known:
            prepared = prepared_tools[name] = self.factory.prepare(tool)
        return prepared

    @property
    def may_have_hooks(self) -> bool:
        """Whether the extension must be started to find out if it has hooks: its handshake has not
        come, no manifest declares hooks, and in its dialect the handshake announces them."""
        status = self._status
        has_no_handshake = status.state in (State.DISCOVERED, State.ADMITTED, State.STARTING)
        is_offer_unknown = self._spec.manifest is None and not status.offer_is_known
        return has_no_handshake and is_offer_unknown and self._dialect.announces_hooks

    @property
    def may_offer_more(self) -> bool:
        """Whether the next handshake may announce tools that are not known yet."""
        return self._status.state in _BEFORE_READY and self._dialect.traits.tools == "handshake"
