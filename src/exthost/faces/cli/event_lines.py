"""Formats the events of a host as lines of text, such as "weather: ready", for the output of
`exthost run`."""

from typing import Any

from exthost.events import Exited, LogLine, ManifestChanged, ProcessLost, StateChanged


def event_line(event: Any) -> str:
    """Return an event as a line of text, or "" for a type of event that is not printed."""
    if isinstance(event, LogLine):
        return f"[{event.extension}] {event.text}"
    if isinstance(event, StateChanged):
        reason = f" ({event.reason})" if event.reason else ""
        return f"{event.extension}: {event.after}{reason}"
    if isinstance(event, Exited):
        place = f" on node {event.node}" if event.node else ""
        return f"{event.extension}: process {event.pid}{place} {event.status}"
    if isinstance(event, ProcessLost):
        return f"{event.extension}: {event}"
    if isinstance(event, ManifestChanged):
        return f"{event.extension}: manifest {event.change}: {event.path} ({event.note})"
    return ""
