"""Selects the messages of one process from a recording, and converts records to messages.

A recording is a trace: a file of records, each of which is a message between a host and an
extension, a line of stderr or an event. `exthost replay` replays the messages of one process, its
`Script`. Does no I/O.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from exthost.errors import Evidence, UsageError
from exthost.model.messages import Failure, Id, Message, Notification, Reply
from exthost.model.messages import Request as RequestMessage
from exthost.session.trace.record import TraceRecord
from exthost.session.trace.trace_format import Recording


@dataclass(frozen=True, slots=True)
class Script:
    """The recorded session of one process.

    extension  the id of the extension
    dialect    the name of its dialect (the protocol that it speaks)
    pid        the recorded process
    records    the messages in both directions, noise (output that is not a message) and lines of
               stderr, in their order
    has_ended  whether the exit of the process was recorded
    """

    extension: str
    dialect: str
    pid: int
    records: tuple[TraceRecord, ...]
    has_ended: bool


def find_script(recording: Recording, extension: str = "", pid: int = 0) -> Script:
    """Return the session to replay.

    `extension` is the id of the extension; "" means the only extension in the recording. `pid` is
    the process; 0 means the last process whose start was recorded and that sent something, or else
    the last process whose start was recorded. Raises UsageError if the recording has no such
    session.
    """
    extension = _find_extension(recording, extension)
    records = [record for record in recording.records if record.extension == extension]
    sent_something = {record.pid for record in records if record.direction == "received"}
    started = [record.pid for record in records if record.kind == "spawned"]
    if pid and pid not in started:
        raise _no_session_error(recording, f"process {pid} of {extension} does not begin in it")
    candidates = [pid for pid in started if pid in sent_something] or started
    if not candidates:
        raise _no_session_error(recording, f"no session of {extension} begins in it")
    pid = pid or candidates[-1]
    return Script(
        extension,
        recording.dialects[extension],
        pid,
        tuple(_select_records(records, pid)),
        any(record.kind == "exited" and record.pid == pid for record in records),
    )


def _find_extension(recording: Recording, extension: str) -> str:
    """Return the id of the extension to replay. Raises UsageError if it is not clear which."""
    dialects = [name for name in recording.dialects if name]
    if extension:
        if extension not in dialects:
            raise UsageError(
                "X1388",
                f"the recording has no extension {extension!r}",
                help=f"its extensions are: {', '.join(dialects)}",
                evidence=Evidence(path=recording.path),
            )
        return extension
    if len(dialects) != 1:
        raise UsageError(
            "X1387",
            f"the recording has several extensions: {', '.join(dialects)}",
            help="name one: exthost replay FILE --name NAME",
            evidence=Evidence(path=recording.path),
        )
    return dialects[0]


def _select_records(records: list[TraceRecord], pid: int) -> Iterator[TraceRecord]:
    """Yield the messages of a process, and the lines of stderr between its start and its exit.
    Records of stderr do not have a pid."""
    is_running = False
    for record in records:
        if record.kind in ("spawned", "exited"):
            is_running = record.pid == pid and record.kind == "spawned"
        elif record.kind == "stderr":
            if is_running:
                yield record
        elif record.pid == pid and (record.is_message or record.kind == "noise"):
            yield record


def _no_session_error(recording: Recording, reason: str) -> UsageError:
    return UsageError(
        "X1388",
        f"the recording has no session to replay: {reason}",
        help="begin the trace before the process: use --trace, or exthost restart NAME meanwhile",
        evidence=Evidence(path=recording.path),
    )


def make_message(record: TraceRecord, id: Id | None) -> Message:
    """Return the message of a record, with `id` in place of the recorded id."""
    match record.kind:
        case "request":
            return RequestMessage(record.method, record.data, id)
        case "notification":
            return Notification(record.method, record.data)
        case "failure":
            error: Any = record.data if isinstance(record.data, dict) else {}
            message = str(error.get("message", ""))
            return Failure(id, message, error.get("code"), error.get("data"))
    return Reply(id, record.data)


def as_record(message: Message, method: str = "") -> TraceRecord:
    """Return a message as a record, for a comparison or a description; its time is 0, and its
    extension "". `method` is the method of the request that a reply answers; "" if it is
    unknown."""
    match message:
        case RequestMessage(method, params, id):
            return TraceRecord(0, "", "request", id=id, method=method, data=params)
        case Notification(method, params):
            return TraceRecord(0, "", "notification", method=method, data=params)
        case Failure(id, text, code, data):
            error = {"code": code, "message": text}
            if data is not None:
                error["data"] = data
            return TraceRecord(0, "", "failure", id=id, method=method, data=error)
        case Reply(id, result):
            return TraceRecord(0, "", "reply", id=id, method=method, data=result)
