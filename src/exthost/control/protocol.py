"""The messages on the control socket: lines of JSON. Pure.

    {"verb": "restart", "name": "weather"}
    {"ok": {…}}   or   {"error": {"code", "kind", "extension", "message", "help", "evidence"}}

A request may have `params`, and an `id`. Requests without an id are answered in their order. Those
with an id are worked on at the same time, and each line that belongs to one carries its id:

    {"verb": "call", "name": "weather", "id": 7, "params": {"tool": "forecast", "arguments": {…}}}
    {"id": 7, "event": {"kind": "progress", …}}
    {"id": 7, "ok": {…}}
    {"verb": "cancel", "id": 7}            cancels request 7; no further line has its id

Events come before the answer. An error crosses the socket whole and is raised on the other side as
what it was.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from exthost import errors
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.errors import CallFailed, Evidence, ExthostError, ProtocolViolation, UsageError
from exthost.wire import jsontext
from exthost.wire.framing import Broken, Item, Skipped

__all__ = [
    "REPLY_BYTES",
    "REQUEST_BYTES",
    "VERBS",
    "HostLine",
    "Request",
    "encode_event",
    "encode_failure",
    "read_outcome",
    "read_plain_answer",
    "read_plain_call",
    "encode_request",
    "read_error",
    "read_line",
    "read_request",
    "encode_success",
]

# As much as a message to an extension may hold: arguments of a call travel in a request.
REQUEST_BYTES = 64 * 2**20

# A result of that size, written as JSON once more.
REPLY_BYTES = 256 * 2**20

# Verbs that are about one extension, those that may be, and those that are about the host.
_OF_ONE = frozenset({"start", "stop", "restart", "inspect"})
VERBS = (
    "status", "start", "stop", "restart", "reload", "hello", "tools", "inspect", "find", "call",
    "trace", "cancel",
)  # fmt: skip

# A named tuple is made by this in half the time.
_new_tuple = tuple.__new__

_EVIDENCE = frozenset(field.name for field in fields(Evidence))


class Request(NamedTuple):
    """A request of a client; without a name it is about every extension."""

    verb: str
    name: str = ""
    params: Mapping[str, Any] = EMPTY_MAPPING
    id: int | None = None


def encode_request(request: tuple[str, str, Mapping[str, Any], int | None]) -> bytes:
    """Return the line of a request."""
    verb, name, params, id = request
    line: dict[str, Any] = {"verb": verb, "name": name}
    if params:
        line["params"] = params
    if id is not None:
        line["id"] = id
    try:
        return jsontext.encode_fast(line) + b"\n"
    except Exception:  # a lone surrogate, or a value that is no data: `encode` tells
        return jsontext.encode(line) + b"\n"


def read_plain_call(item: Item) -> Request | None:
    """Return the request of the most common line, a call with an id; None for every other line."""
    try:
        members = jsontext.decode_fast(item)  # type: ignore[arg-type] # raises for what is no line
        if members["verb"] != "call":
            return None
        name, params, id = members["name"], members["params"], members["id"]
    except Exception:  # another request, or no request: `read_request` tells
        return None
    if type(id) is not int or type(name) is not str or type(params) is not dict:
        return None
    return _new_tuple(Request, ("call", name, params, id))


def read_request(item: Item) -> Request:
    """Return the request in this line. Raises UsageError."""
    if isinstance(item, Skipped | Broken):
        raise _unfit(f"a request is one line of at most {REQUEST_BYTES:,} bytes")
    try:
        document = jsontext.decode(item)
    except jsontext.NotJson as error:
        raise _unfit(str(error)) from None
    if not isinstance(document, dict) or document.get("verb") not in VERBS:
        raise _unfit(f"the verbs are: {', '.join(VERBS)}")
    verb, name, params = document["verb"], document.get("name", ""), document.get("params", {})
    if not isinstance(name, str) or (verb in _OF_ONE and not name):
        raise _unfit("which extension?")
    if not isinstance(params, dict):
        raise _unfit("params must be an object")
    id = document.get("id")
    if not (id is None or type(id) is int) or (verb == "cancel" and id is None):
        raise _unfit("an id is a whole number")
    return Request(verb, name, params, id)


def _unfit(why: str) -> UsageError:
    return UsageError(
        "X1376",
        f"the host does not understand this request: {why}",
        help="client and host may be of different versions: exthost --version",
    )


def encode_success(value: Any, id: int | None = None) -> bytes:
    """Return the line that answers a request."""
    members = {"ok": value} if id is None else {"id": id, "ok": value}
    try:
        return jsontext.encode_fast(members) + b"\n"
    except Exception:  # a lone surrogate, or a value that is no data: `encode` tells
        return jsontext.encode(members) + b"\n"


def encode_failure(error: ExthostError, id: int | None = None) -> bytes:
    """Return the line that answers a request with an error."""
    return _line({"error": error.as_dict()}, id)


def encode_event(value: Mapping[str, Any], id: int | None = None) -> bytes:
    """Return the line of something that happened while a request is worked on."""
    return _line({"event": value}, id)


def _line(members: dict[str, Any], id: int | None) -> bytes:
    if id is not None:
        members["id"] = id
    return jsontext.encode(members) + b"\n"


class HostLine(NamedTuple):
    """A line of the host, read: an event, or the answer with its value or its error."""

    id: int | None
    event: Mapping[str, Any] | None = None
    value: Any = None
    error: ExthostError | None = None


def read_line(line: bytes) -> HostLine:
    """Return what a line of the host says. Raises ProtocolViolation."""
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
        "what answers at the host's socket is no host of this version",
        help="stop the host, and run it with the same version as this command",
        evidence=Evidence(bytes=line[:200].decode("utf-8", "backslashreplace")),
    )


def read_plain_answer(line: Item) -> tuple[int, Any] | None:
    """Return the id and the value of the most common line, an answer without an error; None for
    every other line."""
    try:
        members = jsontext.decode_fast(line)  # type: ignore[arg-type] # raises for what is no line
        return members["id"], members["ok"]
    except Exception:  # another line, or no line of the host: `read_line` tells
        return None


def read_outcome(line: bytes) -> Any:
    """Return the value in an answer; raise the error in it."""
    read = read_line(line)
    if read.error is not None:
        raise read.error
    return read.value


def read_error(members: Mapping[str, Any]) -> ExthostError:
    """Return the error from the data that its `as_dict` returned."""
    kind = getattr(errors, str(members.get("kind")), ExthostError)
    if not (isinstance(kind, type) and issubclass(kind, ExthostError)):
        kind = ExthostError
    seen = members.get("evidence")
    seen = seen if isinstance(seen, dict) else {}
    evidence = {key: _frozen(value) for key, value in seen.items() if key in _EVIDENCE}
    error = kind(
        str(members.get("code", "")),
        str(members.get("message", "")),
        extension=str(members.get("extension", "")),
        help=str(members.get("help", "")),
        evidence=Evidence(**evidence),
    )
    reply = seen.get("answer")
    if isinstance(error, CallFailed) and isinstance(reply, dict):
        error.error_code = reply.get("code")
        error.error_message = str(reply.get("message", ""))
        error.data = reply.get("data")
    return error


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
