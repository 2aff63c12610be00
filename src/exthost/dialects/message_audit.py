"""Checks every message that an extension sends against the rules of its dialect.

The host accepts many mistakes: it ignores lines that are not messages, accepts a reply without
`jsonrpc`, and ignores a reply that matches no request. `exthost check` reports each of these
mistakes to the author of the extension. This module does no I/O: it takes frames (the bytes of one
message each) and returns problems.
"""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from exthost.dialects.conformance import Conformance, Problem
from exthost.model.messages import Id, Incoming, Message, Noise
from exthost.wire.framing import Broken, Bytes, Skipped
from exthost.wire.lines import BOM

_SHOWN_CHARACTERS = 60

# How many responses without an id are kept until it is known which requests have responses, and how
# many bytes of each. A program may write them without end.
_MAX_UNDECIDED = 100
_KEPT_BYTES = 1024

# The bytes of a message that are decoded to show its first characters: they may follow white space.
_QUOTED_BYTES = 1000

# A longer text is not parsed as Python: its syntax tree would take a hundred times as much memory.
_MAX_PYTHON_CHARACTERS = 64 * 1024

# A message has at least one of these fields.
_MESSAGE_FIELDS = frozenset({"method", "id", "result", "error"})

# The advice to the author for some mistakes.
_NO_NULL_ERROR = "omit `error` from a response that has a result"
_NULL_OUTCOME = "write `result`, which may be null, after a success, and `error` after a failure"
_NO_METHOD = "omit `method` and `params` of a response: with a method it is read as a request"
_NO_REQUEST = "omit `id`: a message with a method and without an id is a notification"
_NO_NULL_MEMBER = "omit it: a notification has jsonrpc, method and params, and nothing else"
_NO_MARK = (
    "write UTF-8 without a mark (Python: utf-8, not utf-8-sig; .NET and PowerShell: "
    "UTF8Encoding with $false, which is not the default)"
)
_UTF_16 = "the output is UTF-16, with two bytes for each character, not UTF-8"
_NO_UTF_16 = (
    "write UTF-8 (PowerShell: [Console]::OutputEncoding = [Text.UTF8Encoding]::new($false); "
    'Python: sys.stdout.reconfigure(encoding="utf-8"))'
)
# The header of a Content-Length frame. It may follow a message on the same line, because such a
# message does not end with a newline.
_HEADER = re.compile(rb"(?:^|\})\s*content-length: *\d+\s*$", re.IGNORECASE)
_NO_HEADERS = "write each message as one line of JSON that ends with \\n, without headers"
_NO_BATCH = "write each response by itself, as an object on its own line"
_ENCODED_TWICE = "encode each message once: it is JSON inside a JSON text"


class NotFiniteError(ValueError):
    """JSON text contains NaN or Infinity."""


class _ResponseWithoutId(NamedTuple):
    """A response without an id, and the requests that it may answer: those without a response."""

    data: bytes  # the first bytes
    is_error: bool
    candidates: set[Id]


