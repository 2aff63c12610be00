"""Reports the state of each extension of a running host as a row (a dict with one key per column).

`exthost status`, the live table and the web page show these rows. The report subscribes to the
event bus, to remember two facts that the host does not keep: the processes of each extension, and
the last error of each extension. `Extension.cause` is None again after a restart, but users still
need to know why the extension had failed.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from exthost.errors import ExthostError
from exthost.events import Exited, Spawned, StateChanged
from exthost.extension.extension import Extension
from exthost.extension.stats import Stats
from exthost.host.control.lock_state import lock_state
from exthost.host.control.served_host import ServedHost

# When an extension enters one of these states, the reason of the change is an error. "open" is the
# state of an open circuit breaker.
_ERROR_STATES = frozenset({"backoff", "failed", "open", "refused"})

# How much of its stderr is part of an error. The log has all of it.
_STDERR_LINES = 3
_STDERR_LINE_CHARACTERS = 300


class StatusReport:
    """The rows of one host. Create it before the host starts extensions, so that it misses no
    event."""

    def __init__(self, host: ServedHost) -> None:
        self._host = host
        self._last_errors: dict[str, dict[str, Any]] = {}
        # By extension: an ordered set of (pid, node), in the order of their starts. The node is ""
        # for a process on this machine.
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
        # An extension that starts at first use returns to the state `admitted` (checked, and ready
        # to be started) after a crash. Only then does the change to `admitted` have a reason.
        is_error = change.after in _ERROR_STATES or (change.after == "admitted" and change.reason)
        if not is_error:
            return
        now = time.time()
        last_error: dict[str, Any] = {"message": change.reason, "time": now}
        if change.extension in self._host:
            cause = self._host[change.extension].cause
            if cause is not None:
                last_error = _error_cells(cause, now)
        self._last_errors[change.extension] = last_error

    def note_failed_replacements(self, errors: Iterable[ExthostError]) -> None:
        """Make the errors of a reload or a restart the last errors of extensions that keep their
        old version. Their state does not change, so no event reports these errors."""
        for error in errors:
            cells = _error_cells(error, time.time())
            cells["message"] = f"its new version was not taken over: {error.message}"
            self._last_errors[error.extension] = cells

    def _last_error(self, extension: Extension) -> dict[str, Any] | None:
        """Return the last error of an extension."""
        last_error = self._last_errors.get(extension.id)
        # A pool that loses one of its processes stays ready, so no change of state reports that.
        if extension.internals.lost_process is not None:
            error, when = extension.internals.lost_process
            if last_error is None or last_error["time"] < when:
                return _error_cells(error, when)
        return last_error

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each extension, in the order in which the host has them."""
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
            "lock": lock_state(extension),
            "quarantined": list(extension.quarantined),
            "last_error": self._last_error(extension),
            "stats": stats_as_data(stats),
            "missing_network_entries": dict(extension.internals.missing_network_entries),
            "start_method": extension.internals.describe_start_method(),
        }


def stats_as_data(stats: Stats) -> dict[str, Any]:
    """Return every count and fact of `ext.stats`, for JSON."""
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in dict(stats).items()
    }


def _error_cells(error: ExthostError, when: float) -> dict[str, Any]:
    """Return an error as the value of the column `last_error`. `when` is in seconds since 1970."""
    stderr = [line for line in error.evidence.stderr if line.strip()][-_STDERR_LINES:]
    return {
        "message": error.message,
        "time": when,
        "code": error.code,
        "help": error.help,
        "exit": error.evidence.exit,
        "stderr": [line[:_STDERR_LINE_CHARACTERS] for line in stderr],
    }


def local_pids(row: Mapping[str, Any]) -> list[int]:
    """Return the pids of an extension's processes on this machine, from its row."""
    return [process["pid"] for process in row["processes"] if not process["node"]]
