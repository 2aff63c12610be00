"""What `run` shows while it runs: lines for a log, JSON for a program, a table for a person.

A display only subscribes to events. A reader who stops reading, or leaves, neither delays the host
nor ends it (see `nonblocking_writer.py`).
"""

import os
import sys
import time
from functools import partial
from typing import Any, Protocol

from exthost.cli.common import Args, escape_controls, given_config, json_text, note_shown
from exthost.cli.event_lines import event_line
from exthost.cli.logs import last_lines
from exthost.cli.nonblocking_writer import STDERR, STDOUT, NonblockingWriter
from exthost.control.status_report import StatusReport
from exthost.events import (
    Dropped,
    Exited,
    LogLine,
    ManifestChanged,
    OfferChanged,
    SinkFailed,
    Spawned,
    StateChanged,
)
from exthost.host.host import Host


class Display(Protocol):
    """One way to show what a host does."""

    def say(self, text: str) -> None:
        """Show a message of `run` itself."""

    def close(self) -> None:
        """Stop showing."""


def display_for(args: Args, host: Host, report: StatusReport) -> Display:
    """Return the display that fits the options and the terminal."""
    if args.json:
        return Json(host)
    if args.quiet:
        return Quiet()
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        try:
            from exthost.cli.live_table import LiveTable
        except ImportError:  # without rich
            pass
        else:
            read_log = partial(last_lines, given_config(args))
            # On stdin may be an MCP client, whose messages are no keys.
            return LiveTable(host, report, read_log, has_keys=not args.mcp_stdio)
    return Lines(host)


class Lines:
    """Writes each event as a line to stderr."""

    def __init__(self, host: Host) -> None:
        self._talk = NonblockingWriter(STDERR)
        host.events.subscribe((StateChanged, Exited, ManifestChanged, LogLine), self._show)

    def _show(self, event: Any) -> None:
        if isinstance(event, LogLine):
            note_shown(event.text)
        self.say(event_line(event))

    def say(self, text: str) -> None:
        self._talk.write(escape_controls(text) + "\n")

    def close(self) -> None:
        self._talk.close()


class Quiet:
    """Writes messages of `run` itself to stderr, and no events."""

    def __init__(self) -> None:
        self._talk = NonblockingWriter(STDERR)

    def say(self, text: str) -> None:
        self._talk.write(escape_controls(text) + "\n")

    def close(self) -> None:
        self._talk.close()


class Json:
    """Writes each event as a line of JSON to stdout, and messages of `run` itself to stderr."""

    KINDS = (
        StateChanged,
        Spawned,
        Exited,
        OfferChanged,
        ManifestChanged,
        LogLine,
        Dropped,
        SinkFailed,
    )

    def __init__(self, host: Host) -> None:
        self._data = NonblockingWriter(
            STDOUT, lost=lambda times: json_text({"event": "Lost", "times": times})
        )
        self._talk = NonblockingWriter(STDERR)
        host.events.subscribe(self.KINDS, self._show)

    def _show(self, event: Any) -> None:
        record = {"event": type(event).__name__, "time": time.time(), **event._asdict()}
        self._data.write(json_text(record) + "\n")

    def say(self, text: str) -> None:
        self._talk.write(escape_controls(text) + "\n")

    def close(self) -> None:
        self._data.close()
        self._talk.close()