class MessageAudit:
    """Checks the output of one process. It remembers requests, to match replies with them."""

    def __init__(self, conformance: Conformance) -> None:
        self._conformance = conformance
        self._requests: dict[Id, str] = {}  # id → method
        self._answered: set[Id] = set()
        self._methods_with_result: set[str] = set()
        self._without_id: list[_ResponseWithoutId] = []
        self._is_first = True
        # Whether the last line was a part of a message that is written over several lines.
        self._inside_object = False

    def add_request(self, id: Id, method: str) -> None:
        """Record that a request was sent."""
        self._requests[id] = method

    def check_bytes(self, data: bytes) -> list[Problem]:
        """Check the encoding of the first bytes of the output. Later calls check nothing."""
        is_first, self._is_first = self._is_first, False
        if is_first and self._conformance.is_json and _is_utf_16(data):
            return [_utf_16_problem(data)]
        if is_first and self._conformance.is_json and data.startswith(BOM):
            reason = (
                "the output begins with a byte-order mark, EF BB BF, as Windows programs write it"
            )
            return [Problem("byte-order-mark", reason, data[:16], _NO_MARK)]
        return []

    def check_item(self, item: Skipped | Broken) -> Problem:
        """Return the problem of bytes that the framing could not read as a frame."""
        if self._conformance.is_json and _is_utf_16(item.head):
            return _utf_16_problem(item.head)
        if isinstance(item, Broken):
            if "over the limit" in item.reason:
                return Problem("message-size", item.reason, item.head)
            return Problem(
                "frame", f"the output cannot be read any further: {item.reason}", item.head
            )
        if item.reason == "too long":
            return Problem("message-size", f"a message has over {item.size:,} bytes", item.head)
        return Problem(
            "stdout-noise", f"a line on stdout is not a message: {_quote(item.head)}", item.head
        )

    def check_frame(self, frame: Bytes, incoming: Incoming) -> list[Problem]:
        """Return the problems of a frame, which the dialect decoded as `incoming`."""
        data = bytes(frame)
        if not self._conformance.is_json:
            return []
        value, problem = self._parse(data)
        if problem is not None:
            return [problem]
        problems: list[Problem] = []
        if isinstance(value, list) and any(_is_response(item) for item in value):
            # The host sends no batches, so no batch can answer it.
            problems.append(Problem("json", "a response is inside a list", data, _NO_BATCH))
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                problems += self._check_object(item, data, incoming)
            else:
                fix = _ENCODED_TWICE if _is_encoded_twice(item) else ""
                problems.append(Problem("json", f"it is not an object: {_quote(data)}", data, fix))
        return problems

    def _parse(self, data: bytes) -> tuple[Any, Problem | None]:
        """Return the JSON value of a frame, or None and the problem if it is not JSON."""
        if _is_utf_16(data):
            return None, _utf_16_problem(data)
        if data.startswith(BOM):  # the mark of the first line is not part of the frame
            reason = f"a message begins with a byte-order mark, EF BB BF: {_quote(data)}"
            return None, Problem("json", reason, data, _NO_MARK)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            bad = data[error.start : error.start + 1].hex().upper()
            reason = f"byte {error.start} ({bad}) is not UTF-8: {_quote(data)}"
            return None, Problem("utf8", reason, data)
        try:
            value = json.loads(text, parse_constant=_refuse_constant)
        except NotFiniteError as error:
            return None, Problem("number", f"{error} is not JSON: {_quote(data)}", data)
        except RecursionError:
            return None, Problem("json", "it is nested too deep to be read", data)
        except ValueError as error:
            return None, self._not_json_problem(text, data, error)
        self._inside_object = False
        return value, None

    def _not_json_problem(self, text: str, data: bytes, error: ValueError) -> Problem:
        """Return the problem of a line that is not JSON. The most likely mistake is named."""
        line = text.strip()
        if _HEADER.search(data):
            reason = "it writes Content-Length headers, and a message of this dialect is a line"
            return Problem("frame", reason, data, _NO_HEADERS)
        if self._inside_object or _is_cut_short(line, error):
            # The brace that ends a message is not indented, unlike those inside it.
            self._inside_object = text.rstrip() != "}"
            return Problem("one-line", f"a line has only a part of a message: {_quote(data)}", data)
        if line[:1] not in ("{", "["):
            reason = f"a line on stdout is not a message: {_quote(data)}"
            return Problem("stdout-noise", reason, data)
        if _is_python(line):
            reason = f"it is Python's notation, not JSON: {_quote(data)}"
            return Problem("json", reason, data)
        return Problem("json", f"it is not JSON ({error}): {_quote(data)}", data)

    def _check_object(
        self, message: dict[str, Any], data: bytes, incoming: Incoming
    ) -> list[Problem]:
        """Return the problems of one message."""
        if not _MESSAGE_FIELDS & message.keys():  # a log line in JSON, or only a result
            reason = f"a line on stdout is JSON, but not a message: {_quote(data)}"
            return [Problem("stdout-noise", reason, data, self._make_envelope_fix())]
        problems = []
        if self._conformance.has_version and message.get("jsonrpc") != "2.0":
            has_field = "jsonrpc" in message
            reason = (
                f"jsonrpc is {message['jsonrpc']!r}" if has_field else "a message has no jsonrpc"
            )
            problems.append(Problem("version-member", reason, data))
        if "method" in message:
            if message.get("result") is not None or message.get("error") is not None:
                reason = f"a response has a method as well: {_quote(data)}"
                problems.append(Problem("message-form", reason, data, _NO_METHOD))
            elif isinstance(incoming, Noise):
                is_request = isinstance(message["method"], str) and message.get("id") is not None
                fix = _NO_REQUEST if is_request else ""
                reason = f"it is not a message: {incoming.reason}"
                problems.append(Problem("message-form", reason, data, fix))
            elif isinstance(message["method"], str) and message.get("id") is None:
                problems += self._check_notification(message, data)
            return problems
        if (problem := self._check_id(message, data)) is not None:
            problems.append(problem)
        problems += self._check_responses_without_id()
        if (problem := self._check_outcome(message, data)) is not None:
            problems.append(problem)
        else:
            problems += self._check_result(message, data)
        return problems

    def _check_notification(self, message: dict[str, Any], data: bytes) -> Iterator[Problem]:
        for name in ("id", "result", "error"):
            if name in message:
                reason = f"the notification {message['method']} has a member {name}, which is null"
                yield Problem("notification-form", reason, data, _NO_NULL_MEMBER)
        if (audit := self._conformance.audit_notification) is not None:
            for problem in audit(message, self._requests):
                yield problem._replace(data=data)

    def _make_envelope_fix(self) -> str:
        version = '"jsonrpc": "2.0", ' if self._conformance.has_version else ""
        return (
            f'a response is {{{version}"id": …, "result": …}}, with the id of its request; '
            "anything else goes to stderr"
        )

    def _check_id(self, message: dict[str, Any], data: bytes) -> Problem | None:
        """Match a response with its request. Return the problem if that is not possible."""
        id = message.get("id")
        if id is None:
            # JSON-RPC requires an error without an id if a request cannot be parsed.
            is_error = isinstance(message.get("error"), dict)
            if not is_error and not self._answered:
                return _missing_id_problem(data)
            candidates = self._requests.keys() - self._answered
            if len(self._without_id) < _MAX_UNDECIDED:
                head = data[:_KEPT_BYTES]
                self._without_id.append(_ResponseWithoutId(head, is_error, candidates))
            return None
        if type(id) not in (int, str) or id not in self._requests:
            intended_id = next(
                (sent_id for sent_id in self._requests if _differs_only_in_type(id, sent_id)), None
            )
            if intended_id is not None:
                self._answered.add(intended_id)
                reason = f"the request has the id {intended_id!r}, and its response {id!r}"
                return Problem("reply-id-type", reason, data)
            unanswered = [sent_id for sent_id in self._requests if sent_id not in self._answered]
            # The last four are the likeliest, and keep the message short.
            waiting = f"; unanswered: {', '.join(map(repr, unanswered[-4:]))}" if unanswered else ""
            reason = f"a response has the id {id!r}, which no request had{waiting}"
            return Problem("reply-id", reason, data)
        if id in self._answered:
            reason = f"the request {id!r} ({self._requests[id]}) is answered a second time"
            return Problem("reply-once", reason, data)
        self._answered.add(id)
        return None

    def _check_responses_without_id(self) -> list[Problem]:
        """Return a problem for each response without an id that answers no request: all requests
        that it could answer have got responses of their own."""
        problems, undecided = [], []
        for response in self._without_id:
            if response.candidates <= self._answered:
                reason = f"a response without an id answers no request: {_quote(response.data)}"
                problems.append(Problem("notification-reply", reason, response.data))
            else:
                undecided.append(response)
        self._without_id = undecided
        return problems

    def finish(self) -> list[Problem]:
        """Return the problems that are known only at the end of the output."""
        results = [response for response in self._without_id if not response.is_error]
        self._without_id = []
        return [_missing_id_problem(response.data) for response in results]

    def _check_result(self, message: dict[str, Any], data: bytes) -> list[Problem]:
        """Return the problems of the result of a request that is known."""
        id, audit_result = message.get("id"), self._conformance.audit_result
        if "result" not in message or type(id) not in (int, str) or id not in self._requests:
            return []
        method, earlier = self._requests[id], frozenset(self._methods_with_result)
        self._methods_with_result.add(method)
        if audit_result is None:
            return []
        problems = audit_result(method, message["result"], earlier)
        return [problem._replace(data=data) for problem in problems]

    def _check_outcome(self, message: dict[str, Any], data: bytes) -> Problem | None:
        """Return the problem of a response that does not have exactly a result or a valid error."""
        has_result, error = "result" in message, message.get("error")
        if has_result and error is not None:
            return Problem("reply-form", "a response has both a result and an error", data)
        if not has_result and "error" not in message:
            other_keys = ", ".join(key for key in message if key not in ("id", "jsonrpc"))
            addition = f"; it has: {_quote(other_keys.encode())}" if other_keys else ""
            return Problem("reply-form", f"a response has neither result nor error{addition}", data)
        if error is None:
            if not has_result:
                reason = "a response has no result, and its error is null"
                return Problem("reply-form", reason, data, _NULL_OUTCOME)
            if "error" in message and not self._conformance.null_error:
                reason = "a response with a result has `error` as well, which is null"
                return Problem("error-form", reason, data, _NO_NULL_ERROR)
            return None
        form = self._conformance.error_form
        if form == "text" and not isinstance(error, str):
            return Problem(
                "error-form", f"an error is text, and here it is {_describe_type(error)}", data
            )
        if form == "object":
            reason = _describe_error_problem(error)
            return Problem("error-form", reason, data) if reason else None
        return None


