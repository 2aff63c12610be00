"""The state of each extension of a running host, as rows of data: for `status` and the live table.

A subscriber of the bus. It remembers what the host does not: which processes each extension has,
and why it last failed. An extension that runs again has no `cause` any more, but a user still wants
to know it.
"""

import time
from collections.abc import Mapping
from typing import Any

from exthost.control.served_host import ServedHost
from exthost.events import Exited, Spawned, StateChanged
from exthost.extension.extension import Extension

# The reason of a change to one of these states is an error.
_TROUBLE = frozenset({"backoff", "failed", "open", "refused"})


class StatusReport:
    """The rows of one host. Make it before the host starts anything."""

    def __init__(self, host: ServedHost) -> None:
        self._host = host
        self._last: dict[str, dict[str, Any]] = {}
        # By extension: the pids, each with its node, in the order of their starts.
        self._processes: dict[str, dict[tuple[int, str], None]] = {}
        host.events.subscribe(StateChanged, self._on_state_changed)
        host.events.subscribe(Spawned, self._on_spawned)
        host.events.subscribe(Exited, self._on_exited)

    def _on_spawned(self, spawned: Spawned) -> None:
        self._processes.setdefault(spawned.extension, {})[spawned.pid, spawned.node] = None

    def _on_exited(self, exited: Exited) -> None:
        processes = self._processes.get(exited.extension, {})
        processes.pop((exited.pid, exited.node), None)
        if not processes:
            self._processes.pop(exited.extension, None)

    def _on_state_changed(self, change: StateChanged) -> None:
        # On demand a crash leads back to `admitted`, with the reason of the crash.
        trouble = change.after in _TROUBLE or (change.after == "admitted" and change.reason)
        if not trouble:
            return
        report: dict[str, Any] = {"message": change.reason, "time": time.time()}
        if change.extension in self._host:
            cause = self._host[change.extension].cause
            if cause is not None:
                report |= {"message": cause.message, "code": cause.code, "help": cause.help}
                report["exit"] = cause.evidence.exit
        self._last[change.extension] = report

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each extension, in the host's order."""
        return [self.row(extension) for extension in self._host.extensions]

    def row(self, extension: Extension) -> dict[str, Any]:
        """Return the row of one extension."""
        stats = extension.stats
        processes = self._processes.get(extension.id, ())
        return {
            "id": extension.id,
            "dialect": extension.spec.dialect,
            "state": str(extension.state),
            "health": str(extension.health),
            "pids": [pid for pid, _ in processes],
            "processes": [{"pid": pid, "node": node} for pid, node in processes],
            "nodes": dict(stats.nodes),
            "uptime": round(stats.uptime, 3),
            "restarts": stats.restarts,
            "crashes": stats.crashes,
            "calls": stats.calls,
            "failed": stats.error + stats.timeout + stats.gone,
            "in_flight": stats.in_flight,
            "waiting": stats.waiting,
            "breaker": stats.breaker,
            "tools": len(extension.tools),
            "last_error": self._last.get(extension.id),
        }


def pids_here(row: Mapping[str, Any]) -> list[int]:
    """Return the pids of a row that are on this machine."""
    return [process["pid"] for process in row["processes"] if not process["node"]]
