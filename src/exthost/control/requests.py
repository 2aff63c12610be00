"""Performs the requests that come over the control socket.

`perform` runs one request, and may send events before it returns the value of the reply. If its
task is cancelled during a call, the call is cancelled in the extension as well, as the dialect (the
protocol that the extension speaks) defines. A verb is the name of a request, such as `restart`.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from exthost._version import __version__
from exthost.control.as_data import as_data, event_as_data
from exthost.control.description import describe_extension, describe_settings, describe_tools
from exthost.control.measurements import Measurements
from exthost.control.protocol import Request
from exthost.control.served_host import ServedHost
from exthost.control.status_report import StatusReport, local_pids
from exthost.dialects.meanings import Progress
from exthost.dialects.streams import ProgressBar
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.errors import CallFailed, UsageError
from exthost.events import LogLine
from exthost.extension.calls import Calls
from exthost.extension.extension import Extension
from exthost.extension.parallel_start import start_all
from exthost.session.call import Call
from exthost.tool_result import ToolResult
from exthost.trace.buffer import TraceBuffer
from exthost.trace.record import TraceRecord

# In these states the verb `start` starts the extension, or waits until it is ready. In every other
# state, such as `failed`, the verb `start` restarts the extension.
_STARTABLE_STATES = frozenset({"discovered", "admitted", "starting", "ready"})

# The verbs that a host still performs while it shuts down.
_VERBS_WHILE_ENDING = frozenset({"status", "hello"})

# Requests with these verbs are cancelled when their client disconnects; others are completed.
CANCELLED_WITH_CLIENT = frozenset({"call", "find", "trace"})


# The most records of a trace in one event.
TRACE_BATCH = 256


class EventSender(Protocol):
    """Sends events to the client of one request."""

    def send_or_drop(self, event: Mapping[str, Any]) -> None:
        """Send an event, or drop it if the client has not read the earlier output."""

    async def send(self, event: Mapping[str, Any]) -> None:
        """Wait until the client has read the earlier events, and send this one."""


# A call with only these parameters sends no events, so it can run without a task. Other parameters,
# such as `progress` and `log`, request events.
_PLAIN_CALL_PARAMS = frozenset({"tool", "arguments", "timeout", "context", "wait"})

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


Verb: TypeAlias = Callable[[Request, EventSender], Coroutine[Any, Any, Any]]


class RequestPerformer:
    """Performs the requests to one host.

    host        the host
    report      the state of its extensions
    config      the absolute path of the config
    is_program  whether the host is part of another program (see `ControlServer`)
    ending      whether the host shuts down; the creator of this object sets it to True then
    opened      whether each extension that starts with the host is ready or has failed; the creator
                of this object may set it to False until then
    """

    def __init__(
        self, host: ServedHost, report: StatusReport, config: str, *, is_program: bool = False
    ) -> None:
        self._host = host
        self._report = report
        self._config = config
        self._started_at = time.monotonic()
        self._measurements = Measurements(host.events)
        self._is_program = is_program
        self.ending = False
        self.opened = True
        self._verbs: Mapping[str, Verb] = {
            "hello": self._hello,
            "status": self._status,
            "start": self._start_or_stop,
            "stop": self._start_or_stop,
            "restart": self._start_or_stop,
            "reload": self._reload,
            "inspect": self._inspect,
            "tools": self._tools,
            "find": self._find,
            "call": self._call,
            "trace": self._trace,
        }

    def close(self) -> None:
        """Stop measuring."""
        self._measurements.close()

    async def perform(self, request: Request, events: EventSender) -> Any:
        """Perform the request, and return the value of the reply. Raises ExthostError."""
        if self.ending and request.verb not in _VERBS_WHILE_ENDING:
            raise UsageError("X1378", "the host is ending", help="run it again: exthost run")
        return await self._verbs[request.verb](request, events)

    # -- state and control -------------------------------------------------------------------

    async def _hello(self, request: Request, _: EventSender) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "version": __version__,
            "config": self._config,
            "uptime": round(time.monotonic() - self._started_at, 3),
            "ending": self.ending,
            "opened": self.opened,
            "program": self._is_program,
        }

    async def _status(self, request: Request, events: EventSender) -> dict[str, Any]:
        name = request.name
        rows = [self._report.row(self._host[name])] if name else self._report.rows()
        if request.params.get("settings"):
            rows = [
                row | {"settings": as_data(describe_settings(self._host[row["id"]]))}
                for row in rows
            ]
        if request.params.get("measure"):
            self._measurements.keep_measuring()
            rows = [row | self._measurements.measure(row["id"], local_pids(row)) for row in rows]
        return {"host": await self._hello(request, events), "extensions": rows}

    async def _start_or_stop(self, request: Request, _: EventSender) -> dict[str, Any]:
        """Start, stop or restart an extension, and return its new row."""
        extension = self._host[request.name]
        old_pids = self._report.row(extension)["pids"]
        if request.verb == "stop":
            await extension.drain()
        elif request.verb == "start" and extension.state in _STARTABLE_STATES:
            await extension.start()
        else:
            await extension.restart()
        row = self._report.row(extension)
        # An old process may still run to finish its calls, but a client expects the pids of the new
        # processes. If there is no new process, such as after a stop, the row keeps its pids.
        row["pids"] = [pid for pid in row["pids"] if pid not in old_pids] or row["pids"]
        return row

    async def _reload(self, request: Request, _: EventSender) -> dict[str, Any]:
        outcome = await self._host.reload()
        return {
            "added": outcome.added,
            "changed": outcome.changed,
            "removed": outcome.removed,
            "failed": [error.as_dict() for error in outcome.failed],
        }

    async def _inspect(self, request: Request, _: EventSender) -> dict[str, Any]:
        extension = await self._host[request.name].start()
        # In a thread, because the digests need every file of the package to be read.
        digests = await asyncio.to_thread(lambda: extension.digests)
        report: dict[str, Any] = as_data(describe_extension(extension, digests))
        return report

    async def _tools(self, request: Request, _: EventSender) -> dict[str, Any]:
        if request.params.get("start"):
            chosen = [self._host[request.name]] if request.name else self._host.extensions
            await start_all(extension.start for extension in chosen if extension.is_silent)
        return describe_tools(self._host, request.name)

    async def _trace(self, request: Request, events: EventSender) -> None:
        """Send the trace records of the extensions as events, until the client disconnects. A
        client that reads too slowly misses the oldest records; `dropped` in an event is how many
        records it has missed since the last event."""
        if request.name:
            self._host[request.name]  # raises NotFound if there is no such extension
        traffic, buffer, number = self._host.traffic, TraceBuffer(), 0
        unsubscribe = traffic.subscribe(buffer, request.name)
        try:
            # An event without records tells the client that the trace has begun.
            await events.send(_make_trace_event([], 0, traffic.dialects))
            while True:
                await buffer.wait(number)
                dropped = max(0, buffer.start - number)
                records = buffer.after(number, TRACE_BATCH)
                number = max(number, buffer.start) + len(records)
                await events.send(_make_trace_event(records, dropped, traffic.dialects))
        finally:
            unsubscribe()

    # -- calls -------------------------------------------------------------------------------

    async def _find(self, request: Request, _: EventSender) -> dict[str, Any]:
        """Return the extension of a tool, and the tool's own name. Start extensions if that is
        needed to find the tool."""
        params = request.params
        tool = str(params.get("tool", ""))
        if request.name:
            extension = self._host[request.name]
            if extension.is_silent or params.get("capability"):
                await extension.start()
            tool = own_tool_name(extension, tool)
        else:
            registered = await self._host.find_tool(
                tool, capability=str(params.get("capability") or ""), ask_all=True
            )
            extension, tool = self._host[registered.extension], registered.tool
        return {
            "extension": extension.id,
            "tool": tool,
            "dialect": extension.dialect.name,
            "capabilities": list(extension.offer.capabilities),
        }

    def start_call(self, request: Request, send_reply: SendReply) -> "StartedCall | None":
        """Start a call of a tool without a task. `send_reply` is called with its outcome.

        Return None if the request is not a plain call of a tool, if no process of the extension is
        ready, or if the host shuts down. The caller then uses `perform`, which waits for a process
        or raises the error. Raises ExthostError if the call cannot be sent.
        """
        params = request.params
        tool = params.get("tool")
        if type(tool) is not str or not _PLAIN_CALL_PARAMS.issuperset(params) or self.ending:
            return None
        extension = self._host[request.name]
        id, reader = request.id, extension.dialect.result_reader

        def on_end(value: Any, error: BaseException | None) -> None:
            if error is None and (reader.is_error is None or not reader.is_error(value)):
                send_reply(id, {"dialect": extension.dialect.name, "raw": as_data(value)}, None)
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
        calls = extension.calls
        call = calls.start_tool_with_callback(
            tool, params.get("arguments"), params.get("timeout"), context, on_end
        )
        return None if call is None else StartedCall(calls, call)

    async def _call(self, request: Request, events: EventSender) -> dict[str, Any]:
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
                extension.calls.flush_log()
                unsubscribe()

    async def _call_tool(
        self, extension: Extension, params: Mapping[str, Any], events: EventSender
    ) -> dict[str, Any]:
        tool = str(params["tool"])

        def forward(progress: Progress) -> None:
            _, done, total, message = progress
            event = {"kind": "progress", "extension": extension.id, "method": tool}
            events.send_or_drop(event | {"progress": done, "total": total, "message": message})

        result = await extension.call_tool(
            tool,
            params.get("arguments"),
            timeout=params.get("timeout"),
            context=params.get("context") or EMPTY_MAPPING,
            wait=params.get("wait", True),
            on_progress=forward if params.get("progress") else None,
            check=False,
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
        def forward(line: LogLine) -> None:
            if line.extension == extension.id:
                events.send_or_drop({"kind": "log", "extension": line.extension, "text": line.text})

        return self._host.events.subscribe(LogLine, forward)


def _make_trace_event(
    records: list[TraceRecord], dropped: int, dialects: Mapping[str, str]
) -> dict[str, Any]:
    names = {record.extension for record in records}
    return {
        "kind": "trace",
        "records": [as_data(record.as_dict()) for record in records],
        "dropped": dropped,
        "dialects": {name: dialects.get(name, "") for name in names},
    }


def own_tool_name(extension: Extension, name: str) -> str:
    """Return the tool's own name. `name` is the own name, the registered name, or `extension:tool`.
    Return an unknown name unchanged."""
    if name in extension.tools:
        return name
    for tool in extension.tools:
        if name in (extension.registered_name(tool), f"{extension.id}:{tool}"):
            return tool
    return name


def _make_call_value(extension: Extension, result: ToolResult, tool: str = "") -> dict[str, Any]:
    """Return the value of the reply to a call. If the extension replied with an error, the error is
    a part of this value, and is not raised. If the result of a tool is marked as an error, the help
    and the evidence of its error are."""
    value: dict[str, Any] = {"dialect": extension.dialect.name, "raw": as_data(result.raw)}
    error = result.error_reply
    if error is not None:
        value["error_reply"] = error.as_dict()
    elif tool and result.is_error:
        error = extension.calls.tool_error(result, tool)
        value["tool_error"] = {"help": error.help, "evidence": error.evidence.as_dict()}
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
