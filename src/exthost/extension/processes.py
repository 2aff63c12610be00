"""The processes of one extension, in four groups by their progress.

    starting   the handshake is not done
    ready      the call queue sends calls to them; each is a `Worker`
    exiting    ended by themselves and not reaped yet (their exit status was not read); no process
               is started in their place until they are reaped, because they may still hold files
               or ports that it needs
    dismissed  they get no more calls and end after their last reply; only a stop of the extension
               waits for them

This module starts and ends processes, but decides nothing: the supervisor calls it, and is woken
whenever a start is done or a process has ended.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from exthost.extension.call_queue import CallQueue
from exthost.extension.startup import ProcessStarter, Start
from exthost.session.session import Session

# A session may still get a call for this long after its process was dismissed. A thread of the
# blocking API, or a coroutine that has not run yet, may have chosen the session before.
LATE_CALL_SECONDS = 0.05

# Shared by all extensions without processes that are ending or starting, to save the memory of
# three dicts.
_NO_TASKS: dict[asyncio.Task[None], Session | None] = {}
_NO_STARTS: dict[Start, None] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """One process that is ready, or was.

    session         the session with the process
    ready_at        when the process became ready, in seconds of the loop's clock
    replies_before  how many replies the extension had sent by then, over all its processes
    first_id        the first request id that the calls of this process could get
    """

    session: Session
    ready_at: float
    replies_before: int
    first_id: int

    def has_served(self, replies: int) -> bool:
        """Return whether this process replied to a call. `replies` is the number of replies that
        the extension has sent by now, over all its processes."""
        session = self.session
        sent_calls = session.next_id - self.first_id
        ended_some = sent_calls > session.lost_calls
        # A session retires itself at the end of an operation, before the reply is counted.
        return session.retired or (replies > self.replies_before and ended_some)


class Processes:
    """Every process of one extension. `starts` are the starts in progress, an ordered set, and
    `workers` are the ready processes by their session, the oldest first. A pool may have thousands
    of processes, so what is done for each start and each end takes constant time."""

    __slots__ = (
        "_closing_sessions",
        "_dismissed_tasks",
        "_exiting_tasks",
        "_finished_starts",
        "_has_draining",
        "_next_unused_id",
        "_outdated",
        "_queue",
        "_replacing_start",
        "_starter",
        "_wake",
        "starts",
        "workers",
    )

    def __init__(self, starter: ProcessStarter, queue: CallQueue, wake: Callable[[], None]) -> None:
        self._starter = starter
        self._queue = queue
        self._wake = wake
        self._next_unused_id = starter.dialect.traits.first_id
        self.starts: dict[Start, None] = _NO_STARTS
        # A tuple, because it is nearly always empty, and all empty tuples are one object.
        self._finished_starts: tuple[Start, ...] = ()
        self._replacing_start: Start | None = None  # the last one; it may be done
        self.workers: dict[Session, Worker] = {}
        self._has_draining = False  # whether a worker may be on a node that is being drained
        self._outdated: tuple[Worker, ...] = ()  # to be replaced one by one
        # The sessions of the processes that were ready when `close` was called.
        self._closing_sessions: tuple[Session, ...] = ()
        self._exiting_tasks: dict[asyncio.Task[None], Session | None] = _NO_TASKS
        self._dismissed_tasks: dict[asyncio.Task[None], Session | None] = _NO_TASKS

    @property
    def sessions(self) -> list[Session]:
        """Every session that has not ended by itself, the sessions of ready processes first."""
        ready_sessions = [*self.workers, *self._closing_sessions]
        starting_sessions = [start.session for start in self.starts if start.session is not None]
        return (
            ready_sessions
            + starting_sessions
            + [session for session in self._dismissed_tasks.values() if session is not None]
        )

    @property
    def count(self) -> int:
        """The number of processes that are ready or starting."""
        return len(self.workers) + len(self.starts)

    @property
    def dismissed_count(self) -> int:
        """The number of processes that were dismissed and have not ended."""
        return len(self._dismissed_tasks)

    @property
    def is_replacing(self) -> bool:
        """Whether a process is starting that will replace ready processes."""
        return self._replacing_start in self.starts

    @property
    def outdated(self) -> list[Worker]:
        """The ready processes that a restart has yet to replace, one by one."""
        return [worker for worker in self._outdated if worker.session in self.workers]

    def mark_outdated(self) -> None:
        """Have the ready processes replaced one by one, by starts with `replaces`. A process on
        another node may need the resources of the one that it replaces."""
        self._outdated = tuple(self.workers.values())

    def keep_outdated(self) -> None:
        """Replace no more processes, because a start has failed."""
        self._outdated = ()

    def make_room(self, start: Start) -> None:
        """Dismiss the process that a start will replace before the new one is ready, because the
        cluster has no room for both. Do nothing if it is the only one."""
        if start.session is None and len(self.workers) > 1 and self.outdated:
            start.has_made_room = True
            self.dismiss(self.outdated[0])

    @property
    def has_exiting(self) -> bool:
        """Whether a process that ended by itself is not reaped yet."""
        return bool(self._exiting_tasks)

    def start(self, *, replaces: bool = False) -> Start:
        """Start one more process. With `replaces`, it replaces the ready processes when it is
        ready."""
        first_id = self._next_id() if self._starter.dialect.traits.ids_continue else None
        start = Start(self._starter, first_id, replaces=replaces, on_done=self._on_start_done)
        self.starts = self.starts or {}
        self.starts[start] = None
        if replaces:
            self._replacing_start = start
        return start

    def _on_start_done(self, start: Start) -> None:
        self._finished_starts += (start,)
        self._wake()

    def on_node_draining(self) -> None:
        """Look for workers on draining nodes from now on."""
        self._has_draining = True

    @property
    def workers_on_draining_nodes(self) -> list[Worker]:
        """The ready processes on a cluster node that is being drained: its processes are to move to
        other nodes."""
        if not self._has_draining:
            return []
        workers = [
            worker
            for session, worker in self.workers.items()
            if session.lifetime.child.is_node_draining
        ]
        self._has_draining = bool(workers)
        return workers

    def find_replaced(self, start: Start) -> list[Worker]:
        """Return the workers that the process of a successful start replaces."""
        if start.replaces and self._outdated:  # they are replaced one by one
            return [] if start.has_made_room else self.outdated[:1]
        if start.replaces:
            return list(self.workers.values())
        return self.workers_on_draining_nodes[:1]

    def take_finished_starts(self) -> list[Start]:
        """Remove and return the starts that are done, whether they failed or not."""
        # `starts` no longer has the starts that were cancelled.
        finished = [start for start in self._finished_starts if start in self.starts]
        self._finished_starts = ()
        for start in finished:
            del self.starts[start]
        if not self.starts:
            self.starts = _NO_STARTS
        return finished

    def add(self, session: Session, now: float) -> Worker:
        """Add the session of a process that has just become ready, and return its worker."""
        if self._starter.dialect.traits.ids_continue:
            session.conversation.requests.next_id = self._next_id()
        worker = Worker(session, now, self._count_replies(), session.next_id)
        self.workers[session] = worker
        return worker

    def has_served(self, worker: Worker) -> bool:
        """Return whether a worker replied to a call."""
        return worker.has_served(self._count_replies())

    def _count_replies(self) -> int:
        """Return how many replies the extension has sent, results and error replies."""
        return self._queue.outcomes.results + self._queue.outcomes.error_replies

    def _next_id(self) -> int:
        """Return the smallest request id that is larger than each one used by a process."""
        return max(
            [self._next_unused_id, *(session.next_id for session in self._queue.live_sessions)]
        )

    def on_exit(self, session: Session) -> Worker | None:
        """Handle the end of a session. If its process was ready, reap it and return its worker;
        otherwise return None."""
        self._next_unused_id = max(self._next_unused_id, session.next_id)
        worker = self.workers.pop(session, None)
        if worker is not None:
            close_task = self._queue.loop.create_task(session.close())
            self._exiting_tasks = self._exiting_tasks or {}
            self._exiting_tasks[close_task] = session
            close_task.add_done_callback(self._on_reaped)
        return worker

    def _on_reaped(self, close_task: asyncio.Task[None]) -> None:
        del self._exiting_tasks[close_task]
        self._wake()

    async def wait_reaped(self) -> None:
        """Return when every process that ended by itself is reaped."""
        if self._exiting_tasks:
            await asyncio.wait(self._exiting_tasks)

    def dismiss(self, worker: Worker) -> None:
        """Give a worker no more calls; its process ends when its calls in flight have ended."""
        del self.workers[worker.session]
        self._queue.stop_sending(worker.session)
        self._end_in_background(_close_when_quiet(worker.session), worker.session)

    def ignore_dismissed(self) -> None:
        """Let the breaker ignore the calls that the dismissed processes still work on."""
        dismissed = filter(None, self._dismissed_tasks.values())
        self._queue.replaced_sessions = frozenset(dismissed)

    def dismiss_all(self) -> None:
        """Cancel every start, and dismiss every worker."""
        self.cancel_starts()
        for worker in list(self.workers.values()):
            self.dismiss(worker)

    def cancel_starts(self) -> None:
        """Cancel every start."""
        for start in self.starts:
            self._end_in_background(start.cancel(), None)
        self.starts = _NO_STARTS

    def _end_in_background(
        self, end_process: Coroutine[Any, Any, None], session: Session | None
    ) -> None:
        task = self._queue.loop.create_task(end_process)
        self._dismissed_tasks = self._dismissed_tasks or {}
        self._dismissed_tasks[task] = session
        task.add_done_callback(self._on_dismissed_ended)

    def _on_dismissed_ended(self, task: asyncio.Task[None]) -> None:
        del self._dismissed_tasks[task]
        self._wake()

    def is_quiet(self) -> bool:
        """Return whether no call waits or is in flight."""
        return not self._queue.waiting and all(
            session.is_idle for session in self._queue.live_sessions
        )

    async def close(self) -> None:
        """End all processes by the shutdown steps of their dialect."""
        self.cancel_starts()
        self._closing_sessions += tuple(self.workers)
        self.workers.clear()  # so that `on_exit` does not take their ends for crashes
        shutdowns = [session.close() for session in self.sessions]
        await asyncio.gather(*shutdowns, *self._dismissed_tasks, *self._exiting_tasks)
        self._closing_sessions = ()

    async def kill_and_wait(self) -> None:
        """Kill all processes, and wait for their exits. Works in a loop that is being closed."""
        sessions = [*self.sessions, *filter(None, self._exiting_tasks.values())]
        self.workers.clear()
        self._closing_sessions = ()
        for session in sessions:
            await session.kill_and_wait()

    def kill(self) -> None:
        """Kill every process at once."""
        for start in self.starts:
            start.was_killed = True
        for session in self.sessions:
            session.lifetime.kill()


async def _close_when_quiet(session: Session) -> None:
    """End a dismissed process when its calls in flight have ended."""
    try:
        await asyncio.wait([session.ended], timeout=LATE_CALL_SECONDS)
        await session.until_idle()
        await session.close()
    except asyncio.CancelledError:  # the loop is being closed
        await session.kill_and_wait()
        raise
