"""The server's end of one connection: reads requests, has them performed, and writes the answers.

Limits keep a client from harming the host or other clients: the length of a line, the number of
requests in progress, the time to send a request, and the time to read an answer. A client that
traces and does not read is not disconnected; it misses records instead.

When a client disconnects, its calls are cancelled. Its other requests, such as a restart, are
completed.
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

# The most requests of one client in progress. While there are that many, its input is not read.
MAX_REQUESTS = 256


class ServerConnection(LineConnection):
    """One client. The connection adds itself to `open_connections`, and removes itself at its
    end."""

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
        self._calls: dict[int, StartedCall] = {}  # calls without a task, by the id of the request
        # Lines that were read and not handled yet, at most those of one read.
        self._waiting: deque[Item] = deque()
        # The task of the last request without an id: the next such request waits for it.
        self._last_in_order: asyncio.Task[None] | None = None
        # None while the client reads; otherwise done when all waiting output is written.
        self._drained: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._keeps_open = False  # whether an idle client is not disconnected
        self._is_leaving = False  # whether further requests are ignored

        open_connections.add(self)

    def serve(self) -> None:
        """Start to read and answer requests."""
        self._start_timer(ASK_SECONDS)
        self.resume_reading()

    def refuse(self, error: ExthostError) -> None:
        """Send the error and close the connection."""
        self.write(protocol.encode_failure(error))
        self._is_leaving = True
        self.close()

    # -- the connection ------------------------------------------------------------------------

    def lines_received(self, items: list[Item]) -> None:
        if self._is_leaving:
            return
        is_free = not self._waiting and len(self._tasks) + len(self._calls) < MAX_REQUESTS
        if is_free and len(items) == 1:  # the common case: one call
            request = protocol.read_plain_call(items[0])
            if request is None or not self._try_start_call(request):
                self._waiting.extend(items)
                self._handle_waiting()
        else:
            self._waiting.extend(items)
            self._handle_waiting()

    def end_received(self) -> None:
        self._leave()  # requests in progress still write their answers

    def connection_lost(self) -> None:
        self._leave()
        self._cancel_timer()
        self._open_connections.discard(self)
        self.resume_writing()

    def pause_writing(self) -> None:
        self._drained = self.loop.create_future()
        # A client that traces may pause reading; records are then dropped and counted.
        if not any(request.verb == "trace" for request in self._tasks.values()):
            self._start_timer(READ_SECONDS)

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None:
            drained.set_result(None)
        self._cancel_timer()
        self._close_or_time_if_idle()

    def disconnect(self) -> None:
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
        """Ignore further requests, and cancel the calls. The connection is closed when the other
        requests are completed."""
        if self._is_leaving:
            return
        self._is_leaving = True
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
        """If no request is in progress, close the connection if the client leaves; otherwise start
        the timer for its next request."""
        if self._tasks or self._calls or self._drained is not None or self.is_closing:
            return
        if self._is_leaving:
            self.close()
        elif not self._keeps_open:
            self._start_timer(ASK_SECONDS)

    def _start_timer(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = self.loop.call_later(seconds, self.disconnect)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- requests ----------------------------------------------------------------------------

    def _handle_waiting(self) -> None:
        """Handle the waiting lines, as many as the limit allows. Pause reading while some
        remain."""
        while self._waiting and self._has_room() and not self._is_leaving:
            item = self._waiting.popleft()
            self._handle_line(item)
            if isinstance(item, Skipped):  # the line was too long
                self._leave()
        if self._waiting:
            self.pause_reading()
        else:
            self.resume_reading()

    def _has_room(self) -> bool:
        return len(self._tasks) + len(self._calls) < MAX_REQUESTS

    def _handle_line(self, item: Item) -> None:
        """Start the request in this line, or cancel one."""
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
        """Start a call without a task, which is faster. Return False if that is not possible: then
        it needs a task. While output waits to be written, a task is needed to wait for that."""
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
            self.loop.call_soon(self._handle_waiting)
        if not self._keeps_open:
            self._close_or_time_if_idle()

    def _start(self, request: Request, error: ExthostError | None = None) -> None:
        """Start a task that performs the request, or only answers with `error`."""
        if self._drained is None:
            self._cancel_timer()
        self._keeps_open = self._keeps_open or bool(request.params.get("stay"))
        previous = self._last_in_order if request.id is None else None
        task = self.loop.create_task(self._perform(request, previous, error))
        if request.id is None:
            self._last_in_order = task
        self._tasks[task] = request
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if self._last_in_order is task:
            self._last_in_order = None
        self._handle_waiting()
        self._close_or_time_if_idle()
        if not task.cancelled():
            task.result()  # raises an unexpected error, which the event loop logs

    async def _perform(
        self,
        request: Request,
        previous: "asyncio.Task[None] | None",
        error: ExthostError | None,
    ) -> None:
        if previous is not None:
            await asyncio.wait([previous])
        try:
            if error is not None:
                raise error
            value = await self._requests.perform(request, _Events(self, request.id))
            line = protocol.encode_success(value, request.id)
        except ExthostError as failure:
            line = protocol.encode_failure(failure, request.id)
        self.write(line)
        await self.until_writable()

    # -- writing -----------------------------------------------------------------------------

    async def until_writable(self) -> None:
        """Wait until all output is written, or the client has disconnected."""
        while self._drained is not None:
            await asyncio.shield(self._drained)

    def offer_event(self, event: Mapping[str, Any], id: int | None) -> None:
        """Send an event, or drop it if earlier output is not written yet."""
        if self._drained is None:
            self.write(protocol.encode_event(event, id))

    async def send_event(self, event: Mapping[str, Any], id: int | None) -> None:
        """Send an event when all earlier output is written."""
        await self.until_writable()
        self.write(protocol.encode_event(event, id))


class _Events:
    """Sends the events of one request, as an `EventSender`."""

    def __init__(self, connection: ServerConnection, id: int | None) -> None:
        self._connection = connection
        self._id = id

    def offer(self, event: Mapping[str, Any]) -> None:
        self._connection.offer_event(event, self._id)

    async def send(self, event: Mapping[str, Any]) -> None:
        await self._connection.send_event(event, self._id)
