"""A call that its caller awaits, without a future between the two.

An `asyncio.Future` would be a second object for each call, and it wakes its task by a handle in
the loop's queue: an object more, a turn of the loop more, and with it a look at every file that
the loop watches. A task asks of what it awaits only what stands here (asyncio's protocol for
futures, which `asyncio.isfuture` tells by the same attribute), and it may be woken straight from
the loop's callback that read its answer: `Wakes` does that once the whole read is dealt with, so
that a caller never runs while the session is in the middle of something.

One call by one task, on the loop's thread: what `await` in `Extension` does. Everything that may
be awaited twice or elsewhere has a real future.
"""

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, Self

from exthost.session.state import Call

if TYPE_CHECKING:
    from exthost.session.desk import Desk


class Wakes:
    """The calls of one desk that ended, and whose callers have not been told yet."""

    __slots__ = ("_loop", "ended", "in_task", "reading")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ended: list[Awaited] = []
        self.reading = False  # whoever reads wakes them when it is done
        self.in_task = False  # and does so as part of a task: no other can go on inside that

    def add(self, call: "Awaited") -> None:
        """Its caller wakes soon: at the end of the read, or in the loop's next turn."""
        self.ended.append(call)
        if not self.reading and len(self.ended) == 1:
            self._loop.call_soon(self.wake)

    def wake(self) -> None:
        """Let the callers go on. Only from a callback of the loop, unless `in_task` is set."""
        if self.in_task:
            self._loop.call_soon(self.wake)
            return
        ended, self.ended = self.ended, []
        try:
            for call in ended:
                within = call.within
                if within is not None:  # else it ended before it was awaited
                    within.run(call.go_on, call)
        except BaseException:  # a task passes on an interrupt, which is not for the others
            self.interrupted(ended[ended.index(call) + 1 :])
            raise

    def interrupted(self, others: "list[Awaited]") -> None:
        """Whoever was about to wake these cannot: the loop does, if it goes on."""
        self.reading = False
        self.ended[:0] = others
        self._loop.call_soon(self.wake)


class Awaited(Call):
    """A call and the future of its outcome in one. It has a single caller, who awaits it once."""

    _asyncio_future_blocking = True
    _loop: asyncio.AbstractEventLoop  # by this name a task finds the loop of what it awaits

    desk: "Desk"
    value: Any = None
    error: BaseException | None = None
    go_on: Callable[["Awaited"], object]  # of the task, in its own context
    within: Context | None = None

    @classmethod
    def at(cls, desk: "Desk") -> Self:
        """One that will ask something (`asks`) there."""
        call = cls()
        call.desk = desk
        call._loop = desk.loop
        return call

    # -- from the session ----------------------------------------------------------------------

    def deliver(self, result: Any) -> None:
        self.value = result
        self.desk.wakes.add(self)

    def spoil(self, error: BaseException) -> None:
        self.error = error
        self.desk.wakes.add(self)

    # -- from the caller's task ----------------------------------------------------------------

    def __await__(self) -> Generator["Awaited", None, None]:
        """Returns when there is a `value`, raises what else it ended with."""
        if self.ended:
            if asyncio.get_running_loop() is not self._loop:
                raise RuntimeError("a call of another loop")  # as a task says of one under way
            self.result()
            return iter(())  # type: ignore[return-value]
        # A task needs no more of it than an iterator has, and one of C has no frame to set up.
        return iter((self,))  # type: ignore[return-value]

    def add_done_callback(
        self, callback: Callable[["Awaited"], object], *, context: Context
    ) -> None:
        self.go_on = callback
        self.within = context

    def result(self) -> Any:
        """Its value, or raises what it ended with."""
        if self.error is not None:
            raise self.error
        return self.value

    def cancel(self, msg: object = None) -> bool:
        """The task is being cancelled: it finds that here."""
        if self.ended:
            return False
        self.desk.cancel(self)
        self.spoil(asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        return True
