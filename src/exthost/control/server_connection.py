"""One client at the host's socket: its lines, its requests in progress, and their answers.

A client cannot harm the host or another client. It has a bounded line, a bounded number of requests
in progress, and a bounded time to send its first request and to read what it is sent. A client
that traces and does not read loses records; it is not disconnected. When a client goes away its
calls are cancelled; whatever else it began goes on.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any

from exthost.control import protocol
from exthost.control.line_connection import LineConnection
from exthost.control.protocol import REQUEST_BYTES, Request
from exthost.control.requests import CANCELLED_WITH_CLIENT, Requests, StartedCall
from exthost.errors import ExthostError
from exthost.wire.framing import Item, Skipped

# How long a client may take to send a request while none is in progress, and to read an answer.
ASK_SECONDS = 10.0
READ_SECONDS = 10.0

# Requests of one client in progress at once; at this number its connection is not read.
MAX_REQUESTS = 256


class ServerConnection(LineConnection):
    """The host's end of one connection, which is in `open_connections` until it is over."""

    def __init__(
        self,
        connected: socket.socket,
        requests: Requests,
        open_connections: "set[ServerConnection]",
    ) -> None:
        super().__init__(connected, REQUEST_BYTES)
        self._requests = requests
        self._open_connections = open_connections
        self._tasks: dict[asyncio.Task[None], Request] = {}
        self._calls: dict[int, StartedCall] = {}  # those without a task, by the id of the request
        self._waiting: deque[Item] = deque()  # no more than one read of them
        self._last_in_order: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._keeps_open = False  # also while the client sends nothing
        self._takes_no_more = False  # requests

        open_connections.add(self)

    def serve(self) -> None:
        """Answer this client."""
        self._start_timer(ASK_SECONDS)
        self.resume_reading()

    def refuse(self, error: ExthostError) -> None:
        """Send the error and close the connection."""
        self.write(protocol.encode_failure(error))
        self._takes_no_more = True
        self.close()

    # -- the connection ------------------------------------------------------------------------

    def lines_received(self, items: list[Item]) -> None:
        if self._takes_no_more:
            return
        is_free = not self._waiting and len(self._tasks) + len(self._calls) < MAX_REQUESTS
        if is_free and len(items) == 1:
            request = protocol.read_plain_call(items[0])
            if request is None or not self._try_start_call(request):
                self._waiting.extend(items)
                self._take_waiting()
        else:
            self._waiting.extend(items)
            self._take_waiting()

    def end_received(self) -> None:
        self._leave()  # requests in progress still write their answers

    def connection_lost(self) -> None:
        self._leave()
        self._cancel_timer()
        self._open_connections.discard(self)
        self.resume_writing()

    def pause_writing(self) -> None:
        self._drained = self.loop.create_future()
        # A tracing client may stop reading: meanwhile records are dropped and counted.
        if not any(request.verb == "trace" for request in self._tasks.values()):
            self._start_timer(READ_SECONDS)

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None:
            drained.set_result(None)
        self._cancel_timer()
        self._close_or_time_if_idle()

    def give_up(self) -> None:
        """Close the connection at once, and cancel every request of this client."""
        for task in self._tasks:
            task.cancel()
        self._cancel_calls()
        self.abort()

    async def finish(self) -> None:
        """Wait until no request of this client is in progress."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _leave(self) -> None:
        """Take no more requests, and cancel the calls. The connection closes after the last of the
        other requests."""
        if self._takes_no_more:
            return
        self._takes_no_more = True
        self._waiting.clear()
        for task, request in self._tasks.items():
            if request.verb in CANCELLED_WITH_CLIENT:
                task.cancel()
        self._cancel_calls()
        self._close_or_time_if_idle()

    def _cancel_calls(self) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.cancel()

    def _close_or_time_if_idle(self) -> None:
        """If no request is in progress, close the connection or start the timer for the next."""
        if self._tasks or self._calls or self._drained is not None or self.is_closing:
            return
        if self._takes_no_more:
            self.close()
        elif not self._keeps_open:
            self._start_timer(ASK_SECONDS)

    def _start_timer(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = self.loop.call_later(seconds, self.give_up)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- requests ----------------------------------------------------------------------------

    def _take_waiting(self) -> None:
        while self._waiting and self._has_room() and not self._takes_no_more:
            item = self._waiting.popleft()
            self._take(item)
            if isinstance(item, Skipped):
                self._leave()
        if self._waiting:
            self.pause_reading()
        else:
            self.resume_reading()

    def _has_room(self) -> bool:
        return len(self._tasks) + len(self._calls) < MAX_REQUESTS

    def _take(self, item: Item) -> None:
        try:
            request = protocol.read_request(item)
        except ExthostError as error:
            self._start(Request("", ""), error)
            return
        if request.verb == "cancel":
            for task, other in self._tasks.items():
                if other.id == request.id and other.verb in CANCELLED_WITH_CLIENT:
                    task.cancel()
            if (call := self._calls.pop(request.id or 0, None)) is not None:
                call.cancel()
            return
        if request.verb != "call" or not self._try_start_call(request):
            self._start(request)

    def _try_start_call(self, request: Request) -> bool:
        """Start a plain call without a task, if that is possible. Not while the client leaves
        output unread: only a task can wait for that."""
        id = request.id
        if id is None or id in self._calls or self._drained is not None:
            return False
        try:
            call = self._requests.start_call(request, self._answer_call)
        except ExthostError as error:
            self._start(request, error)
            return True
        if call is None:
            return False
        if not call.call.ended:
            self._calls[id] = call
            self._cancel_timer()
        return True

    def _answer_call(self, id: int | None, value: Any, error: BaseException | None) -> None:
        """Send the outcome of a call that has no task."""
        self._calls.pop(id or 0, None)
        if error is None:
            self.write(protocol.encode_success(value, id))
        elif isinstance(error, ExthostError):
            self.write(protocol.encode_failure(error, id))
        if self._waiting:
            self.loop.call_soon(self._take_waiting)
        if not self._keeps_open:
            self._close_or_time_if_idle()

    def _start(self, request: Request, error: ExthostError | None = None) -> None:
        if self._drained is None:
            self._cancel_timer()
        self._keeps_open = self._keeps_open or bool(request.params.get("stay"))
        before = self._last_in_order if request.id is None else None
        task = self.loop.create_task(self._work(request, before, error))
        if request.id is None:
            self._last_in_order = task
        self._tasks[task] = request
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if self._last_in_order is task:
            self._last_in_order = None
        self._take_waiting()
        self._close_or_time_if_idle()
        if not task.cancelled():
            task.result()

    async def _work(
        self,
        request: Request,
        before: "asyncio.Task[None] | None",
        error: ExthostError | None,
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            if error is not None:
                raise error
            value = await self._requests.perform(request, _Events(self, request.id))
            line = protocol.encode_success(value, request.id)
        except ExthostError as failed:
            line = protocol.encode_failure(failed, request.id)
        self.write(line)
        await self.until_writable()

    # -- writing -----------------------------------------------------------------------------

    async def until_writable(self) -> None:
        """Wait until the client has taken what it was sent, or is gone."""
        while self._drained is not None:
            await asyncio.shield(self._drained)

    def offer_event(self, event: Mapping[str, Any], id: int | None) -> None:
        """Send an event, unless the client has not taken what it was sent before."""
        if self._drained is None:
            self.write(protocol.encode_event(event, id))

    async def send_event(self, event: Mapping[str, Any], id: int | None) -> None:
        """Send an event when the client has taken what it was sent before."""
        await self.until_writable()
        self.write(protocol.encode_event(event, id))


class _Events:
    """The events of one request."""

    def __init__(self, connection: ServerConnection, id: int | None) -> None:
        self._connection = connection
        self._id = id

    def offer(self, event: Mapping[str, Any]) -> None:
        self._connection.offer_event(event, self._id)

    async def send(self, event: Mapping[str, Any]) -> None:
        await self._connection.send_event(event, self._id)
