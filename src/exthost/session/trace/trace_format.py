"""The file format of a trace: one JSON object per line. This module does no I/O.

The first line is a header: it names the format, its version, an extension and its dialect. Another
header comes before the first record of each further extension. Every other line is a record:

    {"format": "exthost-trace", "version": 1, "extension": "text", "dialect": "morphir"}
    {"time": 1763235230.1, "extension": "text", "kind": "request", "direction": "sent", …}

A line that cannot be read is an error and is not skipped, because the rest of a damaged file cannot
be trusted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exthost.errors import Evidence, UsageError
from exthost.session.trace.record import TraceRecord
from exthost.wire import jsontext

FORMAT = "exthost-trace"
VERSION = 1


class LineMaker:
    """Makes the lines of a trace. `dialects` has the dialect of each extension by its id. The
    mapping may change meanwhile."""

    def __init__(self, dialects: Mapping[str, str]) -> None:
        self._dialects = dialects
        # The dialect in the last header of each extension, by its id.
        self._header_dialects: dict[str, str] = {}

    def lines(self, record: TraceRecord) -> bytes:
        """Return the line of a record, with a header before it if its extension has none yet or has
        changed its dialect."""
        line = record_line(record)
        extension = record.extension
        dialect = self._dialects.get(extension, "")
        if self._header_dialects.get(extension) != dialect:
            self._header_dialects[extension] = dialect
            return header_line(extension, dialect) + line
        return line


def header_line(extension: str, dialect: str) -> bytes:
    """Return the line that begins the records of an extension."""
    header = {"format": FORMAT, "version": VERSION, "extension": extension, "dialect": dialect}
    return jsontext.escape_terminal_controls(jsontext.encode(header)) + b"\n"


def record_line(record: TraceRecord) -> bytes:
    """Return the line of a record. Data that cannot be encoded as JSON is written as its `repr`.
    The line contains nothing that controls a terminal, since users look at traces there."""
    try:
        line = jsontext.encode(record.as_dict())
    except UsageError:  # nested too deeply, or an object of a dialect
        line = jsontext.encode(record._replace(data=repr(record.data)[:4096]).as_dict())
    return jsontext.escape_terminal_controls(line) + b"\n"


@dataclass(frozen=True, slots=True)
class Recording:
    """A trace that was read from a file.

    path      the path of the file
    dialects  the dialect of each extension by its id, in the order of the headers
    records   the records, in their order
    """

    path: str
    dialects: Mapping[str, str]
    records: tuple[TraceRecord, ...] = field(repr=False)


def read_recording(lines: Iterable[bytes], path: str) -> Recording:
    """Return the recording in these lines, each with its newline. `path` is for error messages.
    Raises UsageError if the recording cannot be read."""
    dialects: dict[str, str] = {}
    records = []
    for number, line in enumerate(lines, 1):
        is_first = number == 1
        data = _parse_line(line, path, number)
        if is_first and "format" not in data:
            raise _unreadable_error(path, number, "the first line is not a header")
        if "format" in data:
            extension, dialect = _read_header(data, path, number)
            dialects[extension] = dialect
            continue
        try:
            records.append(TraceRecord.from_dict(data))
        except ValueError as error:
            raise _unreadable_error(path, number, str(error)) from None
    if not dialects:
        raise _unreadable_error(path, 1, "it is empty")
    return Recording(path, dialects, tuple(records))


def _parse_line(line: bytes, path: str, number: int) -> dict[str, Any]:
    try:
        data = jsontext.decode(line)
    except jsontext.NotJson as error:
        if number > 1 and not line.endswith(b"\n"):
            reason = "the last line is cut: it was not written whole"
            raise _unreadable_error(path, number, reason) from None
        raise _unreadable_error(path, number, str(error)) from None
    if not isinstance(data, dict):
        raise _unreadable_error(path, number, "a line is a JSON object")
    return data


def _read_header(data: Mapping[str, Any], path: str, number: int) -> tuple[str, str]:
    if data["format"] != FORMAT:
        raise _unreadable_error(path, number, f"its format is {data['format']!r}")
    if data.get("version") != VERSION:
        raise UsageError(
            "X1385",
            f"the recording has version {data.get('version')!r} of the format, and this is "
            f"version {VERSION}",
            help="use the version of exthost that recorded it, or record it again",
            evidence=Evidence(path=path, line=number),
        )
    extension, dialect = data.get("extension"), data.get("dialect")
    if not isinstance(extension, str) or not isinstance(dialect, str):
        raise _unreadable_error(path, number, "a header names an extension and its dialect")
    return extension, dialect


def _unreadable_error(path: str, number: int, reason: str) -> UsageError:
    return UsageError(
        "X1384",
        f"this is not a recording that can be read: line {number}: {reason}",
        help="record with exthost trace --save FILE, or with --trace FILE; remove a cut last line "
        "to use what is before it",
        evidence=Evidence(path=path, line=number),
    )
