"""Makes a call for the web page of a host, as a stream of events: progress, log lines, questions,
events of a stream, and the result or error at the end.

Calls are requests of the control socket (`control.requests`), so they do the same as `exthost
call`. When the browser disconnects, the call is cancelled.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from exthost.errors import ExthostError
from exthost.faces.web.page_questions import PageQuestions
from exthost.faces.web.page_values import error_as_data, result_as_data
from exthost.faces.web.server_requests import ServerRequests
from exthost.host.control.protocol import ControlRequest
from exthost.host.control.requests import RequestPerformer
from exthost.host.host import Host
from exthost.tool_result import ToolResult

# The maximum number of events that wait for the browser. If the queue is full, the events of a
# stream wait, and progress and log lines are dropped.
QUEUE_EVENTS = 256


class _Queue:
    """A queue of the events of one call. None marks the end. It implements `EventSender`:
    `send_or_drop` drops an event if the queue is full, and `send` waits. `dropped` is the number of
    dropped events."""

    def __init__(self, questions: PageQuestions) -> None:
        self._questions = questions
        self.events: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue(QUEUE_EVENTS)
        self.dropped = 0

    def send_or_drop(self, event: Mapping[str, Any]) -> None:
        if self.events.full():
            self.dropped += 1
        else:
            self.events.put_nowait(event)

    async def send(self, event: Mapping[str, Any]) -> None:
        await self.events.put(event)

    async def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a question of a hook to the page, and return the person's answer."""
        return await self._questions.ask(question, self.send)


async def call_events(
    host: Host,
    requests: RequestPerformer,
    request: ControlRequest,
    questions: PageQuestions,
    server_requests: ServerRequests,
) -> AsyncGenerator[Mapping[str, Any], None]:
    """Make the call, and yield its events; the last event is `result` or `error`."""
    loop = asyncio.get_running_loop()
    queue = _Queue(questions)
    start_time = loop.time()

    async def perform() -> Any:
        try:
            with server_requests.call(request.name, queue.send):
                return await requests.perform(request, queue)
        finally:
            await queue.events.put(None)

    call = loop.create_task(perform())
    try:
        while (event := await queue.events.get()) is not None:
            yield event
        try:
            reply = await call
            result = _read_answer(host, request.name, reply)
            if "method" in request.params:  # the page reads the reply of a method itself
                result["raw"] = reply["raw"]
            last_event = {"kind": "result", "result": result}
        except ExthostError as error:
            last_event = {"kind": "error", "error": error_as_data(error)}
        yield {
            **last_event,
            "seconds": round(loop.time() - start_time, 6),
            "dropped": queue.dropped,
        }
    finally:
        call.cancel()
        # Empty the queue while the call ends, because it would wait forever if the queue is full.
        while not call.done():
            while not queue.events.empty():
                queue.events.get_nowait()
            await asyncio.wait([call], timeout=0.05)


def _read_answer(host: Host, name: str, reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a call of the extension `name` as data for the page."""
    reader = host[name].dialect.result_reader
    result = ToolResult(reply["raw"], reader)
    data = result_as_data(result)
    if "error_reply" in reply:
        data |= {"is_error": True, "error": reply["error_reply"]}
    return data
