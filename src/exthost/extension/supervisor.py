"""The supervisor of one extension: the task that starts, restarts and ends its processes.

Calls do not pass through here: the call queue gives them to a session. The supervisor's task sleeps
until a command, the end of a start or of a process, or its timer wakes it. Then `reconcile`
compares the commands with the processes, without waiting, and starts and ends processes. Only a
stop waits for processes to end.

**Terms.** A session is the host's end of one process; a `Worker` is a process that takes calls. To
dismiss a process is to send it no more calls and to end it after its last reply. The breaker
refuses calls after too many failures (it is open), and later lets single calls through as probes.
`Recovery` decides what follows from a failure. `recovery.growth` counts the processes that a pool
(several processes of one extension) needs.

**State changes before errors are delivered.** A session reports its end before its calls fail, and
the breaker reports that it opens before the last failure is delivered. `Recovery` decides
synchronously, so when a caller catches the error, state, health, stats and tools have changed
already. The next process is started after the ended one is reaped (its exit status was read).

**A restart loses no call.** A restart of an extension that is ready starts a process beside the
running ones. If the new process becomes ready, it replaces the old ones in one step, and they end
when their calls have ended. If it does not, the old ones stay in use, and the restart raises the
error. The extension is `ready` all the time. A pool on other nodes is replaced process by process.
If the cluster has no room for one more, an old process ends first.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from exthost.errors import ExthostError, Refused
from exthost.extension.idle import IdleTimer
from exthost.extension.isolation import SingleUseSession, is_isolated
from exthost.extension.lifecycle import Event, State, is_at_rest
from exthost.extension.processes import LATE_CALL_SECONDS, Processes
from exthost.extension.recovery import Recovery
from exthost.extension.supervisor_commands import SupervisorCommands
from exthost.extension.unavailable import (
    kept_old_process_error,
    not_ready_error,
    starting_again_error,
    stopped_error,
)
from exthost.session.failures import copy_error

if TYPE_CHECKING:
    from exthost.extension.call_queue import CallQueue, ErrorFactory
    from exthost.extension.network_activity import NetworkActivity
    from exthost.extension.startup import ProcessStarter, Start
    from exthost.extension.status import Status
    from exthost.model.offer import Tool
    from exthost.session.session import Session


_log = logging.getLogger("exthost.extension")


# When a pool on other nodes (machines) is restarted, each new process first starts beside the old
# ones. If it has not found room after this time, an old process ends first.
_SURGE_SECONDS = 1.0


class Wakeup:
    """An event with an optional time. Only one task may wait, and only the loop's thread sets it.

    An `asyncio.Event` with a timer would do the same, but needs ten times the memory, and a host
    may have hundreds of extensions whose supervisors sleep.
    """

    __slots__ = ("_is_set", "_loop", "_sleeper")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._sleeper: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the task, now or when it next waits."""
        self._is_set = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def clear(self) -> None:
        """Forget that it was set."""
        self._is_set = False

    def wait_until(self, when: float) -> asyncio.Future[None]:
        """Return a future that is done when this is set, or at the loop time `when`."""
        self._sleeper = sleeper = self._loop.create_future()
        if self._is_set:
            sleeper.set_result(None)
        elif when < math.inf:
            timer = self._loop.call_at(when, self.set)
            sleeper.add_done_callback(lambda _: timer.cancel())
        return sleeper


