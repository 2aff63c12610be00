"""Encodes and decodes the messages on the control socket, which are lines of JSON.

    {"verb": "restart", "name": "weather"}
    {"ok": {…}}   or   {"error": {"code", "kind", "extension", "message", "help", "evidence"}}

The first line is a request of a client, the second the reply of the host. The `verb` is the name of
the request, and `name` the id of the extension. A request may also have `params` and an `id`.
Requests without an id are performed one after another. Requests with an id are performed
concurrently, and each line that belongs to a request has the id of the request:

    {"verb": "call", "name": "weather", "id": 7, "params": {"tool": "forecast", "arguments": {…}}}
    {"id": 7, "event": {"kind": "progress", …}}
    {"id": 7, "ok": {…}}
    {"verb": "cancel", "id": 7}            cancels request 7; no further line has its id

The events of a request come before its reply. With an event of the kind `question`, the host asks
the client (`questions`). The client sends the answer as a request that gets no reply. An error is
sent with all its fields, and the client raises it as an exception of the same class. This module
does no I/O.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from exthost import errors
from exthost.errors import CallFailed, Evidence, ExthostError, ProtocolViolation, UsageError
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.tool_result import ResultReader, ToolResult, tool_error
from exthost.wire import jsontext
from exthost.wire.framing import Broken, Item, Skipped
from exthost.wire.lines import too_large_error

# The maximum length of a request. It equals the maximum length of a message to an extension,
# because a request contains the arguments of a call.
REQUEST_BYTES = 64 * 2**20

# The maximum length of a reply. It is larger than the maximum length of a message, because a result
# can become longer when it is encoded as JSON once more.
REPLY_BYTES = 256 * 2**20

# The verbs that need the name of an extension.
_VERBS_WITH_NAME = frozenset({"start", "stop", "restart", "inspect", "notify"})
VERBS = (
    "status", "start", "stop", "restart", "reload", "hello", "tools", "inspect", "find", "rules",
    "call", "notify", "trace", "cancel", "answer", "gateway",
)  # fmt: skip

_EVIDENCE_FIELDS = frozenset(field.name for field in fields(Evidence))


class ControlRequest(NamedTuple):
    """A request of a client.

    verb    the name of the request, one of VERBS
    name    the id of an extension; "" for a request about every extension or about the host
    params  the parameters
    id      the id of the request; None for a request that is performed after the earlier requests
            without an id
    """

    verb: str
    name: str = ""
    params: Mapping[str, Any] = EMPTY_MAPPING
    id: int | None = None


def encode_request(request: tuple[str, str, Mapping[str, Any], int | None]) -> bytes:
    """Return the line of a request, which may be a plain tuple with the fields of `ControlRequest`.
    Raises ExthostError if the parameters cannot be encoded, or if the host would not
    read the line."""
    verb, name, params, id = request
    line: dict[str, Any] = {"verb": verb, "name": name}
    if params:
        line["params"] = params
    if id is not None:
        line["id"] = id
    try:
        text = jsontext.encode_fast(line)
    except Exception:
        # A lone surrogate, or a value of another type: `encode` handles or reports it.
        text = jsontext.encode(line)
    if len(text) > REQUEST_BYTES:  # the host would close the connection, and end its other calls
        raise too_large_error(len(text), REQUEST_BYTES, "send less at a time")
    return text + b"\n"


def read_request(item: Item) -> ControlRequest:
    """Return the request in this line. Raises UsageError if it is invalid."""
    if isinstance(item, Skipped | Broken):
        raise _invalid_request_error(f"a request is one line of at most {REQUEST_BYTES:,} bytes")
    try:
        document = jsontext.decode(item)
    except jsontext.NotJson as error:
        raise _invalid_request_error(str(error)) from None
    if not isinstance(document, dict) or document.get("verb") not in VERBS:
        raise _invalid_request_error(f"the verbs are: {', '.join(VERBS)}")
    verb, name, params = document["verb"], document.get("name", ""), document.get("params", {})
    if not isinstance(name, str) or (verb in _VERBS_WITH_NAME and not name):
        raise _invalid_request_error("which extension?")
    if not isinstance(params, dict):
        raise _invalid_request_error("params must be an object")
    id = document.get("id")
    if not (id is None or type(id) is int) or (verb == "cancel" and id is None):
        raise _invalid_request_error("an id is a whole number")
    return ControlRequest(verb, name, params, id)


def read_answer(item: Item) -> Mapping[str, Any] | None:
    """Return the params of the answer to a question. Return None for every other line."""
    try:
        fields = jsontext.decode_fast(item)  # type: ignore[arg-type] # raises if it is not a line
        is_answer = fields["verb"] == "answer" and type(fields["params"]) is dict
        return fields["params"] if is_answer else None
    except Exception:  # another request, or an invalid one
        return None


def read_cancellation(item: Item) -> int | None:
    """Return the id of the request that this line cancels. Return None for every other line."""
    if isinstance(item, Skipped | Broken) or b'"cancel"' not in bytes(item):
        return None
    try:
        request = read_request(item)
    except UsageError:  # it is reported in its turn
        return None
    return request.id if request.verb == "cancel" else None


def _invalid_request_error(reason: str) -> UsageError:
    return UsageError(
        "X1376",
        f"the host does not understand this request: {reason}",
        help="client and host may be of different versions: exthost --version",
    )


def encode_success(value: Any, id: int | None = None) -> bytes:
    """Return the line of a reply with this value. A value that JSON cannot express becomes a reply
    with an error: the client waits for a reply."""
    fields = {"ok": value} if id is None else {"id": id, "ok": value}
    try:
        return jsontext.encode_fast(fields) + b"\n"
    except Exception:
        pass  # a lone surrogate, which `encode` replaces, or a value that it reports
    try:
        return jsontext.encode(fields) + b"\n"
    except ExthostError as error:
        return encode_failure(error, id)


def encode_failure(error: ExthostError, id: int | None = None) -> bytes:
    """Return the line of a reply with this error."""
    return _encode_line({"error": error.as_dict()}, id)


def encode_event(value: Mapping[str, Any], id: int | None = None) -> bytes:
    """Return the line of an event, which is sent before the reply to its request."""
    return _encode_line({"event": value}, id)


def _encode_line(fields: dict[str, Any], id: int | None) -> bytes:
    if id is not None:
        fields["id"] = id
    return jsontext.encode(fields) + b"\n"


class HostLine(NamedTuple):
    """A line of the host: an event, or a reply with its value or its error. `id` is the id of the
    request; None for a request without an id, and for an error that refuses the connection."""

    id: int | None
    event: Mapping[str, Any] | None = None
    value: Any = None
    error: ExthostError | None = None


def read_line(line: bytes) -> HostLine:
    """Return the contents of a line of the host. Raises ProtocolViolation if it is invalid."""
    try:
        document = jsontext.decode(line)
    except jsontext.NotJson:
        document = None
    if isinstance(document, dict):
        id = document.get("id")
        if "ok" in document:
            return HostLine(id, value=document["ok"])
        if isinstance(document.get("error"), dict):
            return HostLine(id, error=read_error(document["error"]))
        if isinstance(document.get("event"), dict):
            return HostLine(id, event=document["event"])
    raise ProtocolViolation(
        "X0675",
        "the process at the host's socket is not a host of this version",
        help="stop the host, and run it with the same version as this command",
        evidence=Evidence(bytes=line[:200].decode("utf-8", "backslashreplace")),
    )


def read_outcome(line: bytes) -> Any:
    """Return the value in a reply, or raise the error in it."""
    reply = read_line(line)
    if reply.error is not None:
        raise reply.error
    return reply.value


def read_error(fields: Mapping[str, Any]) -> ExthostError:
    """Return the error in this data. The inverse of `ExthostError.as_dict`. A class of errors that
    is unknown becomes ExthostError, and unknown fields are ignored, because the host may be of
    another version."""
    error_class = getattr(errors, str(fields.get("kind")), ExthostError)
    if not (isinstance(error_class, type) and issubclass(error_class, ExthostError)):
        error_class = ExthostError
    evidence_data = fields.get("evidence")
    evidence_data = evidence_data if isinstance(evidence_data, dict) else {}
    evidence = {
        key: _freeze(value) for key, value in evidence_data.items() if key in _EVIDENCE_FIELDS
    }
    error = error_class(
        str(fields.get("code", "")),
        str(fields.get("message", "")),
        extension=str(fields.get("extension", "")),
        help=str(fields.get("help", "")),
        evidence=Evidence(**evidence),
    )
    reply = evidence_data.get("answer")
    if isinstance(error, CallFailed) and isinstance(reply, dict):
        error.error_code = reply.get("code")
        error.error_message = str(reply.get("message", ""))
        error.data = reply.get("data")
    return error


def read_tool_result(reply: Mapping[str, Any], reader: ResultReader) -> ToolResult:
    """Return the result in the reply to a call. `reader` is that of the extension's dialect."""
    if "replaced" in reply:  # by a hook, so that it is only a text
        return ToolResult.of_text(reply["raw"], is_error=reply["replaced"]["is_error"] is True)
    return ToolResult(reply["raw"], reader)


def read_tool_error(
    reply: Mapping[str, Any], result: ToolResult, tool: str, extension: str
) -> CallFailed:
    """Return the error for a result that is marked as an error, with the help and the evidence of
    the host, which are in the reply to the call. If the reply has the whole error, return that."""
    advice = read_error(reply.get("tool_error") or {})
    if isinstance(advice, CallFailed):
        return advice
    return tool_error(result, tool, extension=extension, evidence=advice.evidence, help=advice.help)


def _freeze(value: Any) -> Any:
    """Return a list as a tuple, as the fields of `Evidence` have it; any other value unchanged."""
    return tuple(value) if isinstance(value, list) else value