def explain_violation(reason: str, frame: bytes) -> Problem:
    """Return the problem of a frame that ends the session. `reason` comes from the codec. If the
    frame contains the header of the next frame, its Content-Length is too large, and the problem
    says so instead."""
    header_offset = frame.lower().find(b"content-length:")
    if header_offset > 0:
        reason = (
            f"a frame announces {len(frame)} bytes, and the next one begins after {header_offset} "
            "of them"
        )
    return Problem("frame", reason, frame)


def _missing_id_problem(data: bytes) -> Problem:
    return Problem("reply-id", f"a response has no id: {_quote(data)}", data)


def is_message(incoming: Incoming) -> bool:
    """Return whether a frame was read as a message of the dialect."""
    return isinstance(incoming, Message) or type(incoming) is tuple


def _is_utf_16(data: bytes) -> bool:
    """Return whether bytes are text in UTF-16: they begin with its byte-order mark, or many bytes
    are zero, either all at even or all at odd positions. Both are possible, because a line that is
    cut at the byte 0A may begin with the second half of a character."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    fewer_zeros, more_zeros = sorted((data[0::2].count(0), data[1::2].count(0)))
    return len(data) > 3 and not fewer_zeros and 3 * more_zeros > len(data)


def _utf_16_problem(data: bytes) -> Problem:
    return Problem("utf8", _UTF_16, data[:16], _NO_UTF_16)


def _refuse_constant(name: str) -> Any:
    raise NotFiniteError(name)


def _is_cut_short(text: str, error: ValueError) -> bool:
    """Return whether a text is the beginning of a JSON object."""
    if not isinstance(error, json.JSONDecodeError) or text[:1] not in ("{", "["):
        return False
    return error.pos >= len(error.doc.rstrip()) and not _is_python(text)


def _is_python(text: str) -> bool:
    """Return whether a text is a Python literal, such as the output of print() for a dict."""
    if len(text) > _MAX_PYTHON_CHARACTERS:
        return False
    try:
        return isinstance(ast.literal_eval(text), dict | list | tuple)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def _is_response(value: Any) -> bool:
    return isinstance(value, dict) and "method" not in value and "id" in value


def _is_encoded_twice(value: Any) -> bool:
    """Return whether a JSON value is a text that contains a JSON object."""
    try:
        return isinstance(value, str) and isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False


def _differs_only_in_type(id: Any, request_id: Id) -> bool:
    """Return whether an id of a reply equals that of a request, except for its type."""
    return type(id) is not type(request_id) and (id == request_id or str(id) == str(request_id))


def _describe_error_problem(error: Any) -> str:
    """Return what is wrong with a JSON-RPC error object; "" if nothing is wrong."""
    if not isinstance(error, dict):
        return (
            f"an error is an object with code and message, and here it is {_describe_type(error)}"
        )
    if type(error.get("code")) is not int:
        return f"the code of an error is a whole number, and here it is {error.get('code')!r}"
    if not isinstance(error.get("message"), str):
        kind = _describe_type(error.get("message"))
        return f"the message of an error is text, and here it is {kind}"
    return ""


def _describe_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def _quote(data: bytes) -> str:
    """Return bytes as text in quotes, shortened."""
    # A batch may have a problem for each of its messages, so the time does not depend on its size.
    text = data[:_QUOTED_BYTES].decode("utf-8", "backslashreplace").strip()
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")
