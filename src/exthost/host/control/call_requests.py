"""Performs the calls that come over the control socket.

A call names a tool of an extension, or a method of its dialect (the protocol that the extension
speaks). It may request events: progress, log lines, the events of a stream. If the task of a call
is cancelled, the call is cancelled in the extension as well, as its dialect defines.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from exthost.dialects.meanings import Progress
from exthost.dialects.streams import ProgressBar
from exthost.errors import CallFailed, UsageError
from exthost.events import LogLine
from exthost.extension.calls import Calls
from exthost.extension.extension import Extension
from exthost.host.control.as_data import as_data, event_as_data
from exthost.host.control.protocol import ControlRequest
from exthost.host.control.questions import AskClient, confirm_by_client
from exthost.host.control.served_host import ServedHost
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.session.call import Call
from exthost.tool_result import ToolResult


class EventSender(Protocol):
    """Sends events to the client of one request."""

    def send_or_drop(self, event: Mapping[str, Any]) -> None:
        """Send an event, or drop it if the client has not read the earlier output."""

    async def send(self, event: Mapping[str, Any]) -> None:
        """Wait until the client has read the earlier events, and send this one."""

    @property
    def ask(self) -> AskClient | None:
        """Asks the client a question; None if this kind of client cannot be asked."""


# A call with only these parameters sends no events, so it can run without a task. Other parameters,
# such as `progress` and `log`, request events. `confirm` allows the questions of hooks; a call that
# hooks judge has a task.
_PLAIN_CALL_PARAMS = frozenset({"tool", "arguments", "timeout", "context", "wait", "confirm"})

SendReply: TypeAlias = Callable[[int | None, Any, BaseException | None], None]
"""A function that replies to a request. It is called with the id of the request, and with the value
or the error of the call."""


class StartedCall(NamedTuple):
    """A call that was started without a task.

    calls  the calls of its extension, which can cancel the call
    call   the call
    """

    calls: Calls
    call: Call

    def cancel(self) -> None:
        """Cancel the call. No reply is sent."""
        self.calls.cancel(self.call)


class CallPerformer:
    """Performs the calls of extensions of one host."""

    def __init__(self, host: ServedHost) -> None:
        self._host = host

    def start(self, request: ControlRequest, send_reply: SendReply) -> "StartedCall | None":
        """Start a call of a tool without a task. `send_reply` is called with its outcome.

        Return None if the request is not a plain call of a tool, if hooks judge calls, or if no
        process of the extension is ready. The caller then uses `perform`, which waits for a process
        or raises the error. Raises ExthostError if the call cannot be sent.
        """
        params = request.params
        tool = params.get("tool")
        if type(tool) is not str or not _PLAIN_CALL_PARAMS.issuperset(params):
            return None
        extension = self._host[request.name]
        id, reader = request.id, extension.dialect.result_reader
        has_limit = extension.internals.calls.result_limit is not None

        def on_end(value: Any, error: BaseException | None) -> None:
            # A plain result, the common case, needs no ToolResult.
            is_plain = not has_limit and (reader.is_error is None or not reader.is_error(value))
            if error is None and is_plain:
                send_reply(
                    id, {"dialect": extension.dialect.full_name, "raw": as_data(value)}, None
                )
            elif error is None:
                result = ToolResult(value, reader)
                send_reply(id, _make_call_value(extension, result, tool), None)
            elif isinstance(error, CallFailed):
                send_reply(
                    id, _make_call_value(extension, ToolResult.from_error_reply(error)), None
                )
            else:
                send_reply(id, None, error)

        context = params.get("context") or EMPTY_MAPPING
        calls = extension.internals.calls
        call = calls.start_tool_with_callback(
            tool, params.get("arguments"), params.get("timeout"), context, on_end
        )
        return None if call is None else StartedCall(calls, call)

    async def perform(self, request: ControlRequest, events: EventSender) -> dict[str, Any]:
        """Perform a call, and return the value of the reply. Raises ExthostError."""
        params = request.params
        method = params.get("method")
        if not request.name or (method is None) == (params.get("tool") is None):
            raise UsageError(
                "X1376",
                "the host does not understand this request: a call names an extension, and a tool "
                "or a method",
                help="client and host may be of different versions: exthost --version",
            )
        extension = self._host[request.name]
        unsubscribe = self._forward_log(extension, events) if params.get("log") else None
        try:
            if method is not None:
                return await self._call_method(extension, str(method), params, events)
            return await self._call_tool(extension, params, events)
        finally:
            if unsubscribe is not None:
                # The extension may have written log lines, such as the end of a traceback, that
                # are not published yet.
                extension.internals.calls.flush_log()
                unsubscribe()

    async def _call_tool(
        self, extension: Extension, params: Mapping[str, Any], events: EventSender
    ) -> dict[str, Any]:
        tool, timeout = str(params.get("tool", "")), params.get("timeout")
        confirm = None
        if events.ask is not None and params.get("confirm") is True:
            time_limit = partial(
                extension.internals.calls.factory.time_limit_of_tool, tool, timeout
            )
            confirm = confirm_by_client(events.ask, time_limit)

        def forward(progress: Progress) -> None:
            _, done, total, message = progress
            event = {"kind": "progress", "extension": extension.id, "method": tool}
            events.send_or_drop(event | {"progress": done, "total": total, "message": message})

        result = await extension.call_tool(
            tool,
            params.get("arguments"),
            timeout=timeout,
            context=params.get("context") or EMPTY_MAPPING,
            wait=params.get("wait", True),
            on_progress=forward if params.get("progress") else None,
            check=False,
            # Any value but False runs the hooks: a mistake of a client must not skip them.
            hooks=params.get("hooks") is not False,
            confirm=confirm,
        )
        return _make_call_value(extension, result, tool)

    async def _call_method(
        self,
        extension: Extension,
        method: str,
        params: Mapping[str, Any],
        events: EventSender,
    ) -> dict[str, Any]:
        arguments, timeout = params.get("arguments"), params.get("timeout")
        # True calls the method as a stream. "if_any" does so only if the dialect declares that the
        # method replies with a stream.
        stream_mode = params.get("stream")
        if stream_mode and (stream_mode is True or method in extension.dialect.streams):
            async with extension.stream(method, arguments, timeout=timeout) as stream:
                async for event in stream:
                    await events.send(_make_stream_event(extension, event))
            result = stream.result
        else:
            wait = params.get("wait", True)
            result = await extension.call(method, arguments, timeout=timeout, wait=wait)
        tool_result = ToolResult(result, extension.dialect.result_reader)
        return _make_call_value(extension, tool_result) | {"is_error": tool_result.is_error}

    def _forward_log(self, extension: Extension, events: EventSender) -> Callable[[], None]:
        """Send each log line of the extension as an event. Return a function that ends that."""

        def forward(line: LogLine) -> None:
            if line.extension == extension.id:
                events.send_or_drop({"kind": "log", "extension": line.extension, "text": line.text})

        return self._host.events.subscribe(LogLine, forward)


def own_tool_name(extension: Extension, name: str) -> str:
    """Return the tool's own name. `name` is the own name, the registered name, or `extension:tool`.
    Return an unknown name unchanged."""
    if name in extension.tools:
        return name
    for tool in extension.tools:
        if name in (extension.internals.registered_name(tool), f"{extension.id}:{tool}"):
            return tool
    return name


def _make_call_value(extension: Extension, result: ToolResult, tool: str = "") -> dict[str, Any]:
    """Return the value of the reply to a call. If the extension replied with an error, the error is
    a part of this value, and is not raised. If the result of a tool is marked as an error, this
    value has the help and the evidence of the error that the client raises, or the whole error if
    secrets are hidden in it that the result shows."""
    value: dict[str, Any] = {"dialect": extension.dialect.full_name, "raw": as_data(result.raw)}
    error = result.error_reply
    if error is not None:
        value["error_reply"] = error.as_dict()
    elif tool and result.is_error:
        error = extension.internals.calls.tool_error(result, tool)
        is_hidden = error.data is not result.raw and error.data != result.raw
        evidence = error.evidence.as_dict()
        value["tool_error"] = (
            as_data(error.as_dict()) if is_hidden else {"help": error.help, "evidence": evidence}
        )
    if (limit := extension.internals.calls.result_limit) is not None:
        value["result_limit"] = limit
    if result.warnings:
        value["warnings"] = list(result.warnings)
    if result.is_replaced:
        value["replaced"] = {"is_error": result.is_error}
    return value


def _make_stream_event(extension: Extension, event: Any) -> dict[str, Any]:
    """Return an event of a stream for the client. `data` is the event as data, and `shown` is the
    text or progress bar that the command line prints for it."""
    render = extension.dialect.render_event
    rendered: Any = f"{event!r}\n" if render is None else render(event)
    if isinstance(rendered, ProgressBar):
        rendered = rendered._asdict()
    data = event_as_data(event)
    return {"kind": "stream", "type": type(event).__name__, "data": data, "shown": rendered}
