"""What `run` shows of what happens: lines for a log, JSON for a program, a table for a person.

They look on, and cannot harm: whoever does not read what we say, or leaves, neither holds up the
host nor ends it (see `spout.py`).
"""

import os
import sys
import time
from typing import Any, Protocol

from exthost.cli.event_lines import event_line
from exthost.cli.frame import Asked, json_text, visible
from exthost.cli.spout import STDERR, STDOUT, Spout
from exthost.control.report import Report
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
from exthost.host import Host


class Face(Protocol):
    """One way to show a host."""

    def say(self, text: str) -> None:
        """Something that `run` itself says."""

    def close(self) -> None:
        """Show no more."""


def face_for(asked: Asked, host: Host, report: Report) -> Face:
    """The face that fits whoever looks."""
    if asked.json:
        return Json(host)
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        try:
            from exthost.cli.live import LiveTable
        except ImportError:  # without rich
            pass
        else:
            return LiveTable(host, report)
    return Lines(host)


class Lines:
    """Each happening a line on stderr."""

    def __init__(self, host: Host) -> None:
        self._talk = Spout(STDERR)
        host.events.subscribe(
            (StateChanged, Exited, ManifestChanged, LogLine), lambda one: self.say(event_line(one))
        )

    def say(self, text: str) -> None:
        self._talk.write(visible(text) + "\n")

    def close(self) -> None:
        self._talk.close()


class Json:
    """Each event a line of JSON on stdout; what `run` itself says, on stderr."""

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
        self._data = Spout(STDOUT, lost=lambda times: json_text({"event": "Lost", "times": times}))
        self._talk = Spout(STDERR)
        host.events.subscribe(self.KINDS, self._show)

    def _show(self, event: Any) -> None:
        told = {"event": type(event).__name__, "time": time.time(), **event._asdict()}
        self._data.write(json_text(told) + "\n")

    def say(self, text: str) -> None:
        self._talk.write(visible(text) + "\n")

    def close(self) -> None:
        self._data.close()
        self._talk.close()
