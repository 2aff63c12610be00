"""Performs the requests that come over the control socket.

`perform` runs one request, and may send events before it returns the value of the reply. A verb is
the name of a request, such as `restart`. `call_requests` performs the verb `call`. For example, the
request `{"verb": "restart", "name": "weather"}` is performed by `_start_or_stop`, which returns the
state of the extension.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from exthost._version import __version__
from exthost.errors import ExthostError, ProtocolViolation, Refused, UsageError
from exthost.extension.lifecycle import State
from exthost.extension.parallel_start import start_all
from exthost.host.control.as_data import as_data
from exthost.host.control.call_requests import (
    CallPerformer,
    EventSender,
    SendReply,
    StartedCall,
    own_tool_name,
)
from exthost.host.control.description import (
    describe_extension,
    describe_rule,
    describe_settings,
    describe_tools,
)
from exthost.host.control.measurements import Measurements
from exthost.host.control.protocol import ControlRequest
from exthost.host.control.served_host import ReloadOutcome, ServedHost
from exthost.host.control.status_report import StatusReport, local_pids
from exthost.session.trace.buffer import TraceBuffer
from exthost.session.trace.record import TraceRecord

# In these states the verb `start` starts the extension, or waits until it is ready. In every other
# state, such as `failed`, the verb `start` restarts the extension.
_STARTABLE_STATES = frozenset({"discovered", "admitted", "starting", "ready"})

# The verbs that a host still performs while it shuts down.
_VERBS_WHILE_ENDING = frozenset({"status", "hello"})

# Requests with these verbs are cancelled when their client disconnects; others are completed.
CANCELLED_WITH_CLIENT = frozenset({"call", "notify", "find", "trace"})


# The most records of a trace in one event.
TRACE_BATCH = 256


Verb: TypeAlias = Callable[[ControlRequest, EventSender], Coroutine[Any, Any, Any]]

AcceptClient: TypeAlias = Callable[[socket.socket, Mapping[str, Any], Callable[[], None]], None]
"""Serves MCP on a connected socket. The parameters are those of the request `gateway`, and a
function to call when the socket is closed."""


class RequestPerformer:
    """Performs the requests to one host.

    host        the host
    report      the state of its extensions
    config      the absolute path of the config
    is_program  whether the host is part of another program (see `ControlServer`)
    ending      whether the host shuts down; the creator of this object sets it to True then
    opened      whether each extension that starts with the host is ready or has failed; the creator
                of this object may set it to False until then

    A host that serves MCP sets these attributes:

    accept_client     serves MCP to a relay, which passes on the lines of one client
                      (`faces.relay`); None if the host does not serve MCP
    client_objection  why no client can be served, or None
    on_detached       called when a program that stayed connected has disconnected
    list_clients      returns the clients of the MCP service, as data
    """

    def __init__(
        self, host: ServedHost, report: StatusReport, config: str, *, is_program: bool = False
    ) -> None:
        self._host = host
        self._report = report
        self._calls = CallPerformer(host)
        self._config = config
        self._started_at = time.monotonic()
        self._measurements = Measurements(host.events)
        self._is_program = is_program
        self.ending = False
        self.opened = True
        self.accept_client: AcceptClient | None = None
        self.client_objection: ExthostError | None = None
        self.on_detached: Callable[[], None] = lambda: None
        self.list_clients: Callable[[], list[dict[str, Any]]] = list
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
            "rules": self._rules,
            "call": self._calls.perform,
            "notify": self._notify,
            "trace": self._trace,
        }

    def close(self) -> None:
        """Stop measuring."""
        self._measurements.close()

    async def perform(self, request: ControlRequest, events: EventSender) -> Any:
        """Perform the request, and return the value of the reply. Raises ExthostError."""
        if request.verb not in _VERBS_WHILE_ENDING:
            self._require_not_ending()
        return await self._verbs[request.verb](request, events)

    def _require_not_ending(self) -> None:
        if self.ending:
            raise UsageError("X1378", "the host is ending", help="run it again: exthost run")

    def require_client_service(self, request: ControlRequest) -> AcceptClient:
        """Return the function that serves MCP to the relay that has sent this request. Raises
        ProtocolViolation if the relay has a different version, and Refused if the host does not
        serve MCP."""
        self._require_not_ending()
        version = request.params.get("version")
        if version != __version__:
            raise ProtocolViolation(
                "X0680",
                f"the host is exthost {__version__}, and this client is exthost {version}",
                help="end the host with exthost down; the client then starts one of its version",
            )
        if self.accept_client is None:
            raise Refused(
                "X0376",
                "this host serves no MCP clients but its own",
                help="end it, or give the client a host of its own: exthost gateway --own",
            )
        if self.client_objection is not None:
            raise self.client_objection
        return self.accept_client

    # -- state and control -------------------------------------------------------------------

    async def _hello(self, request: ControlRequest, _: EventSender) -> dict[str, Any]:
        """Return facts about the host. Clients send this first, to see that the host answers."""
        return {
            "pid": os.getpid(),
            "version": __version__,
            "config": self._config,
            "uptime": round(time.monotonic() - self._started_at, 3),
            "ending": self.ending,
            "opened": self.opened,
            "program": self._is_program,
        }

    async def _status(self, request: ControlRequest, events: EventSender) -> dict[str, Any]:
        name = request.name
        rows = [self._report.row(self._host[name])] if name else self._report.rows()
        if request.params.get("settings"):
            rows = [
                row | {"settings": as_data(describe_settings(self._host[row["id"]]))}
                for row in rows
            ]
        if request.params.get("measure"):
            self._measurements.keep_measuring()
            rows = [row | self._measure(row) for row in rows]
        return {
            "host": await self._hello(request, events),
            "clients": self.list_clients(),
            "extensions": rows,
        }

    def _measure(self, row: dict[str, Any]) -> dict[str, Any]:
        usage = self._host[row["id"]].internals.node_usage
        return self._measurements.measure(row["id"], local_pids(row), usage)

    async def _start_or_stop(self, request: ControlRequest, _: EventSender) -> dict[str, Any]:
        """Start, stop or restart an extension, and return its new row."""
        extension = self._host[request.name]
        old_pids = self._report.row(extension)["pids"]
        if request.verb == "stop":
            await extension.drain()
        elif request.verb == "start" and extension.state in _STARTABLE_STATES:
            await extension.start()
        else:
            try:
                await extension.restart()
            except ExthostError as error:
                if extension.state == State.READY:  # the old process continues
                    self._report.note_failed_replacements([error])
                raise
        row = self._report.row(extension)
        # An old process may still run to finish its calls, but a client expects the pids of the new
        # processes. If there is no new process, such as after a stop, the row keeps its pids.
        row["pids"] = [pid for pid in row["pids"] if pid not in old_pids] or row["pids"]
        return row

    async def _reload(self, request: ControlRequest, _: EventSender) -> dict[str, Any]:
        outcome = await self._host.reload()
        self.note_reload(outcome)
        return {
            "added": outcome.added,
            "changed": outcome.changed,
            "removed": outcome.removed,
            "failed": [error.as_dict() for error in outcome.failed],
        }

    def note_reload(self, outcome: ReloadOutcome) -> None:
        """Show in the status why a reload did not replace some extensions."""
        kept = [error for error in outcome.failed if error.extension not in outcome.added]
        self._report.note_failed_replacements(kept)

    async def _inspect(self, request: ControlRequest, _: EventSender) -> dict[str, Any]:
        extension = await self._host[request.name].start()
        # In a thread, because the digests need every file of the package to be read.
        digests = await asyncio.to_thread(lambda: extension.digests)
        report: dict[str, Any] = as_data(describe_extension(extension, digests))
        return report

    async def _tools(self, request: ControlRequest, _: EventSender) -> dict[str, Any]:
        if request.params.get("start"):
            chosen = [self._host[request.name]] if request.name else self._host.extensions
            await start_all(
                extension.start for extension in chosen if extension.internals.is_offer_unknown
            )
        with_hidden = request.params.get("all") is True
        return describe_tools(self._host, request.name, with_hidden=with_hidden)

    async def _trace(self, request: ControlRequest, events: EventSender) -> None:
        """Send the trace records of the extensions as events, until the client disconnects. A
        client that reads too slowly misses the oldest records; `dropped` in an event is how many
        records it has missed since the last event."""
        if request.name:
            self._host[request.name]  # raises NotFound if there is no such extension
        traffic = self._host.traffic
        buffer = TraceBuffer()
        number = 0  # how many records of the buffer were sent or missed
        unsubscribe = traffic.subscribe(buffer, request.name)
        try:
            # An event without records shows the client that the trace has begun.
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

    async def _rules(self, request: ControlRequest, _: EventSender) -> dict[str, Any]:
        """Return the rule that decides about a call of a tool."""
        params = request.params
        client = params.get("client")
        return await describe_rule(
            self._host,
            str(params.get("tool", "")),
            params.get("arguments"),
            None if client is None else str(client),
        )

    async def _find(self, request: ControlRequest, _: EventSender) -> dict[str, Any]:
        """Return the extension of a tool, and the tool's own name. Start extensions if that is
        needed to find the tool."""
        params = request.params
        tool = str(params.get("tool", ""))
        if request.name:
            extension = self._host[request.name]
            if extension.internals.is_offer_unknown or params.get("capability"):
                await extension.start()
            tool = own_tool_name(extension, tool)
        else:
            registered = await self._host.find_tool(
                tool,
                capability=str(params.get("capability") or ""),
                ask_all=bool(params.get("ask_all", True)),
            )
            extension, tool = self._host[registered.extension], registered.tool
        return {
            "extension": extension.id,
            "tool": tool,
            "dialect": extension.dialect.full_name,
            "capabilities": list(extension.offer.capabilities),
        }

    async def _notify(self, request: ControlRequest, _: EventSender) -> None:
        params = request.params
        await self._host[request.name].notify(
            str(params.get("method", "")), params.get("params"), timeout=params.get("timeout")
        )

    def start_call(self, request: ControlRequest, send_reply: SendReply) -> StartedCall | None:
        """Start a call of a tool without a task, as `CallPerformer.start` does. Return None also if
        the host shuts down; `perform` then raises the error."""
        return None if self.ending else self._calls.start(request, send_reply)


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
