"""Formats the records of a trace (the messages between host and extensions) as lines of text, for
`exthost trace`, `exthost dev` and the live table of `exthost run`.

A line is, for example, `12:30:05.123 weather → tools/call #4 {"name": "forecast"} (61 B)`.
"""

import time
from typing import Any

from exthost.faces.cli.common import escape_controls
from exthost.session.trace.record import TraceRecord
from exthost.session.trace.trace_file import DROPPED_RECORDS
from exthost.wire import jsontext

# A longer line is cut. `exthost trace --json` prints whole messages.
_MAX_CHARS = 400

_ARROWS = {"sent": "→", "received": "←"}


def traffic_line(record: TraceRecord) -> str:
    """Return a record as one line."""
    time_text = time.strftime("%H:%M:%S", time.localtime(record.time))
    millis = int(record.time % 1 * 1000)
    name = f"{record.extension}@{record.node}" if record.node else record.extension
    head = f"{time_text}.{millis:03d} {name} {_ARROWS.get(record.direction, '·')}"
    return escape_controls(_truncate(f"{head} {_record_text(record)}"))


def _record_text(record: TraceRecord) -> str:
    """Return what a record is about, for the end of its line."""
    if not record.is_message:
        data: Any = record.data if isinstance(record.data, dict) else {}
        match record.kind:
            case "state":
                reason = f" ({record.text})" if record.text else ""
                return f"{data.get('before')} → {data.get('after')}{reason}"
            case "spawned":
                return f"process {record.pid} started"
            case "exited":
                return f"process {record.pid} {record.text}"
            case "dropped":
                if record.text == DROPPED_RECORDS:
                    return f"dropped: {data.get('times'):,} {record.text}"
                return f"dropped: {record.text} ({data.get('times')} so far)"
            # Output that is not a message: a frame with other text, or bytes that are not a frame.
            case "noise" | "skipped":
                return f"no message ({record.data}): {record.text}"
        return f"stderr: {record.text}"
    number = f" #{record.call}" if record.call is not None else ""
    prefixes = {"reply": "reply to ", "failure": "error from ", "notification": "note "}
    subject = f"{prefixes.get(record.kind, '')}{record.method}{number}"
    return f"{subject} {jsontext.display_text(record.data)} ({record.size:,} B)"


def _truncate(text: str) -> str:
    """Return the text as one line of at most _MAX_CHARS characters and an ellipsis."""
    line = text.replace("\n", "⏎")
    return line if len(line) <= _MAX_CHARS else f"{line[:_MAX_CHARS]}…"
