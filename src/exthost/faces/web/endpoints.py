"""The API of a host's web page: answers each request with JSON, or with a stream of events.

Each method answers one path. Starting, stopping, reloading and calling are requests of the control
socket (`control.requests`). `application` has checked the token before.
"""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from exthost.errors import ExthostError, NotFound, UsageError
from exthost.faces.http_server.trace_context import trace_context
from exthost.faces.web.call_events import call_events
from exthost.faces.web.event_stream import EventStreamResponse, OpenStreams
from exthost.faces.web.extension_details import describe
from exthost.faces.web.history import History
from exthost.faces.web.page_questions import PageQuestions
from exthost.faces.web.page_traffic import Recorder, follow_traffic, records_of_call, whole_record
from exthost.faces.web.page_values import error_as_data, to_json
from exthost.faces.web.row_sampler import RowSampler
from exthost.faces.web.server_requests import ServerRequests
from exthost.host.control import protocol
from exthost.host.control.requests import RequestPerformer
from exthost.host.control.socket_path import config_key
from exthost.host.control.status_report import StatusReport
from exthost.host.extension_logs import rotated_path
from exthost.host.host import Host
from exthost.process.state_dirs import log_file
from exthost.session.trace.trace_format import LineMaker
from exthost.wire import jsontext

Endpoint: TypeAlias = Callable[[HttpRequest], Awaitable[Response]]

MAX_BODY_BYTES = 16 * 2**20

# The most roots that the page keeps for a server.
_MAX_ROOTS = 100

_CONTROL_VERBS = frozenset({"start", "stop", "restart"})


