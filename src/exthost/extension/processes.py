"""The processes of one extension: those that start, those that serve, those on their way out.

Holds them and sees them out; decides nothing. The owner (above) starts and dismisses them by its
tables, and is rung whenever something has come to its end here.

A process that serves and ends by itself stays in `serving` until it is reaped, and is then found in
`fallen`: nothing is started in its place while it may still hold what the next one needs. One that
is dismissed leaves at once, and ends when what it was asked is answered (`quiet`); nobody waits for
it but the end of the extension.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from exthost.extension.startup import Start, Starter
from exthost.extension.call_queue import CallQueue

from exthost.session.session import Session

# A call may have been given its session in the moment before that was dismissed: by a thread of
# the blocking face, or by a coroutine that was made and not yet run.
DOORS_SECONDS = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One process that serves, since when, and what had been answered by then."""

    session: Session
    ready_at: float
    answered: int
    first_id: int
    handshake_seconds: float

    @property
    def ended_some(self) -> bool:
        """Whether any of its own calls came to an end while it lived."""
        return self.session.next_id - self.first_id > self.session.lost_calls


class Crew:
    """Every process of one extension."""

    __slots__ = ("_queue", "_leaving", "_ring", "_starter", "fallen", "serving", "starts")

    def __init__(self, starter: Starter, queue: CallQueue, ring: Callable[[], None]) -> None:
        self._starter = starter
        self._queue = queue
        self._ring = ring
        self.starts: list[Start] = []
        self.serving: list[Member] = []
        self.fallen: list[Member] = []
        self._leaving: dict[asyncio.Task[None], Session | None] = {}

    @property
    def sessions(self) -> list[Session]:
        """Every session there is, the one that serves first."""
        serving = [member.session for member in self.serving]
        starting = [start.session for start in self.starts if start.session is not None]
        return serving + starting + [one for one in self._leaving.values() if one is not None]

    def start(self, first_id: int | None, *, replaces: bool = False) -> None:
        """Have one more, or one in place of the others."""
        self.starts.append(Start(self._starter, first_id, replaces=replaces, done=self._ring))

    def started(self) -> list[Start]:
        """The starts that came to something, one way or the other."""
        done = [start for start in self.starts if start.done]
        self.starts = [start for start in self.starts if not start.done]
        return done

    def enlist(self, start: Start, now: float, answered: int) -> Member:
        """Its handshake is done: it serves."""
        session = start.result()
        member = Member(session, now, answered, session.next_id, start.seconds)
        self.serving.append(member)
        session.ended.add_done_callback(lambda _: self._on_end(member))
        return member

    def _on_end(self, member: Member) -> None:
        if member not in self.serving:
            return  # dismissed: whoever leaves is seen out already
        closing = self._queue.loop.create_task(member.session.close())
        closing.add_done_callback(lambda _: self._bury(member))

    def _bury(self, member: Member) -> None:
        if member in self.serving:
            self.serving.remove(member)
            self.fallen.append(member)
            self._ring()

    def dismiss(self, member: Member) -> None:
        """It gets no more calls, and ends when those that it has are answered."""
        self.serving.remove(member)
        self._queue.stop_sending(member.session)
        self._leave(_see_out(member.session), member.session)

    def give_up_starts(self) -> None:
        """None of those that start is wanted any more."""
        for start in self.starts:
            self._leave(start.cancel(), None)
        self.starts = []

    def _leave(self, way: Coroutine[Any, Any, None], session: Session | None) -> None:
        task = self._queue.loop.create_task(way)
        self._leaving[task] = session
        task.add_done_callback(self._gone)

    def _gone(self, task: asyncio.Task[None]) -> None:
        del self._leaving[task]
        self._ring()

    def is_quiet(self) -> bool:
        """Whether nothing is under way, on whichever of them."""
        return not self._queue.waiting and all(one.is_idle for one in self._queue.live_sessions)

    async def close(self) -> None:
        """End all of them as their dialect has it."""
        self.give_up_starts()
        sessions = self.sessions
        await asyncio.gather(*(one.close() for one in sessions), *self._leaving)
        self.serving = []
        self.fallen = []

    async def perish(self) -> None:
        """End all of them without a word, in a loop that is being torn down."""
        for session in self.sessions:
            await session.kill_and_wait()
        self.serving = []

    def kill(self) -> None:
        """End every process at once."""
        for session in self.sessions:
            session.lifetime.kill()


async def _see_out(session: Session) -> None:
    try:
        await asyncio.wait([session.ended], timeout=DOORS_SECONDS)
        await session.until_idle()
        await session.close()
    except asyncio.CancelledError:  # the loop is being torn down around us
        await session.kill_and_wait()
        raise
