"""Makes `ext.stats`: the counts of an extension, and facts about its process.

**Counts survive a reload.** A reload makes a new `Extension` object, which shares the `Totals` of
the one that it replaces. The counts of both are added up, including calls that are still in
flight in the old object, so no count ever decreases.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from exthost.extension.call_outcomes import UNSUCCESSFUL_OUTCOMES
from exthost.extension.call_queue import CallQueue
from exthost.extension.status import Status
from exthost.extension.supervisor import Supervisor
from exthost.model.empty_mapping import EMPTY_MAPPING

_OUTCOMES = ("result", *UNSUCCESSFUL_OUTCOMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counts since the extension was loaded, over restarts and reloads, and facts of its process.

    `calls` is the sum of `result`, `error`, `timeout`, `cancelled` and `gone` (the process ended
    before it replied). Each accepted call ends in exactly one of these, and is counted in
    `in_flight` or `waiting` until then. A result that is marked as an error, and a stream whose
    last event reports a failure, count as `error`.

    `restarts` and `crashes` count restarts, and processes that ended by themselves after they were
    ready. `breaker` is the state of the circuit breaker: closed, open or half-open. `processes` is
    the number of ready processes, and `nodes` the number of processes on other machines, by the
    name of the machine. `uptime` is the seconds since a process last became ready. `reached` and
    `refused` have the number of connections by host and port, if `permissions.network` is a list.

    Three fields are about one process, in a pool the oldest. `pid` is its process id. `dropped`
    counts its output that could not be used, by reason. `timings_ms` has the milliseconds that its
    spawn took, and those of the last handshake.
    """

    calls: int
    result: int
    error: int
    timeout: int
    cancelled: int
    gone: int
    in_flight: int
    waiting: int
    restarts: int
    crashes: int
    breaker: str
    processes: int
    uptime: float
    pid: int | None
    dropped: Mapping[str, int]
    timings_ms: Mapping[str, float]
    nodes: Mapping[str, int]
    reached: Mapping[str, int]
    refused: Mapping[str, int]

    def __getitem__(self, name: str) -> Any:
        """Return a count by its name: `stats["calls"]` is `stats.calls`."""
        if name not in self.__slots__:
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> tuple[str, ...]:
        """Return the names of all counts, so that `dict(stats)` works."""
        return tuple(self.__slots__)


class Counts:
    """Reads the counts of one `Extension` object."""

    __slots__ = ("_queue", "_supervisor")

    def __init__(self, queue: CallQueue, supervisor: Supervisor) -> None:
        self._queue = queue
        self._supervisor = supervisor

    def read(self) -> dict[str, int]:
        """Return every count that a reload keeps."""
        queue, restarts = self._queue, self._supervisor.recovery.restarts
        calls_in_flight = [
            call for session in queue.live_sessions for call in session.conversation.calls()
        ]
        return {
            "result": queue.outcomes.results,
            **{name: queue.outcomes.unsuccessful[name] for name in UNSUCCESSFUL_OUTCOMES},
            "in_flight": sum(not call.internal for call in calls_in_flight),
            "waiting": len(queue.waiting),
            "restarts": restarts.restarts,
            "crashes": restarts.crashes,
        }


class Totals:
    """The sums of the counts of all `Extension` objects that reloads have made of one extension."""

    __slots__ = ("_closed_sums", "_instances")

    def __init__(self, counts: Counts) -> None:
        self._instances: tuple[Counts, ...] = (counts,)
        self._closed_sums: Mapping[str, int] = EMPTY_MAPPING

    def add(self, counts: Counts) -> None:
        """Add the counts of the object that replaces the present object."""
        self._instances += (counts,)

    def remove(self, counts: Counts) -> None:
        """Keep the last counts of an object that was closed, and forget the object. If no other
        object replaced it, it stays, because its counts can still be read."""
        if len(self._instances) > 1 and counts in self._instances:
            self._instances = tuple(
                instance for instance in self._instances if instance is not counts
            )
            self._closed_sums = Counter(self._closed_sums) + Counter(counts.read())

    def read(self) -> Counter[str]:
        """Return the sums."""
        sums = Counter(self._closed_sums)
        for counts in self._instances:
            sums.update(counts.read())
        return sums


def build_stats(totals: Totals, status: Status, supervisor: Supervisor, now: float) -> Stats:
    """Return the value of `ext.stats`."""
    counts: Mapping[str, int] = totals.read()
    session = next(iter(supervisor.processes.sessions), None)  # the ready ones come first
    outcomes = {name: counts[name] for name in _OUTCOMES}
    child = session.lifetime.child if session is not None else None
    timings = {
        "spawn": child.spawn_seconds * 1000 if child is not None else 0.0,
        "handshake": status.handshake_seconds * 1000,
    }
    return Stats(
        calls=sum(outcomes.values()),
        **outcomes,
        in_flight=counts["in_flight"],
        waiting=counts["waiting"],
        restarts=counts["restarts"],
        crashes=counts["crashes"],
        breaker=supervisor.recovery.breaker.phase.value,
        processes=len(supervisor.processes.workers),
        uptime=now - status.ready_at if status.ready_at is not None else 0.0,
        pid=child.pid if child is not None else None,
        dropped=MappingProxyType(dict(session.diagnostics.counts) if session is not None else {}),
        timings_ms=MappingProxyType(timings),
        nodes=_count_by_node(supervisor),
        reached=MappingProxyType(dict(supervisor.network.reached_counts)),
        refused=MappingProxyType(dict(supervisor.network.refused_counts)),
    )


def _count_by_node(supervisor: Supervisor) -> Mapping[str, int]:
    names = [session.lifetime.child.node for session in supervisor.processes.sessions]
    return MappingProxyType(Counter(filter(None, names))) if any(names) else EMPTY_MAPPING