class Endpoints:
    """The API of one host. `paths` has the HTTP method and the endpoint of each path."""

    def __init__(
        self,
        host: Host,
        report: StatusReport,
        requests: RequestPerformer,
        config: str,
        questions: PageQuestions,
        server_requests: ServerRequests,
    ) -> None:
        self._host = host
        self._report = report
        self._requests = requests
        self._config_key = config_key(config)
        self.history = History(host)
        self.sampler = RowSampler(host, report, self.history, lambda: self._requests.list_clients())
        self.recorder = Recorder(host)
        self.streams = OpenStreams()
        self._questions = questions
        self._server_requests = server_requests
        # The page asks a person about calls, unless the program that runs the host does so itself.
        if host.hooks.confirm is None:
            host.hooks.confirm = host.rules.confirm = self._questions.confirm
        self.paths: Mapping[str, tuple[str, Endpoint]] = {
            "/api/host": ("GET", self._describe_host),
            "/api/events": ("GET", self._stream_rows),
            "/api/extension": ("GET", self._describe_extension),
            "/api/log": ("GET", self._read_log),
            "/api/trace": ("GET", self._export_trace),
            "/api/watch": ("GET", self._record_messages),
            "/api/traffic": ("GET", self._stream_traffic),
            "/api/frame": ("GET", self._read_record),
            "/api/frames": ("GET", self._list_call_records),
            "/api/call": ("POST", self._stream_call),
            "/api/questions": ("GET", self._stream_questions),
            "/api/answer": ("POST", self._answer_question),
            "/api/roots": ("POST", self._exchange_roots),
            "/api/steer": ("POST", self._control),
            "/api/reload": ("POST", self._reload_config),
        }

    def close(self) -> None:
        """End every stream, and the subscriptions to the event bus."""
        if self._host.hooks.confirm == self._questions.confirm:
            self._host.hooks.confirm = self._host.rules.confirm = None
        self.streams.close()
        self.recorder.close()
        self.history.close()

    async def answer(self, endpoint: Endpoint, request: HttpRequest) -> Response:
        """Return the response of an endpoint, or the response for its error. The status is 404 if
        the error is NotFound, 400 for a mistake in the request, and 409 for any other error."""
        try:
            return await endpoint(request)
        except ExthostError as error:
            if isinstance(error, NotFound):
                status = 404
            else:
                status = 400 if isinstance(error, UsageError) else 409
            return _respond_json({"error": error_as_data(error)}, status)

    # -- reading -----------------------------------------------------------------------------

    async def _describe_host(self, _: HttpRequest) -> Response:
        host = await self._requests.perform(protocol.ControlRequest("hello"), _NoEvents())
        return _respond_json({"host": host})

    async def _stream_rows(self, _: HttpRequest) -> Response:
        return EventStreamResponse(self.sampler.follow(), self.streams)

    async def _describe_extension(self, request: HttpRequest) -> Response:
        extension = self._host[request.query_params.get("name", "")]
        self.recorder.watch(extension.id)
        return _respond_json(describe(extension, self._report, self.history))

    async def _read_log(self, request: HttpRequest) -> Response:
        name = request.query_params.get("name", "")
        names = [self._host[name].id] if name else [each.id for each in self._host.extensions]
        # In a thread, because a host may have many logs.
        lines = await asyncio.to_thread(read_tails, self._find_log, names)
        return _respond_json({"lines": lines})

    def _find_log(self, name: str) -> str:
        return log_file(os.environ, self._config_key, name)

    async def _export_trace(self, request: HttpRequest) -> Response:
        """Return the recorded messages of an extension, or of all, as a file for `exthost
        replay`."""
        name = request.query_params.get("name", "")
        buffer = self.recorder.find(self._host[name].id if name else "")
        if buffer is None:
            raise _invalid_request_error("nothing was recorded: a page records what it shows")
        lines = LineMaker(self._host.traffic.dialects)
        body = b"".join(lines.lines(record) for record in buffer.after(buffer.start))
        return Response(body, media_type="application/jsonl")

    # -- traffic -----------------------------------------------------------------------------

    async def _record_messages(self, request: HttpRequest) -> Response:
        """Record the messages of an extension for some time, because a page displays them."""
        self.recorder.watch(self._host[request.query_params.get("name", "")].id)
        return _respond_json({})

    async def _stream_traffic(self, request: HttpRequest) -> Response:
        name = request.query_params.get("name", "")
        if name:
            name = self._host[name].id
        search = request.query_params.get("search", "")
        return EventStreamResponse(follow_traffic(self.recorder, name, search), self.streams)

    async def _read_record(self, request: HttpRequest) -> Response:
        name = request.query_params.get("name", "")
        number = int(_read_number(request, "number"))
        record = whole_record(self.recorder.find(name), number)
        if record is None:
            raise _invalid_request_error("this frame is not kept any more")
        return _respond_json(record)

    async def _list_call_records(self, request: HttpRequest) -> Response:
        """Return the messages of one call, which is found by its extension and its times."""
        name = self._host[request.query_params.get("name", "")].id
        is_answered = request.query_params.get("outcome") in ("result", "error")
        records = records_of_call(
            self.recorder.find(name),
            _read_number(request, "from"),
            _read_number(request, "to"),
            is_answered=is_answered,
        )
        # The same form as a batch of `/api/traffic`, so that the page displays both alike.
        return _respond_json({"records": records, "dropped": 0})

    # -- control and calls -------------------------------------------------------------------

    async def _control(self, request: HttpRequest) -> Response:
        body = await _read_body(request)
        verb = str(body.get("verb"))
        if verb not in _CONTROL_VERBS:
            raise _invalid_request_error("verb is one of start, stop and restart")
        command = protocol.ControlRequest(verb, str(body.get("name", "")))
        return _respond_json(await self._requests.perform(command, _NoEvents()))

    async def _reload_config(self, request: HttpRequest) -> Response:
        await _read_body(request)  # raises unless the body is JSON, which no HTML form can send
        return _respond_json(
            await self._requests.perform(protocol.ControlRequest("reload"), _NoEvents())
        )

    async def _stream_call(self, request: HttpRequest) -> Response:
        """Make the call of a tool or a method that the body describes. The response is a stream of
        its events, which ends with the result."""
        body = await _read_body(request)
        name = str(body.get("extension", ""))
        extension = self._host[name].id  # raises NotFound if there is no such extension
        self.recorder.watch(extension)  # the page shows the messages of the call
        timeout = body.get("timeout")
        # Not `isinstance`: `true` is an int in Python.
        if timeout is not None and not (type(timeout) in (int, float) and timeout > 0):
            raise _invalid_request_error("timeout must be a number of seconds, more than 0")
        params: dict[str, Any] = {"arguments": body.get("arguments"), "timeout": timeout}
        if body.get("method") is not None:
            # "if_any": the events are streamed if the method has a stream.
            params |= {"method": str(body["method"]), "stream": "if_any", "log": True}
        else:
            params |= {"tool": str(body.get("tool", "")), "progress": True, "log": True}
            params["confirm"] = True
            params["context"] = trace_context(request.headers)
        command = protocol.ControlRequest("call", name, params)
        events = call_events(
            self._host, self._requests, command, self._questions, self._server_requests
        )
        return EventStreamResponse(events, self.streams)

    async def _stream_questions(self, _: HttpRequest) -> Response:
        return EventStreamResponse(self._questions.follow(), self.streams)

    async def _answer_question(self, request: HttpRequest) -> Response:
        body = await _read_body(request)
        self._questions.answer(body.get("question"), body.get("agreed"), body.get("value"))
        return _respond_json({})

    async def _exchange_roots(self, request: HttpRequest) -> Response:
        """Return the roots that an MCP server gets from the page. If the body has `roots`, replace
        them first, and notify the server."""
        body = await _read_body(request)
        extension = self._host[str(body.get("name", ""))]
        roots = body.get("roots")
        if roots is not None:
            if not isinstance(roots, list) or len(roots) > _MAX_ROOTS:
                raise _invalid_request_error(f"roots is a list of at most {_MAX_ROOTS} URIs")
            if not all(isinstance(uri, str) and uri.startswith("file://") for uri in roots):
                raise _invalid_request_error("a root is a URI that begins with file://")
            self._server_requests.roots[extension.id] = roots
            await extension.notify("notifications/roots/list_changed")
        return _respond_json({"roots": list(self._server_requests.roots.get(extension.id, ()))})