class Supervisor:
    """Starts and ends the processes of one extension."""

    __slots__ = (
        "_commands",
        "_loop",
        "_queue",
        "_starter",
        "_status",
        "_task",
        "_wakeup",
        "idle",
        "processes",
        "recovery",
    )

    def __init__(self, starter: ProcessStarter, queue: CallQueue, status: Status) -> None:
        self._starter = starter
        self._queue = queue
        self._status = status
        self._loop = queue.loop
        self._commands = SupervisorCommands(queue.loop)
        self._task: asyncio.Task[None] | None = None
        self._wakeup = Wakeup(queue.loop)
        wake = self._wakeup.set
        self.processes = Processes(starter, queue, wake)
        self.recovery = Recovery(starter, queue, status, self.processes, wake)
        self.idle = IdleTimer(starter.limits.idle, queue)
        starter.on_tools_listed = self._on_tools_listed
        queue.on_needed = self.request_start
        queue.on_session_ended = self._on_session_ended
        if queue.read_ahead is not None:
            queue.on_busy = self._on_busy
            queue.read_ahead.is_process_expected = self._is_process_expected

    @property
    def network(self) -> NetworkActivity:
        """The connections of all processes through their proxies."""
        return self._starter.network

    # -- commands ----------------------------------------------------------------------------

    def admit(self) -> None:
        """Run the checks that come before a start, and refuse the extension if one fails."""
        status = self._status
        if status.state is not State.DISCOVERED:
            return
        try:
            self._starter.admit()
        except Refused as refused:
            self.recovery.give_up(Event.REFUSE, refused)
        else:
            status.apply_event(Event.ADMIT)

    def request_start(self) -> None:
        """Start the extension because a caller needs it, unless it runs or was given up."""
        state = self._status.state
        is_unstarted = state in (State.DISCOVERED, State.ADMITTED)
        may_probe = state is State.OPEN and self.recovery.breaker.may_probe()
        if not self._commands.stop and (is_unstarted or may_probe):
            self._commands.start = True
            self._carry_out()

    def request_probe(self) -> None:
        """Start a process for a probe if the open time of the breaker is over. The caller does not
        wait for it."""
        if self._status.state is State.OPEN:
            self.request_start()

    def restart(self) -> asyncio.Future[ExthostError | None]:
        """Start a new process, in any state. The future is done when it is ready; its result is
        an error if the new process failed and the old one stays in use."""
        future = self._commands.request_restart()
        self._carry_out()
        return future

    async def wait_until_settled(self) -> None:
        """Wait until the extension is ready, or its state will not change by itself."""
        if not self._is_settled():
            await self._commands.wait_settled()

    async def stop(self, patience: float = 0.0) -> None:
        """End the extension with the shutdown steps of its dialect. Calls in flight get `patience`
        seconds to end first. Returns when no process is left."""
        if self._queue.is_forked:
            return
        self._commands.request_stop(patience)
        if self._task is None:
            self._finish()
            return
        stopped = self._commands.wait_stopped()
        self._wakeup.set()
        await stopped

    def not_running_error(self, name: str) -> ExthostError:
        """Return the error that says why `name` (a method or tool) cannot be called now."""
        status = self._status
        if status.state is State.OPEN:
            return self.recovery.breaker.open_error(name)
        if self._queue.make_closed_error is not None:
            return self._queue.make_closed_error(name)
        if status.cause is not None and status.state in (State.STARTING, State.BACKOFF):
            return starting_again_error(status.cause, name)
        if status.cause is not None:
            return copy_error(status.cause)
        return not_ready_error(self._queue.extension, name, status.state)

    # -- the task ----------------------------------------------------------------------------

    def _carry_out(self) -> None:
        """Wake the task, which carries out the commands; create it if it does not run."""
        if self._task is None:
            name = f"supervisor of {self._starter.spec.id}"
            self._task = self._loop.create_task(self._run(), name=name)
        self._wakeup.set()

    async def _run(self) -> None:
        commands = self._commands
        try:
            while True:
                self._wakeup.clear()
                if commands.stop:
                    await self._stop_processes()
                    if commands.stop:  # no restart was requested meanwhile
                        break
                self.reconcile()
                if self._is_settled():
                    if not self.processes.count:
                        self._starter.end_next()  # the process that was started in advance
                    commands.complete_settled()
                    commands.complete_restarts(None)
                if not commands.stop:
                    await self._wakeup.wait_until(self._next_due())
        finally:
            self._task = None
            if self._loop.is_closed():  # no task can wait for the exits any more
                self.processes.kill()
            else:
                if not self._queue.is_forked:
                    # If there are processes, the loop is being closed, or this task failed.
                    await self.processes.kill_and_wait()
                    if self._task is None:  # no restart was requested meanwhile
                        self._finish()
                commands.complete_all()

    def _next_due(self) -> float:
        """Return the loop time at which the task must wake without another cause."""
        if self.processes.has_exiting:
            return math.inf  # the end of that process wakes the task
        due = self.recovery.restart_at
        # Once the open time is over, `reconcile` has opened the queue, and a call wakes the task.
        if self.recovery.breaker.is_open and self._queue.make_closed_error is not None:
            due = min(due, self.recovery.breaker.circuit.open_until)
        if self._status.state is State.READY:
            due = min(due, self.idle.next_check())
            if not self.processes.starts:
                due = min(due, self.recovery.growth.next_due())
        return due

    def _is_settled(self) -> bool:
        """Return whether the extension is ready, or its state will not change by itself."""
        state, commands = self._status.state, self._commands
        is_stable = state in (State.READY, State.ADMITTED, State.OPEN) or is_at_rest(state)
        has_pending = commands.start or commands.restart or self.processes.is_replacing
        return is_stable and not has_pending

    def reconcile(self) -> None:
        """Act on the commands, and on everything that has happened since the last time."""
        status, commands, queue = self._status, self._commands, self._queue
        self._on_starts_finished(self.processes.take_finished_starts())
        if self.recovery.breaker.is_open and status.state in (State.READY, State.STARTING):
            self.recovery.open_breaker()
        if queue.make_closed_error is not None:
            # The queue is closed. A call that lost its process may have been queued again since.
            queue.fail_waiting(queue.make_closed_error)
        if self.processes.has_exiting:
            return  # no process starts before the exiting ones are reaped
        if status.state is State.ADMITTED and queue.waiting:
            commands.start = True
        if commands.restart:
            self._restart()
        elif commands.start:
            self._start()
        now = self._loop.time()
        if now >= self.recovery.restart_at:
            self.recovery.restart_at = math.inf
            status.apply_event(Event.RETRY_DUE)
            self._launch()  # one process per retry; a pool grows again when it is busy
        if self.recovery.breaker.may_probe():
            queue.make_closed_error = None  # the next call waits for the process of its probe
        if status.state is State.READY:
            if is_isolated(self._starter.spec):
                self._replace_used()
            self._fit_pool(now)

    # -- starting ----------------------------------------------------------------------------

    def _start(self) -> None:
        """Start processes for the first time, on demand, or as a probe."""
        self._commands.start = False
        if self.recovery.breaker.may_probe():
            self._queue.make_closed_error = None
            self.recovery.breaker.probe()
            self._status.apply_event(Event.PROBE)
            self._launch_all()
            return
        if self._status.state not in (State.DISCOVERED, State.ADMITTED):
            return  # the state has changed since the command was given
        self._queue.make_closed_error = None
        self.admit()
        if self._status.state is State.ADMITTED:
            self._status.apply_event(Event.START)
            self._launch_all()

    def _restart(self) -> None:
        """Carry out a restart. Files may have changed, so the checks before a start run again."""
        status = self._status
        self._commands.restart = False
        self.processes.cancel_starts()
        self.recovery.forget_failures()
        if status.state is not State.READY:
            self._queue.make_closed_error = None
        try:
            self._starter.admit()
        except Refused as refused:
            if status.state is State.READY:
                self._commands.complete_restarts(kept_old_process_error(refused))
            else:
                self.recovery.refuse(refused)
            return
        if status.state is State.READY:
            if self._starter.spec.pool.engine is not None:
                self.processes.mark_outdated()
            self._replace_next()
            return
        self.recovery.begin_again()
        self._launch_all()

    def _launch_all(self) -> None:
        """Start the minimum number of processes of the pool; a single process for a probe."""
        is_probe = self.recovery.breaker.is_half_open
        for _ in range(1 if is_probe else self.recovery.growth.size.at_start):
            self._launch()

    def _replace_next(self) -> None:
        """Start the process that replaces the ready ones, or the next of them."""
        start = self._launch(replaces=True)
        if self.processes.outdated:
            self._loop.call_later(_SURGE_SECONDS, self._make_room, start)

    def _make_room(self, start: Start) -> None:
        """Dismiss an old process if the new one still has no room."""
        if start in self.processes.starts and self._status.state is State.READY:
            self.processes.make_room(start)

    def _launch(self, *, replaces: bool = False) -> Start:
        self.recovery.restarts.started()
        return self.processes.start(replaces=replaces)

    def _on_starts_finished(self, starts: list[Start]) -> None:
        """Handle starts that are done: first those that succeeded, because what follows from a
        failure depends on whether another process is ready."""
        failed_starts: list[tuple[Start, ExthostError]] = []
        for start in starts:
            try:
                session = start.result()
            except ExthostError as error:
                failed_starts.append((start, error))
            else:
                self._add_worker(start, session)
        for number, (start, cause) in enumerate(failed_starts, 1):
            self._on_start_failed(start, cause, is_last=number == len(failed_starts))

    def _add_worker(self, start: Start, session: Session) -> None:
        """Send calls to a process that has become ready, and dismiss the ones that it replaces."""
        now = self._loop.time()
        old_workers = self.processes.find_replaced(start)
        worker = self.processes.add(session, now)
        self.recovery.restarts.ready()
        self._status.record_process_ready(now, start.seconds)
        self._status.hide_secrets = session.diagnostics.hide_secrets
        self._status.set_offer(start.offer)
        start.tool_refresh.begin()
        if self._status.state is State.STARTING:
            self._status.apply_event(Event.HANDSHAKE_DONE)
        for old_worker in old_workers:  # now, so that the next call goes to the new process
            self.processes.dismiss(old_worker)
        session.lifetime.child.on_node_draining(self.recovery.on_node_draining)
        if self.processes.workers_on_draining_nodes:
            self.recovery.growth.request()
        self.idle.begin(now, worker, self.processes.workers.values())
        if start.replaces:
            self.processes.ignore_dismissed()
            self.recovery.breaker.reset()
            if self.processes.outdated:
                self._replace_next()
            else:
                self.processes.keep_outdated()
            for _ in range(self.recovery.growth.size.at_start - self.processes.count):
                self._launch()
        if isinstance(session, SingleUseSession):
            session.on_used = self._on_used
        if session.cause is None:
            self._queue.attach(session)
            self.recovery.on_worker_ready()
        else:  # the process ended just after its handshake
            self._on_session_ended(session)

    def _on_tools_listed(self, session: Session, tools: tuple[Tool, ...]) -> None:
        """Use the tools that a running process lists now. The tools of a process that gets no more
        calls are ignored."""
        if session in self.processes.workers:
            self._status.set_tools(tools)

    def _on_start_failed(self, start: Start, error: ExthostError, *, is_last: bool) -> None:
        """Decide what follows from a failed start: other processes are ready, or others are still
        starting, or this was the last one. `is_last`: no more failed starts follow in this turn."""
        is_unplaced = self.recovery.is_unplaced(error)
        self.recovery.restarts.start_failed(is_unplaced=is_unplaced)
        if self.processes.workers:
            if start.replaces:
                id = self._queue.extension
                _log.warning("[%s] the old process continues: %s", id, error.message)
                self.recovery.restarts.forget_failures()
                self.processes.keep_outdated()
                if start.has_made_room:  # one process fewer than before
                    self.recovery.growth.request()
                # The restart has withdrawn the requests for processes that were lost before it.
                now = self._loop.time()
                for _ in range(self.recovery.growth.size.at_start - self.processes.count):
                    self.recovery.growth.request_at(now, is_node_lost=False)
                if not self._commands.restart:
                    self._commands.complete_restarts(kept_old_process_error(error))
            else:  # it was a further process of a pool
                self.recovery.on_worker_lost(error)
        elif self.processes.starts or not is_last:
            self.recovery.on_start_failed(error)
        else:
            self.recovery.on_last_ended(error)

    def _on_session_ended(self, session: Session) -> None:
        """Decide what follows from the end of a process. The session calls this synchronously when
        it ends, before its calls fail."""
        worker = self.processes.on_exit(session)
        if worker is not None:
            if self._status.state is not State.DRAINING:
                self.recovery.on_worker_ended(worker)
            self._wakeup.set()
        elif isinstance(session, SingleUseSession) and self._status.state is not State.DRAINING:
            self.recovery.on_used_ended(session)

    def _on_used(self, session: SingleUseSession) -> None:
        """Dismiss a process that takes one call, which was just sent to it."""
        worker = self.processes.workers.get(session)
        if worker is not None:
            self.processes.dismiss(worker)
            self._wakeup.set()

    def _replace_used(self) -> None:
        """Start processes for the next calls of an extension with a process for each call. The
        dismissed processes, which still work on their calls, count towards the limit of the pool.
        """
        processes, size = self.processes, self.recovery.growth.size
        while (
            processes.count < size.at_start
            and processes.count + processes.dismissed_count <= size.max
        ):
            processes.start()

    # -- pool and idle time ------------------------------------------------------------------

    def _on_busy(self) -> None:
        """Request one more process, because every process of the pool is busy."""
        if self.processes.count < self.recovery.growth.size.max:
            self.recovery.growth.request()
            self._wakeup.set()

    def _is_process_expected(self) -> bool:
        """Return whether a process of the pool is starting or about to be started."""
        return bool(self.processes.starts) or self.recovery.growth.next_due() <= self._loop.time()

    def _fit_pool(self, now: float) -> None:
        """Start the processes that are due, or dismiss processes that were idle too long."""
        processes, size = self.processes, self.recovery.growth.size
        is_idle = self.idle.is_over(now, processes.workers.values())
        due_count = 0 if processes.starts else self.recovery.take_due(now)
        staying_count = len(processes.workers) - len(processes.workers_on_draining_nodes)
        if due_count and staying_count < size.max and not self.recovery.breaker.is_half_open:
            for _ in range(min(due_count, size.max - staying_count)):
                self._launch()
            return
        if processes.starts or not is_idle:
            return
        for worker in list(processes.workers.values())[size.when_idle :]:
            processes.dismiss(worker)
        if not processes.workers:
            self._status.ready_at = None
            self.recovery.restarts.idle_ended()
            self._status.apply_event(Event.REST, f"it was idle for {self._starter.limits.idle:g} s")
            if self._queue.waiting:
                self._wakeup.set()

    # -- stopping ----------------------------------------------------------------------------

    async def _stop_processes(self) -> None:
        """Carry out a stop, unless a restart is requested before it begins."""
        await self.processes.wait_reaped()
        if not self._commands.stop:
            return
        self.recovery.restart_at = math.inf
        state = self._status.state
        if not is_at_rest(state) and state is not State.DISCOVERED:
            self._status.apply_event(Event.STOP)
        self.recovery.growth.cancel()
        has_processes = self.processes.workers or self.processes.dismissed_count
        if has_processes and self._commands.patience > 0:
            await drain_calls(self._queue, self.processes, self._commands, self._stopped_error)
        await self.processes.close()
        self._status.ready_at = None
        if self._status.state is State.DRAINING:
            self._status.apply_event(Event.ENDED)

    def _finish(self) -> None:
        """Move to `stopped` if nothing runs, and fail the calls and commands that still wait."""
        self._starter.end_next()
        if self._status.state is State.DISCOVERED:
            self._status.apply_event(Event.ADMIT)
        if not is_at_rest(self._status.state) and self._status.state is not State.DRAINING:
            self._status.ready_at = None
            self._status.apply_event(Event.STOP)
        if self._status.state is State.DRAINING:
            self._status.apply_event(Event.ENDED)
        self._queue.close(self._stopped_error)
        self._queue.deadlines.stop()
        self._commands.complete_all()

    def _stopped_error(self, method: str) -> ExthostError:
        status = self._status
        if status.state not in (State.STOPPED, State.DRAINING) and status.cause is not None:
            return copy_error(status.cause)
        is_final = self._queue.is_released
        return stopped_error(self._queue.extension, method, is_final=is_final)


# How often the queue is polled.
_POLL_SECONDS = 0.02


async def drain_calls(
    queue: CallQueue, processes: Processes, commands: SupervisorCommands, make_error: ErrorFactory
) -> None:
    """Return when all waiting calls and all calls in flight have ended. Return earlier if the
    patience of the stop command is over, or if a restart replaces the stop command.

    The queue accepts calls for `LATE_CALL_SECONDS`, for those that were being submitted when the
    stop was requested. Then `make_error` makes the errors of later calls. The queue is closed when
    no call waits, or when no process is left for those that wait: none is started. No event reports
    that the last call has ended, so the queue is polled.
    """
    loop = queue.loop
    began_at = loop.time()
    is_open = True
    while commands.stop and (is_open or not processes.is_quiet()):
        now = loop.time()
        if now >= began_at + commands.patience:
            return
        if is_open and now >= began_at + LATE_CALL_SECONDS:
            queue.make_closed_error = make_error
            if not (queue.waiting and queue.sessions):
                is_open = False
                queue.close(make_error)
        await asyncio.sleep(_POLL_SECONDS)
