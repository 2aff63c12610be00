"""How each extension of a running host is, as rows of data: for `status` and the live table.

Only looks on. Remembers one thing that the host itself forgets: why an extension last failed,
since one that runs again has no cause any more, and a person still wants to know.
"""

import time
from typing import Any

from exthost.events import StateChanged
from exthost.host import Host
from exthost.supervision.extension import Extension

# Moves into these states have a reason that a person calls an error.
_TROUBLE = frozenset({"backoff", "failed", "open", "refused"})


class Report:
    """The rows of one host, as long as it is listening."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._last: dict[str, dict[str, Any]] = {}
        self.close = host.events.subscribe(StateChanged, self._remember)

    def _remember(self, change: StateChanged) -> None:
        # On demand a crash leads back to `admitted`, with the reason of the crash.
        trouble = change.after in _TROUBLE or (change.after == "admitted" and change.reason)
        if not trouble:
            return
        told: dict[str, Any] = {"message": change.reason, "time": time.time()}
        if change.extension in self._host:
            cause = self._host[change.extension].cause
            if cause is not None:
                told |= {"message": cause.message, "code": cause.code, "help": cause.help}
                told["exit"] = cause.evidence.exit
        self._last[change.extension] = told

    def rows(self) -> list[dict[str, Any]]:
        """Every extension, in the host's order."""
        return [self.row(extension) for extension in self._host.extensions]

    def row(self, extension: Extension) -> dict[str, Any]:
        """One extension."""
        stats = extension.stats
        return {
            "id": extension.id,
            "dialect": extension.spec.dialect,
            "state": extension.state,
            "health": extension.health,
            "pids": [stats["pid"]] if stats["pid"] is not None else [],
            "uptime": round(stats["uptime"], 3),
            "restarts": stats["restarts"],
            "crashes": stats["crashes"],
            "calls": stats["calls"],
            "in_flight": stats["in_flight"],
            "waiting": stats["waiting"],
            "tools": len(extension.tools),
            "last_error": self._last.get(extension.id),
        }