class _NoEvents:
    """An `EventSender` that drops events, for requests that send no events."""

    ask = None

    def send_or_drop(self, event: Mapping[str, Any]) -> None:
        pass

    async def send(self, event: Mapping[str, Any]) -> None:
        pass


def _respond_json(value: Any, status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")


def _read_number(request: HttpRequest, name: str) -> float:
    try:
        number = float(request.query_params.get(name, ""))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _invalid_request_error(f"{name} must be a number")
    return number


async def _read_body(request: HttpRequest) -> dict[str, Any]:
    """Return the JSON object in the body of a request. Raises UsageError."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if content_type != "application/json":
        raise _invalid_request_error("the body must be application/json")
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise _invalid_request_error(f"the body is over {MAX_BODY_BYTES} bytes")
    except ClientDisconnect:
        raise _invalid_request_error("the body was cut off") from None
    try:
        value = jsontext.decode(body)
    except ValueError:
        raise _invalid_request_error("the body is not JSON") from None
    if not isinstance(value, dict):
        raise _invalid_request_error("the body must be an object")
    return value


def _invalid_request_error(reason: str) -> UsageError:
    return UsageError("X1395", f"the host does not understand this request: {reason}")


# At most this many bytes of a log are read, and this many of its lines returned.
TAIL_BYTES = 64 * 1024
MAX_LINES = 300


class LogLineText(NamedTuple):
    """One line of a log."""

    time: str
    level: str
    source: str
    text: str


def read_tail(path: str) -> list[dict[str, str]]:
    """Return the last lines of a log, the oldest first; empty if there is no log. The lines may
    begin in the previous, rotated file."""
    file = Path(path)
    current = _read_end(file, TAIL_BYTES)
    rotated = _read_end(rotated_path(file), TAIL_BYTES - len(current))
    lines = (rotated + current).decode("utf-8", "replace").split("\n")[:-1]
    return [_parse_line(line)._asdict() for line in lines[-MAX_LINES:]]


def read_tails(find_log: Callable[[str], str], names: Sequence[str]) -> list[dict[str, str]]:
    """Return the last lines of the logs of these extensions, each with its extension, in the order
    of their times."""
    lines = [{"extension": name, **line} for name in names for line in read_tail(find_log(name))]
    lines.sort(key=lambda line: line["time"])
    return lines[-MAX_LINES * 10 :]  # those of ten full logs


def _read_end(file: Path, limit: int) -> bytes:
    """Return the last whole lines of a file, at most `limit` bytes; empty if it cannot be read."""
    if limit <= 0:
        return b""
    try:
        with file.open("rb") as log:
            size = os.fstat(log.fileno()).st_size
            log.seek(max(0, size - limit))
            tail = log.read(limit)
    except OSError:
        return b""
    # If only a part was read, it may begin within a line, which is left out.
    return tail if size <= limit else tail[tail.find(b"\n") + 1 :]


def _parse_line(line: str) -> LogLineText:
    fields = (*line.split(" ", 3), "", "", "")  # fields that are missing are ""
    return LogLineText(*fields[:4])
