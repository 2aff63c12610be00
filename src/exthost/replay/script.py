"""The messages of one process in a recording, in their order. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from exthost.errors import Evidence, UsageError
from exthost.messages import Batch, Failure, Id, Incoming, Message, Noise, Notification, Reply
from exthost.messages import Request as RequestMessage
from exthost.trace.record import TraceRecord
from exthost.trace.trace_format import Recording

__all__ = ["Script", "as_record", "find_script", "message_of", "messages_in"]


@dataclass(frozen=True, slots=True)
class Script:
    """What one process was sent and sent itself. `records` are messages, noise and stderr;
    `has_ended` tells whether its exit was recorded."""

    extension: str
    dialect: str
    pid: int
    records: tuple[TraceRecord, ...]
    has_ended: bool


def find_script(recording: Recording, extension: str = "", pid: int = 0) -> Script:
    """Return the session to replay: of this extension, or of the only one, and of this process, or
    of the last whose beginning was recorded. Raises UsageError."""
    extension = _find_extension(recording, extension)
    records = [record for record in recording.records if record.extension == extension]
    spoke = {record.pid for record in records if record.direction == "received"}
    began = [record.pid for record in records if record.kind == "spawned"]
    if pid and pid not in began:
        raise _no_session(recording, f"process {pid} of {extension} does not begin in it")
    candidates = [pid for pid in began if pid in spoke] or began
    if not candidates:
        raise _no_session(recording, f"no session of {extension} begins in it")
    pid = pid or candidates[-1]
    return Script(
        extension,
        recording.dialects[extension],
        pid,
        tuple(_records_of(records, pid)),
        any(record.kind == "exited" and record.pid == pid for record in records),
    )


def _find_extension(recording: Recording, extension: str) -> str:
    dialects = [name for name in recording.dialects if name]
    if extension:
        if extension not in dialects:
            raise _no_session(
                recording, f"it has no extension {extension!r}: {', '.join(dialects)}"
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


def _records_of(records: list[TraceRecord], pid: int) -> Iterator[TraceRecord]:
    """Yield the messages of a process, and the lines of stderr while it is the one that runs."""
    runs = False
    for record in records:
        if record.kind in ("spawned", "exited"):
            runs = record.pid == pid and record.kind == "spawned"
        elif record.kind == "stderr":
            if runs:
                yield record
        elif record.pid == pid and (record.is_message or record.kind == "noise"):
            yield record


def _no_session(recording: Recording, why: str) -> UsageError:
    return UsageError(
        "X1388",
        f"the recording has no session to replay: {why}",
        help="begin the trace before the process: use --trace, or exthost restart NAME meanwhile",
        evidence=Evidence(path=recording.path),
    )


def message_of(record: TraceRecord, id: Id | None) -> Message:
    """Return the message of a record, under this id."""
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


def messages_in(incoming: Incoming) -> Iterator[Message | Noise]:
    """Yield the messages of a frame, replies in their full form."""
    if isinstance(incoming, Batch):
        for part in incoming.messages:
            yield from messages_in(part)
    elif isinstance(incoming, RequestMessage | Reply | Failure | Notification | Noise):
        yield incoming
    else:
        yield Reply(*incoming)


def as_record(message: Message, method: str = "") -> TraceRecord:
    """Return a message as a record, to be compared or shown. `method` is that of the request that
    a reply answers."""
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
