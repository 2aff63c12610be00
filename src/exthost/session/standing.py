"""Questions that stand for as long as their session does, such as a subscription.

Nobody waits for their answers: an answer is the end of what was asked for. A child that ends one in
good order is asked again after a pause, as often in a row as the question has pauses; one that
stood longer than the longest of them begins a new row. An error is a no, and told in the log.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from exthost.dialects.dialect import Standing
from exthost.messages import Failure, Id
from exthost.session.state import Phase

if TYPE_CHECKING:
    from exthost.session.session import Session

_log = logging.getLogger("exthost.session")


class _Asked(NamedTuple):
    said: Standing
    again: int  # how often it was asked again in this row
    at: float


class StandingQuestions:
    """Those of one session."""

    __slots__ = ("_asked", "_session", "_timers")

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._asked: dict[Id | None, _Asked] = {}
        self._timers: dict[Id | None, asyncio.TimerHandle] = {}

    def ask(self, said: Standing, again: int = 0) -> None:
        """Put it to the child. From any thread."""
        asked = _Asked(said, again, self._session.desk.now())
        self._session.ask_aloud(said.request, lambda id: self._asked.update({id: asked}))

    def is_over(self, id: Id | None, failure: Failure | None) -> bool:
        """The child answered under this id; False if no such question stands."""
        asked = self._asked.pop(id, None)
        if asked is None:
            return False
        if self._session.state.phase is Phase.DRAINING:  # it ends because we end it
            return True
        said, again, at = asked
        if said.pauses and self._session.desk.now() - at > max(said.pauses):
            again = 0
        if failure is not None:
            self._tell(said, f"answered with an error: {failure.message}")
        elif again >= len(said.pauses):
            self._tell(said, f"ended {again + 1} times in a row" if again else "ended")
        else:
            later, wait = self._session.desk.loop.call_later, said.pauses[again]
            self._timers[id] = later(wait, self._again, id, said, again + 1)
        return True

    def _again(self, id: Id | None, said: Standing, again: int) -> None:
        self._timers.pop(id, None)
        if self._session.state.phase is Phase.DRAINING:
            return
        self.ask(said, again)
        if said.stale and self._session.on_stale is not None:
            self._session.on_stale()  # nobody told of what changed meanwhile

    def _tell(self, said: Standing, why: str) -> None:
        _log.warning(
            "[%s] %s was %s: what it would have told is not heard of any more",
            self._session.desk.extension,
            said.request.method,
            why,
        )

    def end(self) -> None:
        """The session is over, and nothing is asked again."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._asked.clear()
