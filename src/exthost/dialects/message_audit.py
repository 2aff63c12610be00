"""Checks every message that an extension sends against the rules of its dialect.

The host accepts many mistakes: it skips stray lines, reads a reply without `jsonrpc`, and drops a
reply that nobody asked for. An author wants to know of each. Pure: frames go in, problems come out.
"""

import ast
import json
from typing import Any, NamedTuple

from exthost.dialects.conformance import Conformance
from exthost.messages import Id, Incoming, Message, Noise
from exthost.wire.framing import Broken, Bytes, Skipped
from exthost.wire.lines import BOM

_SHOWN_CHARACTERS = 60

# A message has one of these members.
_MEMBERS = frozenset({"method", "id", "result", "error"})


class Problem(NamedTuple):
    """A broken rule, by the rule's name; what was seen, and the bytes that show it."""

    rule: str
    message: str
    data: bytes = b""


class NotFiniteError(ValueError):
    """JSON text with NaN or Infinity."""


class MessageAudit:
    """The audit of one process's output."""

    def __init__(self, conformance: Conformance) -> None:
        self._conformance = conformance
        self._asked: dict[Id, str] = {}
        self._answered: set[Id] = set()
        self._is_first = True
        self._inside_object = False  # of a message that was written over several lines

    def add_request(self, id: Id, method: str) -> None:
        """Note that a request was sent."""
        self._asked[id] = method

    def check_bytes(self, data: bytes) -> list[Problem]:
        """Check the first bytes of the output."""
        is_first, self._is_first = self._is_first, False
        if is_first and data.startswith(BOM):
            return [Problem("byte-order-mark", "the output begins with EF BB BF", data[:16])]
        return []

    def check_item(self, item: Skipped | Broken) -> Problem:
        """Return the problem of bytes that are no frame."""
        if isinstance(item, Broken):
            if "over the limit" in item.why:
                return Problem("message-size", item.why, item.head)
            return Problem("frame", f"the output cannot be read any further: {item.why}", item.head)
        if item.why == "too long":
            return Problem("message-size", f"a message has over {item.size:,} bytes", item.head)
        return Problem(
            "stdout-noise", f"a line on stdout is no message: {_cut(item.head)}", item.head
        )

    def check_frame(self, frame: Bytes, incoming: Incoming) -> list[Problem]:
        """Return what is wrong with a frame, which the dialect has read as `incoming`."""
        data = bytes(frame)
        if not self._conformance.is_json:
            return []
        value, problem = self._parse(data)
        if problem is not None:
            return [problem]
        problems: list[Problem] = []
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                problems += self._check_object(item, data, incoming)
            else:
                problems.append(Problem("json", f"it is not an object: {_cut(data)}", data))
        return problems

    def _parse(self, data: bytes) -> tuple[Any, Problem | None]:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            bad = data[error.start : error.start + 1].hex().upper()
            why = f"byte {error.start} ({bad}) is not UTF-8: {_cut(data)}"
            return None, Problem("utf8", why, data)
        try:
            value = json.loads(text.lstrip("\ufeff"), parse_constant=_refuse_constant)
        except NotFiniteError as error:
            return None, Problem("number", f"{error} is not JSON: {_cut(data)}", data)
        except RecursionError:
            return None, Problem("json", "it is nested too deep to be read", data)
        except ValueError as error:
            return None, self._not_json(text, data, error)
        self._inside_object = False
        return value, None

    def _not_json(self, text: str, data: bytes, error: ValueError) -> Problem:
        shown = text.strip()
        if self._inside_object or _is_cut_short(shown, error):
            self._inside_object = shown != "}"
            return Problem("one-line", f"a line holds a part of a message: {_cut(data)}", data)
        if shown[:1] not in ("{", "["):
            return Problem("stdout-noise", f"a line on stdout is no message: {_cut(data)}", data)
        if _is_python(shown):
            why = f"it is Python's notation and not JSON: {_cut(data)}"
            return Problem("json", why, data)
        return Problem("json", f"it is no JSON ({error}): {_cut(data)}", data)

    def _check_object(
        self, message: dict[str, Any], data: bytes, incoming: Incoming
    ) -> list[Problem]:
        if not _MEMBERS & message.keys():  # a log in JSON
            return [Problem("stdout-noise", f"a line on stdout is no message: {_cut(data)}", data)]
        problems = []
        if self._conformance.has_version and message.get("jsonrpc") != "2.0":
            had = "jsonrpc" in message
            why = f"jsonrpc is {message['jsonrpc']!r}" if had else "a message has no jsonrpc"
            problems.append(Problem("version-member", why, data))
        if "method" in message:
            if isinstance(incoming, Noise):
                problems.append(Problem("json", f"it is no message: {incoming.why}", data))
            return problems
        if (problem := self._check_id(message, data)) is not None:
            problems.append(problem)
        if (problem := self._check_outcome(message, data)) is not None:
            problems.append(problem)
        return problems

    def _check_id(self, message: dict[str, Any], data: bytes) -> Problem | None:
        id = message.get("id")
        if id is None:
            if isinstance(message.get("error"), dict):
                return None  # JSON-RPC answers so what it could not read
            return Problem("reply-id", f"a response has no id: {_cut(data)}", data)
        known = type(id) in (int, str) and id in self._asked
        if not known:
            meant = next(
                (asked_id for asked_id in self._asked if _is_written_as(id, asked_id)), None
            )
            if meant is not None:
                self._answered.add(meant)
                why = f"the request has the id {meant!r}, and its response {id!r}"
                return Problem("reply-id-type", why, data)
            unanswered = [asked_id for asked_id in self._asked if asked_id not in self._answered]
            waiting = f"; unanswered: {', '.join(map(repr, unanswered[-4:]))}" if unanswered else ""
            why = f"a response has the id {id!r}, which no request had{waiting}"
            return Problem("reply-id", why, data)
        if id in self._answered:
            why = f"the request {id!r} ({self._asked[id]}) is answered a second time"
            return Problem("reply-once", why, data)
        self._answered.add(id)
        return None

    def _check_outcome(self, message: dict[str, Any], data: bytes) -> Problem | None:
        has_result, error = "result" in message, message.get("error")
        if has_result and error is not None:
            return Problem("reply-form", "a response has both a result and an error", data)
        if not has_result and "error" not in message:
            others = ", ".join(key for key in message if key not in ("id", "jsonrpc"))
            has = f"; it has: {_cut(others.encode())}" if others else ""
            return Problem("reply-form", f"a response has neither result nor error{has}", data)
        if error is None:
            return None
        form = self._conformance.error_form
        if form == "text" and not isinstance(error, str):
            return Problem("error-form", f"an error is text, and here it is {_kind(error)}", data)
        if form == "object":
            why = _error_problem(error)
            return Problem("error-form", why, data) if why else None
        return None


