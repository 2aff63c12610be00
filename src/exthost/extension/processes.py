"""The processes of one extension: those that start, serve, exit and leave.

Keeps them and ends them, but makes no decisions. The supervisor starts and dismisses them, and is
woken whenever one of them has ended.

    starting   spawned, not ready yet
    serving    ready: calls go to them
    exiting    ended by themselves, and not reaped yet; nothing starts in their place until then,
               since they may still lock files or ports that the next process needs
    leaving    dismissed: they end after their last reply; only a stop of the extension waits for
               them
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from exthost.extension.call_queue import CallQueue
from exthost.extension.startup import Start, Starter
from exthost.session.session import Session

# How long after its dismissal a session may still get a call that had chosen it before: from a
# thread of the blocking API, or from a coroutine that was created and not yet run.
LATE_CALL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """One process that serves.

    ready_at  when it got ready
    answered  how many calls the extension had answered by then
    first_id  the first request id that its calls could get
    """

    session: Session
    ready_at: float
    answered: int
    first_id: int

    def has_served(self, answered: int) -> bool:
        """Return whether it answered a call; the extension has `answered` this many by now."""
        session = self.session
        ended_some = session.next_id - self.first_id > session.lost_calls
        # A session retires after an operation that it has answered, before that is counted.
        return session.retired or (answered > self.answered and ended_some)


class Processes:
    """Every process of one extension."""

    __slots__ = (
        "_closing",
        "_exiting",
        "_last_id",
        "_leaving",
        "_queue",
        "_starter",
        "_wake",
        "serving",
        "starting",
    )

    def __init__(self, starter: Starter, queue: CallQueue, wake: Callable[[], None]) -> None:
        self._starter = starter
        self._queue = queue
        self._wake = wake
        self._last_id = starter.dialect.traits.first_id
        self.starting: list[Start] = []
        self.serving: list[Worker] = []
        self._closing: list[Session] = []  # those that served when `close` was called
        self._exiting: dict[asyncio.Task[None], Session] = {}
        self._leaving: dict[asyncio.Task[None], Session | None] = {}

    @property
    def sessions(self) -> list[Session]:
        """Every session that has not ended by itself, those that serve first."""
        serving = [worker.session for worker in self.serving] + self._closing
        starting = [start.session for start in self.starting if start.session is not None]
        return (
            serving
            + starting
            + [session for session in self._leaving.values() if session is not None]
        )

    @property
    def count(self) -> int:
        """The number of processes that serve or start."""
        return len(self.serving) + len(self.starting)

    @property
    def is_replacing(self) -> bool:
        """Whether a process is starting that will replace those that serve."""
        return any(start.replaces for start in self.starting)

    @property
    def has_exiting(self) -> bool:
        """Whether a process that ended by itself is not reaped yet."""
        return bool(self._exiting)

    def start(self, *, replaces: bool = False) -> None:
        """Start one more process, or one in place of the others."""
        first_id = self._next_id() if self._starter.dialect.traits.ids_continue else None
        self.starting.append(Start(self._starter, first_id, replaces=replaces, done=self._wake))

    @property
    def leaving_workers(self) -> list[Worker]:
        """Those that serve on a node that is being emptied."""
        return [one for one in self.serving if one.session.lifetime.child.is_leaving]

    def replaced_by(self, start: Start) -> list[Worker]:
        """Return the workers whose place a process takes that has just started."""
        return list(self.serving) if start.replaces else self.leaving_workers[:1]

    def take_finished_starts(self) -> list[Start]:
        """Remove and return the starts that are done, whether they failed or not."""
        finished = [start for start in self.starting if start.done]
        self.starting = [start for start in self.starting if not start.done]
        return finished

    def add(self, session: Session, now: float) -> None:
        """Let a session serve: its handshake is done."""
        if self._starter.dialect.traits.ids_continue:
            session.next_id = self._next_id()
        self.serving.append(Worker(session, now, self._answered(), session.next_id))

    def has_served(self, worker: Worker) -> bool:
        """Return whether a worker answered a call."""
        return worker.has_served(self._answered())

    def _answered(self) -> int:
        """Return how many calls the extension answered, with a result or an error of its own."""
        return self._queue.outcomes.results + self._queue.outcomes.error_replies

    def _next_id(self) -> int:
        return max([self._last_id, *(session.next_id for session in self._queue.live_sessions)])

    def on_exit(self, session: Session) -> Worker | None:
        """Handle the end of a session. If it served, stop counting it, reap its process and return
        its worker."""
        self._last_id = max(self._last_id, session.next_id)
        worker = next(
            (
                serving_worker
                for serving_worker in self.serving
                if serving_worker.session is session
            ),
            None,
        )
        if worker is not None:
            self.serving.remove(worker)
            closing = self._queue.loop.create_task(session.close())
            self._exiting[closing] = session
            closing.add_done_callback(self._on_reaped)
        return worker

    def _on_reaped(self, closing: asyncio.Task[None]) -> None:
        del self._exiting[closing]
        self._wake()

    async def wait_reaped(self) -> None:
        """Return when every process that ended by itself is reaped."""
        if self._exiting:
            await asyncio.wait(self._exiting)

    def dismiss(self, worker: Worker) -> None:
        """Give a worker no more calls; it ends when those that it has are answered."""
        self.serving.remove(worker)
        self._queue.stop_sending(worker.session)
        self._leave(_close_when_quiet(worker.session), worker.session)

    def dismiss_all(self) -> None:
        """Cancel every start, and dismiss every worker."""
        self.cancel_starts()
        for worker in list(self.serving):
            self.dismiss(worker)

    def cancel_starts(self) -> None:
        """Cancel every start."""
        for start in self.starting:
            self._leave(start.cancel(), None)
        self.starting = []

    def _leave(self, ending: Coroutine[Any, Any, None], session: Session | None) -> None:
        task = self._queue.loop.create_task(ending)
        self._leaving[task] = session
        task.add_done_callback(self._on_left)

    def _on_left(self, task: asyncio.Task[None]) -> None:
        del self._leaving[task]
        self._wake()

    def is_quiet(self) -> bool:
        """Return whether no call waits or is in flight."""
        return not self._queue.waiting and all(
            session.is_idle for session in self._queue.live_sessions
        )

    async def close(self) -> None:
        """End all processes by the shutdown steps of their dialect."""
        self.cancel_starts()
        self._closing += [worker.session for worker in self.serving]
        self.serving = []  # from here on their ends are expected
        closing = [session.close() for session in self.sessions]
        await asyncio.gather(*closing, *self._leaving, *self._exiting)
        self._closing = []

    async def kill_and_wait(self) -> None:
        """Kill all processes, in a loop that is being closed."""
        sessions = [*self.sessions, *self._exiting.values()]
        self.serving, self._closing = [], []
        for session in sessions:
            await session.kill_and_wait()

    def kill(self) -> None:
        """Kill every process at once."""
        for start in self.starting:
            start.was_killed = True
        for session in self.sessions:
            session.lifetime.kill()


async def _close_when_quiet(session: Session) -> None:
    try:
        await asyncio.wait([session.ended], timeout=LATE_CALL_SECONDS)
        await session.until_idle()
        await session.close()
    except asyncio.CancelledError:  # the loop is being closed
        await session.kill_and_wait()
        raise
