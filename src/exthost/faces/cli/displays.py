"""The displays of `exthost run`: lines for a log, JSON for a program, or a live table for a person.

A display only subscribes to events. If the reader of its output stops reading or closes the pipe,
the host is neither delayed nor ended (see `nonblocking_writer.py`).
"""

import asyncio
import os
import sys
import time
from functools import partial
from typing import Any, Protocol

from exthost import events
from exthost.faces.cli.common import (
    Args,
    escape_message,
    json_line,
    json_text,
    remember_shown_line,
    require_config_path,
)
from exthost.faces.cli.event_lines import event_line
from exthost.faces.cli.logs import last_lines
from exthost.faces.cli.nonblocking_writer import STDERR, STDOUT, NonblockingWriter
from exthost.host.control.status_report import StatusReport
from exthost.host.host import Host


class Display(Protocol):
    """Prints the events of a host in one form."""

    def say(self, text: str) -> None:
        """Print a message of `run` itself, which is not an event."""

    async def flush(self) -> None:
        """Wait until the messages so far are written, for a limited time."""

    def close(self) -> None:
        """Stop printing."""


def choose_display(args: Args, host: Host, report: StatusReport) -> Display:
    """Return the display for these options: JSON with --json, no events with --quiet, a live table
    if stderr is a terminal and the package rich is installed, and otherwise lines."""
    if args.json:
        return JsonDisplay(host)
    if args.quiet:
        return QuietDisplay()
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        try:
            from exthost.faces.cli.live_table import LiveTable
        except ImportError:  # without rich
            pass
        else:
            read_log = partial(last_lines, require_config_path(args))
            # With --mcp-stdio an MCP client writes messages to stdin, which must not be read as
            # keys.
            return LiveTable(host, report, read_log, has_keys=not args.mcp_stdio)
    return LineDisplay(host)


class LineDisplay:
    """Writes each event that a person wants to see as a line to stderr."""

    def __init__(self, host: Host) -> None:
        self._stderr = NonblockingWriter(STDERR)
        host.events.subscribe(
            (
                events.StateChanged,
                events.Exited,
                events.ProcessLost,
                events.ManifestChanged,
                events.LogLine,
            ),
            self._show,
        )

    def _show(self, event: Any) -> None:
        if isinstance(event, events.LogLine):
            remember_shown_line(event.text)  # an error with the last lines does not repeat it
        self.say(event_line(event))

    def say(self, text: str) -> None:
        self._stderr.write(escape_message(text) + "\n")

    async def flush(self) -> None:
        await asyncio.to_thread(self._stderr.wait_until_written)

    def close(self) -> None:
        self._stderr.close()


class QuietDisplay:
    """Writes messages of `run` itself to stderr, and no events."""

    def __init__(self) -> None:
        self._stderr = NonblockingWriter(STDERR)

    def say(self, text: str) -> None:
        self._stderr.write(escape_message(text) + "\n")

    async def flush(self) -> None:
        await asyncio.to_thread(self._stderr.wait_until_written)

    def close(self) -> None:
        self._stderr.close()


class JsonDisplay:
    """Writes each event as a line of JSON to stdout, and messages of `run` itself to stderr."""

    EVENTS = (
        events.StateChanged,
        events.Spawned,
        events.Exited,
        events.ProcessLost,
        events.OfferChanged,
        events.Quarantined,
        events.LockMismatch,
        events.ManifestChanged,
        events.LogLine,
        events.Dropped,
        events.SinkFailed,
    )

    def __init__(self, host: Host) -> None:
        self._stdout = NonblockingWriter(
            STDOUT, format_dropped=lambda count: json_text({"event": "Lost", "times": count})
        )
        self._stderr = NonblockingWriter(STDERR)
        host.events.subscribe(self.EVENTS, self._show)

    def _show(self, event: Any) -> None:
        record = {"event": type(event).__name__, "time": time.time(), **event._asdict()}
        self._stdout.write(json_line(record).decode())

    def say(self, text: str) -> None:
        self._stderr.write(escape_message(text) + "\n")

    async def flush(self) -> None:
        await asyncio.to_thread(self._stderr.wait_until_written)

    def close(self) -> None:
        self._stdout.close()
        self._stderr.close()
