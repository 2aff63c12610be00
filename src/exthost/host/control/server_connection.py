"""The server's end of one connection: reads requests, performs them, and writes the replies.

Four limits keep a client from harming the host or other clients: the length of a line, the number
of requests in progress, the time without a request, and the time until the client reads a reply. A
client that traces and does not read is not disconnected; it misses records instead.

When a client disconnects, its calls, searches for tools and traces are cancelled. Its other
requests, such as a restart, are completed.

A call of a tool usually runs without a task: its reply is written by a callback. Every other
request runs in a task.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any

from exthost.errors import ExthostError, Refused, UsageError
from exthost.host.control import protocol
from exthost.host.control.call_requests import StartedCall
from exthost.host.control.line_connection import LineConnection
from exthost.host.control.protocol import REQUEST_BYTES, ControlRequest
from exthost.host.control.requests import CANCELLED_WITH_CLIENT, RequestPerformer
from exthost.model.connection_limit import ConnectionLimit
from exthost.wire.framing import Broken, Item, Skipped

# A client is disconnected if it has no request in progress and sends none for this long.
IDLE_SECONDS = 10.0

# A client is disconnected if it does not read the output that waits for it for this long.
UNREAD_SECONDS = 10.0

# The most requests of one client in progress. At this number further requests of the client wait,
# until one has ended (back-pressure). A call does not count while the host waits for the client to
# answer a question about it: the answer comes after requests that the client has sent in the
# meantime, so these have to be read.
MAX_REQUESTS = 256

# While more than this waits for room, nothing is read. Up to this size the requests that wait are
# read, because cancellations of other requests may come after them, and so may the end of the
# input.
MAX_UNHANDLED_BYTES = 2**20

# The most questions of one client that are open. A program whose `confirm` never asks may have
# thousands of calls in progress.
MAX_QUESTIONS = 4096


class ServerConnection(LineConnection):
    """The connection of one client. It adds itself to `open_connections`, and removes itself when
    it is closed. In `limit` it counts as authenticated from its first request on."""

    def __init__(
        self,
        connected: socket.socket,
        requests: RequestPerformer,
        open_connections: "set[ServerConnection]",
        limit: "ConnectionLimit[ServerConnection]",
    ) -> None:
        super().__init__(connected, REQUEST_BYTES)
        self._limit = limit
        self._is_silent = True  # whether the client has sent no request yet
        self._performer = requests
        self._open_connections = open_connections
        self._tasks: dict[asyncio.Task[None], ControlRequest] = {}
        # The calls in progress that have no task, by the id of the request. A request without an id
        # always has a task, so None is not a key.
        self._calls: dict[int | None, StartedCall] = {}
        # Lines that were read and not handled yet, because too many requests are in progress, and
        # their size (see MAX_UNHANDLED_BYTES).
        self._unhandled_lines: deque[Item] = deque()
        self._unhandled_bytes = 0
        # The ids of the requests among them that the client has cancelled.
        self._cancelled_ids: set[int | None] = set()
        # The questions to the client that are not answered yet, by their numbers.
        self._questions: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._last_question = 0
        # The task of the last request without an id. Requests without an id are performed one after
        # another, so the next one waits for this task.
        self._last_ordered_task: asyncio.Task[None] | None = None
        # None if no output waits to be written; otherwise a future that is done when all output is
        # written.
        self._drained: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        # Whether the client is never disconnected for being idle. A client requests that by the
        # parameter `stay` of any request, as `exthost.attach` does.
        self._may_stay_idle = False
        # Whether further requests are ignored, and the connection is closed after the current ones.
        self._is_finishing = False

        open_connections.add(self)

    def serve(self) -> None:
        """Start to read requests and reply to them."""
        self._start_timer(IDLE_SECONDS)
        self.resume_reading()

    def refuse(self, error: ExthostError) -> None:
        """Send the error and close the connection."""
        self.write(protocol.encode_failure(error))
        self._is_finishing = True
        self.close()

    # -- the connection ------------------------------------------------------------------------

    def lines_received(self, items: list[Item]) -> None:
        if self._is_finishing:
            return
        if self._is_silent:
            self._is_silent = False
            self._limit.authenticate(self)
        if self._questions:  # answers are not requests: they do not wait for room
            items = [item for item in items if not self._take_answer(item)]
        self._unhandled_lines.extend(items)
        self._unhandled_bytes += sum(map(_size, items))
        self._handle_lines()
        if self._unhandled_lines:  # there is no room, and the client may be making some
            self._take_cancellations(len(items))
            self._handle_lines()

    def end_received(self) -> None:
        self._finish_and_close()  # the client may still read the replies to requests in progress

    def connection_lost(self) -> None:
        self._finish_and_close()
        self._cancel_timer()
        self._open_connections.discard(self)
        self._limit.remove(self)
        self.resume_writing()
        if self._may_stay_idle:
            self._performer.on_detached()

    def pause_writing(self) -> None:
        self._drained = self.loop.create_future()
        # A client that traces may stop reading for a while. It misses records then.
        if not any(request.verb == "trace" for request in self._tasks.values()):
            self._start_timer(UNREAD_SECONDS)

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

    @property
    def stays(self) -> bool:
        """Whether the client stays connected while it sends no request, as a program does that has
        attached itself."""
        return self._may_stay_idle and not self._is_finishing

    async def wait_for_tasks(self) -> None:
        """Wait until every request of this client that runs in a task has ended. Call `disconnect`
        first, which cancels the calls without a task at once."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _finish_and_close(self) -> None:
        """Ignore further requests, and cancel the requests in progress whose verb is in
        CANCELLED_WITH_CLIENT. Close the connection when the other requests are completed."""
        if self._is_finishing:
            return
        self._is_finishing = True
        self._forget_unhandled_lines()
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
        """If no request is in progress and all output is written, close the connection if it is
        finishing; otherwise start the timer for the client's next request."""
        if self._tasks or self._calls or self._drained is not None or self.is_closing:
            return
        if self._is_finishing:
            self.close()
        elif not self._may_stay_idle:
            self._start_timer(IDLE_SECONDS)

    def _start_timer(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = self.loop.call_later(seconds, self.disconnect)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- requests ----------------------------------------------------------------------------

    def _handle_lines(self) -> None:
        """Handle as many lines as the limit of requests in progress allows. Pause reading while
        too many remain."""
        while self._unhandled_lines and self._has_room() and not self._is_finishing:
            item = self._unhandled_lines.popleft()
            self._unhandled_bytes -= _size(item)
            self._handle_line(item)
            if isinstance(item, Skipped):
                # The line was too long. `_handle_line` replies with an error. A client that
                # sends such lines is not served any longer.
                self._finish_and_close()
        if not self._unhandled_lines:
            self._cancelled_ids.clear()
        if self._unhandled_bytes > MAX_UNHANDLED_BYTES:
            self.pause_reading()
        else:
            self.resume_reading()

    def _forget_unhandled_lines(self) -> None:
        self._unhandled_lines.clear()
        self._unhandled_bytes = 0

    def _take_cancellations(self, count: int) -> None:
        """Handle the cancellations among the last `count` lines at once: the requests before them
        wait for room, which a cancellation may make."""
        lines = self._unhandled_lines
        newest = [lines.pop() for _ in range(min(count, len(lines)))]
        for item in reversed(newest):
            id = protocol.read_cancellation(item)
            if id is None:
                lines.append(item)
                continue
            self._unhandled_bytes -= _size(item)
            # The request may be one that waits. At most one cancellation for each is kept.
            if not self._cancel_request(id) and len(self._cancelled_ids) < len(lines):
                self._cancelled_ids.add(id)

    def _cancel_request(self, id: int | None) -> bool:
        """Cancel the requests in progress with this id. Return whether there are any."""
        tasks = [task for task, request in self._tasks.items() if request.id == id]
        for task in tasks:
            if self._tasks[task].verb in CANCELLED_WITH_CLIENT:
                task.cancel()
        call = self._calls.pop(id, None)
        if call is not None:
            call.cancel()
        return bool(tasks) or call is not None

    def _has_room(self) -> bool:
        """Return whether a further request can be started (see MAX_REQUESTS)."""
        question_count = len(self._questions)
        return len(self._tasks) + len(self._calls) - question_count < MAX_REQUESTS

    def _handle_line(self, item: Item) -> None:
        """Start the request in this line, or cancel the request that it names."""
        try:
            request = protocol.read_request(item)
        except ExthostError as error:
            # The line has no readable request, so there is no verb and no id: the error is the
            # reply to a request without an id.
            self._start_task(ControlRequest(""), error)
            return
        if request.verb == "cancel":
            self._cancel_request(request.id)
            return
        if request.id in self._cancelled_ids and request.verb in CANCELLED_WITH_CLIENT:
            self._cancelled_ids.discard(request.id)  # the client has cancelled it while it waited
            return
        if request.verb == "answer":
            return  # its question is not open any more
        if request.verb == "gateway":
            self._hand_over(request)
        elif request.verb != "call" or not self._try_start_call(request):
            self._start_task(request)

    def _hand_over(self, request: ControlRequest) -> None:
        """Give the connection to the MCP service of the host, for the relay of a client."""
        is_busy = self._tasks or self._calls or self._unhandled_lines or self._drained is not None
        try:
            if is_busy or not self._framing.is_at_line_start:
                raise UsageError("X1316", "a relay sends its request alone")
            accept = self._performer.require_client_service(request)
        except ExthostError as error:
            self._start_task(request, error)
            return
        self._cancel_timer()
        self._forget_unhandled_lines()
        self._is_finishing = True
        accept(self.detach(), request.params, self._forget)

    def _forget(self) -> None:
        """Release the place of this client. Called when the MCP service has closed it."""
        self._open_connections.discard(self)
        self._limit.remove(self)

    def _try_start_call(self, request: ControlRequest) -> bool:
        """Start a call without a task, which is faster, and return True. Return False if the
        request needs a task: it has no id, its id is in use, it is not a plain call of a tool, or
        output waits to be written, for which only a task can wait."""
        id = request.id
        if id is None or id in self._calls or self._drained is not None:
            return False
        try:
            call = self._performer.start_call(request, self._reply_to_call)
        except ExthostError as error:
            self._start_task(request, error)
            return True
        if call is None:
            return False
        if not call.call.ended:
            self._calls[id] = call
            self._cancel_timer()
        return True

    def _reply_to_call(self, id: int | None, value: Any, error: BaseException | None) -> None:
        """Send the outcome of a call that has no task."""
        self._calls.pop(id, None)
        if error is None:
            self.write(protocol.encode_success(value, id))
        elif isinstance(error, ExthostError):
            self.write(protocol.encode_failure(error, id))
        if self._unhandled_lines:
            self.loop.call_soon(self._handle_lines)
        if not self._may_stay_idle:
            self._close_or_time_if_idle()

    def _start_task(self, request: ControlRequest, error: ExthostError | None = None) -> None:
        """Start a task that performs the request, or that only replies with `error`."""
        # While output waits, the timer is the one for a client that does not read, and keeps
        # running.
        if self._drained is None:
            self._cancel_timer()
        self._may_stay_idle = self._may_stay_idle or bool(request.params.get("stay"))
        previous = self._last_ordered_task if request.id is None else None
        task = self.loop.create_task(self._perform_in_task(request, previous, error))
        if request.id is None:
            self._last_ordered_task = task
        self._tasks[task] = request
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if self._last_ordered_task is task:
            self._last_ordered_task = None
        self._handle_lines()
        self._close_or_time_if_idle()
        if not task.cancelled():
            task.result()  # raises an unexpected error, which the event loop logs

    async def _perform_in_task(
        self,
        request: ControlRequest,
        previous: "asyncio.Task[None] | None",
        error: ExthostError | None,
    ) -> None:
        """Perform a request after the request of the task `previous`, and write the reply."""
        if previous is not None:
            await asyncio.wait([previous])
        try:
            if error is not None:
                raise error
            value = await self._performer.perform(request, _ConnectionEventSender(self, request.id))
            line = protocol.encode_success(value, request.id)
        except ExthostError as failure:
            line = protocol.encode_failure(failure, request.id)
        self.write(line)
        await self.until_writable()

    # -- questions ---------------------------------------------------------------------------

    async def ask_client(self, question: Mapping[str, Any], id: int | None) -> Mapping[str, Any]:
        """Send a question as an event of the request `id`, and return the params of the answer.
        The caller limits the time. Raises Refused if too many questions are open."""
        if len(self._questions) >= MAX_QUESTIONS:
            raise Refused(
                "X0354",
                f"its caller has {MAX_QUESTIONS:,} questions to answer already",
                help="make fewer calls at a time",
            )
        self._last_question = number = self._last_question + 1
        answer: asyncio.Future[Mapping[str, Any]] = self.loop.create_future()
        self._questions[number] = answer
        if self._unhandled_lines:  # this call does not count now (MAX_REQUESTS): there may be room
            self.loop.call_soon(self._handle_lines)
        try:
            await self.send_event({"kind": "question", "question": number, **question}, id)
            return await answer
        finally:
            del self._questions[number]

    def _take_answer(self, item: Item) -> bool:
        """Return whether this line is an answer. Pass it to its question, if that is open."""
        params = protocol.read_answer(item)
        if params is None:
            return False
        number = params.get("question")
        answer = self._questions.get(number) if type(number) is int else None
        if answer is not None and not answer.done():
            answer.set_result(params)
        return True

    # -- writing -----------------------------------------------------------------------------

    async def until_writable(self) -> None:
        """Wait until all output is written or the client has disconnected."""
        while self._drained is not None:
            await asyncio.shield(self._drained)

    def send_event_or_drop(self, event: Mapping[str, Any], id: int | None) -> None:
        """Send an event, or drop it if earlier output still waits to be written."""
        if self._drained is None:
            self.write(protocol.encode_event(event, id))

    async def send_event(self, event: Mapping[str, Any], id: int | None) -> None:
        """Send an event when all earlier output is written."""
        await self.until_writable()
        self.write(protocol.encode_event(event, id))


def _size(item: Item) -> int:
    """Return how many bytes a line takes in memory."""
    return len(item.head if isinstance(item, Skipped | Broken) else item)


class _ConnectionEventSender:
    """Sends the events and questions of one request to its client. Implements `EventSender`."""

    def __init__(self, connection: ServerConnection, id: int | None) -> None:
        self._connection = connection
        self._id = id

    def send_or_drop(self, event: Mapping[str, Any]) -> None:
        self._connection.send_event_or_drop(event, self._id)

    async def send(self, event: Mapping[str, Any]) -> None:
        await self._connection.send_event(event, self._id)

    async def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._connection.ask_client(question, self._id)
