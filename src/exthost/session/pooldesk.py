"""The desk of an extension that may have several processes: each call goes to the least loaded.

A desk of its own, so that the ordinary one, with one session, asks no question more than it must.
What bounds calls under way (`max_in_flight`) bounds them per process here. A call that finds every
process busy tells the owner, who may start another; the call itself does not wait for that one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from exthost.session.desk import Desk
from exthost.session.state import Call

if TYPE_CHECKING:
    from exthost.session.session import Session


class PoolDesk(Desk):
    """The calls of one extension, over several sessions. `session` is one of them, if any."""

    __slots__ = ("on_busy", "sessions")

    def __init__(self, extension: str, **settings: Any) -> None:
        super().__init__(extension, **(settings | {"special": True}))
        self.sessions: list[Session] = []
        self.on_busy: Callable[[], None] | None = None

    def take(self, call: Call) -> None:
        session = self._least()
        if session is None or self.waiting or len(session.pending) >= self.max_in_flight:
            self._let_wait(call)
        else:
            busy = bool(session.pending)
            session.launch(call)
            if busy:
                self._tell_busy()
        self.watch(call)
        if self.listeners:
            self._tell_start(call)

    def submit(self, call: Call) -> None:
        session = self._least()
        full = session is None or len(session.pending) >= self.max_in_flight
        if session is None or full or self.in_turn or self.waiting:
            self._let_wait(call)
        else:
            busy = bool(session.pending)
            session.launch(call)
            if busy:
                self.loop.call_soon_threadsafe(self._tell_busy)
        if self.listeners:
            self.loop.call_soon_threadsafe(self._tell_start, call)

    def pump(self) -> None:
        if self._pumping:
            return
        self._pumping = True
        try:
            while self.waiting and (session := self._least()) is not None:
                if len(session.pending) >= self.max_in_flight:
                    for one in self.sessions:
                        one.hurry()
                    self._tell_busy()
                    return
                self._send_next(session)
        finally:
            self._pumping = False

    def disown(self) -> None:
        self.sessions.clear()
        super().disown()

    def attach(self, session: "Session") -> None:
        self.sessions.append(session)
        super().attach(self.sessions[0])

    def detach(self, session: "Session") -> None:
        if session in self.sessions:
            self.sessions.remove(session)
        self.session = self.sessions[0] if self.sessions else None

    def close(self, why: Callable[[str], Any]) -> None:
        self.sessions.clear()
        super().close(why)

    def _least(self) -> "Session | None":
        return min(self.sessions, key=_load, default=None)

    def _tell_busy(self) -> None:
        if self.on_busy is not None:
            self.on_busy()


def _load(session: "Session") -> int:
    return len(session.pending)