def explain_violation(why: str, frame: bytes) -> Problem:
    """Return the problem of a frame that ends the session."""
    at = frame.lower().find(b"content-length:")
    if at > 0:
        why = f"a frame announces {len(frame)} bytes, and the next one begins after {at} of them"
    return Problem("frame", why, frame)


def is_message(incoming: Incoming) -> bool:
    """Return whether a frame was read as a message of the dialect."""
    return isinstance(incoming, Message) or type(incoming) is tuple


def _refuse_constant(name: str) -> Any:
    raise NotFiniteError(name)


def _is_cut_short(text: str, error: ValueError) -> bool:
    """Return whether a text is the beginning of a JSON object."""
    if not isinstance(error, json.JSONDecodeError) or text[:1] not in ("{", "["):
        return False
    return error.pos >= len(error.doc.rstrip()) and not _is_python(text)


def _is_python(text: str) -> bool:
    try:
        return isinstance(ast.literal_eval(text), dict | list | tuple)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def _is_written_as(id: Any, request_id: Id) -> bool:
    """Return whether an id looks like that of a request and has another type."""
    return type(id) is not type(request_id) and (id == request_id or str(id) == str(request_id))


def _error_problem(error: Any) -> str:
    if not isinstance(error, dict):
        return f"an error is an object with code and message, and here it is {_kind(error)}"
    if type(error.get("code")) is not int:
        return f"the code of an error is a whole number, and here it is {error.get('code')!r}"
    if not isinstance(error.get("message"), str):
        return f"the message of an error is text, and here it is {_kind(error.get('message'))}"
    return ""


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def _cut(data: bytes) -> str:
    text = data.decode("utf-8", "backslashreplace").strip()
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")
