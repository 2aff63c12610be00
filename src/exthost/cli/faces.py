"""What `run` shows of what happens: lines for a log, JSON for a program, a table for a person.

They look on, and cannot harm: whoever closes our stderr or leaves a terminal does not end the
host, so what cannot be shown is let go.
"""

import logging
import sys
import time
from typing import Any, Protocol, Self

from exthost.cli.frame import Asked, say, show_json, visible
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


class Heard(logging.Handler):
    """Warnings of the host's own, shown as what `run` says. What extensions say comes as events."""

    def __init__(self, face: Face) -> None:
        super().__init__(logging.WARNING)
        self._face = face
        self.addFilter(lambda record: record.name != "exthost.extensions")

    def emit(self, record: logging.LogRecord) -> None:
        self._face.say(f"{record.levelname.lower()}: {record.getMessage()}")

    def __enter__(self) -> Self:
        logging.getLogger("exthost").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("exthost").removeHandler(self)


def face_for(asked: Asked, host: Host, report: Report) -> Face:
    """The face that fits whoever looks."""
    if asked.json:
        return Json(host)
    if sys.stderr.isatty():
        try:
            from exthost.cli.live import LiveTable
        except ImportError:  # without rich
            pass
        else:
            return LiveTable(host, report)
    return Lines(host)


def line_of(event: Any) -> str:
    """An event as a line for a person; "" for those that would only tire one."""
    if isinstance(event, LogLine):
        return f"[{event.extension}] {event.text}"
    if isinstance(event, StateChanged):
        why = f" ({event.reason})" if event.reason else ""
        return f"{event.extension}: {event.after}{why}"
    if isinstance(event, Exited):
        return f"{event.extension}: process {event.pid} {event.status}"
    if isinstance(event, ManifestChanged):
        return f"{event.extension}: manifest {event.change}: {event.path} ({event.note})"
    return ""


class Lines:
    """Each happening a line on stderr."""

    def __init__(self, host: Host) -> None:
        host.events.subscribe(
            (StateChanged, Exited, ManifestChanged, LogLine), lambda one: self.say(line_of(one))
        )

    def say(self, text: str) -> None:
        try:
            say(visible(text))
        except OSError:
            pass

    def close(self) -> None:
        pass


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
        host.events.subscribe(self.KINDS, self._show)

    def _show(self, event: Any) -> None:
        try:
            show_json({"event": type(event).__name__, "time": time.time(), **event._asdict()})
        except OSError:
            pass

    def say(self, text: str) -> None:
        try:
            say(visible(text))
        except OSError:
            pass

    def close(self) -> None:
        pass
