"""Decides what happens when a process ends by itself or does not get ready.

Applies the restart policy (whether and when a process is started again) and the circuit breaker
(whether calls are refused for a while), and changes the status by the life-cycle table.

A process whose node was lost has not crashed, and a start that the cluster has no place for has not
failed for a fault of the extension. Neither counts for the restart policy or the breaker: the
process is replaced whatever the policy says.

All methods are synchronous and start nothing: they set `restart_at`, open the breaker or close the
call queue. The supervisor starts the next process at the time `restart_at`, after the ended process
is reaped.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from exthost.errors import PlacementFailed, Refused
from exthost.events import ProcessLost
from exthost.extension.lifecycle import Event, State
from exthost.extension.policy import (
    effective_breaker,
    effective_pool_size,
    effective_restart_policy,
)
from exthost.extension.queue_breaker import QueueBreaker
from exthost.extension.restart import Again, GiveUp, OnDemand, lifecycle_event_for
from exthost.extension.restart_tracker import RestartTracker, Retry
from exthost.extension.unavailable import given_up_error
from exthost.session.failures import ClosedByHost, copy_error

if TYPE_CHECKING:
    from exthost.errors import ExthostError
    from exthost.extension.call_queue import CallQueue, ErrorFactory
    from exthost.extension.policy import (
        PoolSize,
    )
    from exthost.extension.processes import Processes, Worker
    from exthost.extension.restart import Decision
    from exthost.extension.startup import ProcessStarter
    from exthost.extension.status import Status
    from exthost.session.session import Session

_log = logging.getLogger("exthost.extension")

# The command line silences this logger, because it shows the events instead.
_state_log = logging.getLogger("exthost.states")


# The delays before the start that replaces a process of a lost node: none at first, then doubled
# for each start in a row that found no place.
_FIRST_PLACE_DELAY_S = 1.0
_MAX_PLACE_DELAY_S = 30.0


class PoolGrowth:
    """The requests for more processes of one pool. Times are seconds of the loop's clock.

    One more process is requested when all processes are busy, and one for each process that ended
    by itself. A process that replaces an ended one starts only after the delay of the restart
    policy. They start one by one; only those of a lost node are replaced together, because nothing
    indicates that the program is at fault.
    """

    __slots__ = ("_is_requested", "_lost_processes", "_lost_with_nodes", "not_before", "size")

    def __init__(self, size: PoolSize) -> None:
        self.size = size
        self._is_requested = False  # whether one more is requested because all are busy
        self._lost_processes = 0  # how many processes that ended are to be replaced
        self._lost_with_nodes = 0  # how many of these ended with their node, or found no place
        self.not_before = 0.0  # no process is started before this time

    def request(self) -> None:
        """Request one more process, because all are busy."""
        self._is_requested = True

    def request_at(self, when: float, *, is_node_lost: bool) -> None:
        """Request one more process at the time `when`, because a process ended by itself or with
        its node."""
        self._lost_processes += 1
        self._lost_with_nodes += is_node_lost
        self.not_before = when

    def stop(self) -> None:
        """Start no more processes, until `reset`."""
        self.not_before = math.inf

    def reset(self) -> None:
        """Forget the delay, a `stop` and the lost processes, because a restart was requested."""
        self.not_before = 0.0
        self._lost_processes = self._lost_with_nodes = 0

    def cancel(self) -> None:
        """Withdraw all requests."""
        self._is_requested = False
        self._lost_processes = self._lost_with_nodes = 0

    def next_due(self) -> float:
        """Return the time at which to start one more process; infinity if none is requested."""
        return self.not_before if self._is_requested or self._lost_processes else math.inf

    def take_due(self, now: float, limit: int) -> int:
        """Return how many processes to start now, at most `limit`, and withdraw their requests. If
        one process is requested because all are busy, and another because one was lost, a single
        new process serves both requests."""
        if now < self.next_due():
            return 0
        count = min(max(self._lost_with_nodes, 1), limit)
        self._lost_with_nodes = max(0, self._lost_with_nodes - count)
        self._lost_processes = max(0, self._lost_processes - count)
        self._is_requested = False
        return count


class Recovery:
    """The values that decide about the next start of one extension.

    restarts    the restart policy, with its history
    breaker     the circuit breaker
    growth      the requests for more processes of the pool
    restart_at  the loop time at which a restart delay ends; infinity without a delay

    A *worker* is a process that is ready, or was. A worker of a pool may be lost while no other is
    ready, but a process is starting. What follows is decided when that process is ready or has
    failed.
    """

    __slots__ = (
        "_is_exit_0_crash",
        "_lost_while_starting",
        "_now",
        "_places_missed",
        "_processes",
        "_queue",
        "_status",
        "_wake",
        "breaker",
        "growth",
        "restart_at",
        "restarts",
    )

    def __init__(
        self,
        starter: ProcessStarter,
        queue: CallQueue,
        status: Status,
        processes: Processes,
        wake: Callable[[], None],
    ) -> None:
        spec, dialect = starter.spec, starter.dialect
        self._is_exit_0_crash = dialect.traits.is_exit_0_crash
        self._queue = queue
        self._now = queue.loop.time
        self._status = status
        self._processes = processes
        self._wake = wake
        # A tuple, because it is nearly always empty, and all empty tuples are one object.
        self._lost_while_starting: tuple[ExthostError, ...] = ()
        self._places_missed = (
            0  # starts in a row that the cluster (other machines) had no place for
        )
        self.restart_at = math.inf
        self.restarts = RestartTracker(effective_restart_policy(spec, dialect), self._now)
        name = dialect.traits.breaker_name.format(id=spec.id)
        self.breaker = QueueBreaker(
            effective_breaker(spec, dialect), queue, self.open_breaker, name
        )
        self.growth = PoolGrowth(effective_pool_size(spec))

    def forget_failures(self) -> None:
        """Forget earlier failures, because a restart was requested. While the extension is ready,
        the breaker stays as it is until the new process is ready."""
        self.restarts.forget_failures()
        self.growth.reset()
        self._lost_while_starting = ()
        self._status.lost_process = None
        if self._status.state is not State.READY:
            self.restart_at = math.inf
            self._processes.ignore_dismissed()
            self.breaker.reset()

    def on_worker_ended(self, worker: Worker) -> None:
        """Handle a worker that ended by itself."""
        session, status = worker.session, self._status
        error = session.closed_error("")  # the error is not about one call
        is_clean = self._is_clean_exit(session)
        is_lost = session.diagnostics.is_lost
        # A retired process ended without a fault, because it could take no other call.
        by_host = session.retired or is_clean or is_lost or isinstance(error, Refused)
        has_served = self._processes.has_served(worker)
        self.restarts.process_ended(worker.ready_at, has_served=has_served, by_host=by_host)
        if isinstance(error, Refused):
            # The tools of the process are no longer the pinned ones. The other processes run the
            # same program, so they are dismissed, too.
            self._processes.dismiss_all()
            status.ready_at = None
            self.on_last_ended(error)
            return
        is_failure = not by_host and (session.lost_calls or self.breaker.is_half_open)
        if is_failure and self.breaker.count_crash(error):
            if not self._processes.workers and self._gives_up_after(error):
                status.ready_at = None
                return
            self.open_breaker()
        if self._processes.workers:
            self.on_worker_lost(error, is_wanted_end=by_host and not is_lost, is_node_lost=is_lost)
            return
        status.ready_at = None
        if status.state is not State.READY:
            return  # the breaker is open: its next probe starts a new process
        if self._processes.starts and not self.breaker.is_open:  # another process is starting
            status.cause = error
            if self._processes.is_replacing:
                # That start was requested by a user, so earlier failures are forgotten.
                self.restarts.forget_failures()
                self.restarts.started()
            elif not by_host:
                self._lost_while_starting += (error,)
            # The life-cycle table has no single event from `ready` to `starting`.
            status.apply_event(Event.WILL_RETRY, error.message)
            status.apply_event(Event.ASKED_AGAIN)
            return
        if is_clean:
            status.apply_event(Event.REST, "it ended by itself, with the status 0")
            return
        self.on_last_ended(error, is_node_lost=is_lost)

    def on_used_ended(self, session: Session) -> None:
        """Handle the end of a process that takes one call: if it ended by itself during the call,
        this is a failure."""
        if not session.lost_calls or session in self._queue.replaced_sessions:
            return
        error = session.closed_error("")
        is_crash = not (
            isinstance(error, Refused)
            or isinstance(session.cause, ClosedByHost)
            or session.diagnostics.is_lost
            or self._is_clean_exit(session)
        )
        self.restarts.crashes += is_crash
        if is_crash and self.breaker.count_crash(error):
            self.open_breaker()

    def _is_clean_exit(self, session: Session) -> bool:
        """Return whether a process ended by itself in a way that is not a crash in its dialect."""
        if self._is_exit_0_crash:
            return False
        status = session.lifetime.child.poll_exit()
        return status is not None and status.code == 0

    def _decide(self, error: ExthostError, *, is_node_lost: bool) -> Decision:
        """Return what follows from the end, or the failed start, of a process."""
        is_unplaced = self.is_unplaced(error)
        if not is_node_lost and not is_unplaced:
            return self.restarts.decide_next(error)
        # Of several starts that fail together only the first counts. It sets `not_before`.
        if is_unplaced and self._now() >= self.growth.not_before:
            self._places_missed += 1
        if not self._places_missed:
            return Again(0.0)
        # Ten doublings exceed the maximum. A thousand would overflow a float.
        doubled = _FIRST_PLACE_DELAY_S * 2.0 ** min(self._places_missed - 1, 10)
        return Again(min(doubled, _MAX_PLACE_DELAY_S))

    def is_unplaced(self, error: ExthostError) -> bool:
        """Return whether a start failed because the cluster had no place for the process."""
        return isinstance(error, PlacementFailed) and self.restarts.has_been_ready

    def take_due(self, now: float) -> int:
        """Return how many processes of the pool to start now. If the last start found no place on
        the cluster, start only one, to find out whether there is a place now."""
        return self.growth.take_due(now, 1 if self._places_missed else self.growth.size.max)

    def on_worker_lost(
        self, error: ExthostError, *, is_wanted_end: bool = False, is_node_lost: bool = False
    ) -> None:
        """Handle the end, or the failed start, of one process of a pool while another is ready.
        `is_wanted_end`: the process ended without a fault, so nothing is reported as lost."""
        decision = self._decide(error, is_node_lost=is_node_lost)
        match decision:
            case Again(delay):
                is_node_lost = is_node_lost or self.is_unplaced(error)
                self.growth.request_at(self._now() + delay, is_node_lost=is_node_lost)
            case GiveUp():
                self.growth.stop()
        if not is_wanted_end:
            self._status.lost_process = error, time.time()
            self._report_lost(error, decision)
        elif isinstance(decision, GiveUp):
            self._log_fewer_processes(decision.reason)

    def on_start_failed(self, error: ExthostError) -> None:
        """Handle the failed start of one process of a pool while others are starting and none is
        ready."""
        self._lost_while_starting += (error,)

    def on_worker_ready(self) -> None:
        """Handle the processes that were lost before this one was ready."""
        self._places_missed = 0
        lost, self._lost_while_starting = self._lost_while_starting, ()
        for error in lost:
            self.on_worker_lost(error)

    def _report_lost(self, error: ExthostError, decision: Decision) -> None:
        """Log and publish that a process of the pool was lost."""
        delay = decision.delay if isinstance(decision, Again) else None
        extension, count = self._queue.extension, len(self._processes.workers)
        lost = ProcessLost(extension, error.message, error.code, count, delay)
        self._status.publish_lost_process(lost)
        _state_log.warning("[%s] %s", extension, lost)
        if isinstance(decision, GiveUp):
            self._log_fewer_processes(decision.reason)

    def _log_fewer_processes(self, reason: str) -> None:
        _log.warning("[%s] it continues with fewer processes: %s", self._queue.extension, reason)

    def on_node_draining(self) -> None:
        """Handle a cluster node that is being drained. A process on another node replaces the one
        there, which ends when its calls have ended."""
        self._processes.on_node_draining()
        self.growth.request()
        self._wake()

    def on_last_ended(self, error: ExthostError, *, is_node_lost: bool = False) -> None:
        """Handle the end, or the failed start, of the last process, as the policy decides."""
        status = self._status
        is_failed_start = status.state is State.STARTING
        status.cause = error
        self._lost_while_starting = ()
        if isinstance(error, Refused):
            self.give_up(Event.REFUSE, error)
            return
        if is_failed_start and self.breaker.is_half_open:
            self.breaker.count_crash(error)
            if self._gives_up_after(error):
                return
            # The waiting calls caused this probe, so their callers get the error of its start.
            self.open_breaker(lambda method: copy_error(error))
            return
        if self.breaker.is_open:
            self.open_breaker()
            return
        decision = self._decide(error, is_node_lost=is_node_lost)
        match decision:
            case GiveUp(reason):
                self.give_up(Event.GAVE_UP, error, reason)
            case OnDemand():
                status.apply_event(lifecycle_event_for(decision), error.message)
                if is_failed_start:  # the waiting calls caused this start, and get its error
                    self._queue.fail_waiting(lambda method: copy_error(error))
            case Again(delay):
                retry = self.restarts.plan_retry(delay)
                if is_node_lost or isinstance(error, PlacementFailed):
                    retry = Retry(self._places_missed + 1, None, delay)
                reason = f"{error.message}; {retry}"
                status.apply_event(lifecycle_event_for(decision), reason, retry)
                self.restart_at = self._now() + delay

    def _gives_up_after(self, error: ExthostError) -> bool:
        """Give the extension up if a process that ended by itself has used the last restart, and
        return whether it did so. Otherwise the process of the next probe is the restart.

        Without this, a program that crashes at every call would be probed forever: the breaker
        opens before the restarts are used. With the strategy "never" the breaker alone decides."""
        if not self.restarts.is_automatic:
            return False
        decision = self.restarts.decide_next(error)
        if isinstance(decision, GiveUp):
            self.give_up(Event.GAVE_UP, error, decision.reason)
        return isinstance(decision, GiveUp)

    def begin_again(self) -> None:
        """Move to `starting` from any state, for a requested restart."""
        status = self._status
        if status.state is State.REFUSED:
            status.apply_event(Event.ASKED_AGAIN)
        if status.state is State.DISCOVERED:
            status.apply_event(Event.ADMIT)
        if status.state is not State.STARTING:
            status.apply_event(Event.ASKED_AGAIN)

    def refuse(self, refused: Refused) -> None:
        """Give up an extension without a process, because a check before its restart refused it."""
        if self._status.state not in (State.DISCOVERED, State.STARTING):
            self._status.apply_event(Event.ASKED_AGAIN)
        self.give_up(Event.REFUSE, refused)

    def give_up(self, event: Event, cause: ExthostError, reason: str = "") -> None:
        """Start no process and fail every call, until a restart is requested."""
        self._status.cause = cause
        text = f"{reason}: {cause.message}" if reason else cause.message
        self._status.apply_event(event, text)
        self._queue.close(lambda method: given_up_error(cause, reason))

    def open_breaker(self, make_waiting_error: ErrorFactory | None = None) -> None:
        """Reject calls after too many failures; calls in flight continue. `make_waiting_error`
        makes the errors of waiting calls, if these differ from the errors of later calls."""
        status = self._status
        if status.state in (State.READY, State.STARTING):
            status.cause = self.breaker.last_error
            status.ready_at = None
            reason = status.cause.message if status.cause is not None else ""
            status.apply_event(Event.BREAKER_OPENED, reason)
            self._processes.dismiss_all()
            self._processes.ignore_dismissed()
        if make_waiting_error is not None:
            self._queue.fail_waiting(make_waiting_error)
        self.breaker.reject_calls()
        self._wake()
