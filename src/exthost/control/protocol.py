"""What is said over the socket: a line of JSON asks, a line of JSON answers, in the same order.

    {"verb": "restart", "name": "weather"}
    {"ok": {…}}   or   {"error": {"code", "kind", "extension", "message", "help", "evidence"}}

Pure. An error crosses the socket whole and is raised on the other side as what it was.
"""

from dataclasses import fields
from typing import Any, NamedTuple

from exthost import errors
from exthost.errors import Evidence, ExthostError, ProtocolViolation, UsageError
from exthost.wire import jsontext
from exthost.wire.framing import Broken, Item, Skipped

__all__ = [
    "REPLY_BYTES",
    "REQUEST_BYTES",
    "VERBS",
    "Request",
    "failure",
    "outcome",
    "question",
    "read_request",
    "success",
]

# A verb and a name: this is generous.
REQUEST_BYTES = 64 * 1024

# The status of thousands of extensions.
REPLY_BYTES = 16 * 2**20

VERBS = ("status", "start", "stop", "restart")

_EVIDENCE = frozenset(one.name for one in fields(Evidence))


class Request(NamedTuple):
    """What a client asks; without a name it is about every extension."""

    verb: str
    name: str = ""


def question(request: Request) -> bytes:
    return jsontext.encode(request._asdict()) + b"\n"


def read_request(item: Item) -> Request:
    """The request in this line. Raises UsageError."""
    if isinstance(item, Skipped | Broken):
        raise _unfit(f"a request is one line of at most {REQUEST_BYTES:,} bytes")
    try:
        asked = jsontext.decode(item)
    except jsontext.NotJson as error:
        raise _unfit(str(error)) from None
    if not isinstance(asked, dict) or asked.get("verb") not in VERBS:
        raise _unfit(f"the verbs are: {', '.join(VERBS)}")
    name = asked.get("name", "")
    if not isinstance(name, str) or not (name or asked["verb"] == "status"):
        raise _unfit("which extension?")
    return Request(asked["verb"], name)


def _unfit(why: str) -> UsageError:
    return UsageError(
        "X1376",
        f"the host does not understand this request: {why}",
        help="client and host may be of different versions: exthost --version",
    )


def success(value: Any) -> bytes:
    return jsontext.encode({"ok": value}) + b"\n"


def failure(error: ExthostError) -> bytes:
    return jsontext.encode({"error": error.as_dict()}) + b"\n"


def outcome(line: bytes) -> Any:
    """What an answer says; raises the error in it."""
    try:
        told = jsontext.decode(line)
    except jsontext.NotJson:
        told = None
    if isinstance(told, dict) and "ok" in told:
        return told["ok"]
    if isinstance(told, dict) and isinstance(told.get("error"), dict):
        raise _error(told["error"])
    raise ProtocolViolation(
        "X0675",
        "what answers at the host's socket is no host of this version",
        help="stop the host, and run it with the same version as this command",
        evidence=Evidence(bytes=line[:200].decode("utf-8", "backslashreplace")),
    )


def _error(told: dict[str, Any]) -> ExthostError:
    kind = getattr(errors, str(told.get("kind")), ExthostError)
    if not (isinstance(kind, type) and issubclass(kind, ExthostError)):
        kind = ExthostError
    seen = told.get("evidence")
    seen = seen if isinstance(seen, dict) else {}
    evidence = {key: _frozen(value) for key, value in seen.items() if key in _EVIDENCE}
    return kind(
        str(told.get("code", "")),
        str(told.get("message", "")),
        extension=str(told.get("extension", "")),
        help=str(told.get("help", "")),
        evidence=Evidence(**evidence),
    )


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
