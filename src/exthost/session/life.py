"""The life of a session's process: its exit, the end of its pipes, and how we end it.

Exit and end-of-file are two facts that come in either order, or one without the other. Whichever
comes first starts a short grace in which the other may follow; then `over` is told, once.
The ladder climbs here, and `release` leaves nothing behind: no zombie, no descriptor.
"""

import asyncio
import logging
from collections.abc import Callable

from exthost.events import Bus, Exited
from exthost.messages import Notice, Request
from exthost.model import LadderStep
from exthost.process.child import Child
from exthost.process.ending import KILL_SECONDS, climb
from exthost.process.inlet import Inlet
from exthost.session.causes import Cause, died
from exthost.session.witness import Witness

_log = logging.getLogger("exthost.session")

# After its exit, how long a child's last words may take to come through a pipe that something
# else still holds.
LAST_WORDS_SECONDS = 0.25

# After a pipe of its was closed, how long its exit may take to be seen. A busy machine takes its
# time between the two: who is told too soon that a crashed child still runs is misled.
EXIT_SECONDS = 2.0


class Life:
    """One process of ours, from its first breath on."""

    __slots__ = (
        "_bus",
        "_grace",
        "_inlet",
        "_loop",
        "_over",
        "_say",
        "_told_exit",
        "_witness",
        "child",
        "exited",
        "released",
    )

    def __init__(
        self,
        child: Child,
        inlet: Inlet,
        witness: Witness,
        bus: Bus,
        loop: asyncio.AbstractEventLoop,
        *,
        over: Callable[[Cause], None],
        on_exit: Callable[[], None],
    ) -> None:
        self.child = child
        self.exited: asyncio.Future[None] = loop.create_future()
        self.released: asyncio.Future[None] = loop.create_future()
        self._inlet = inlet
        self._witness = witness
        self._bus = bus
        self._loop = loop
        self._over = over
        self._told_exit = on_exit
        self._grace: asyncio.TimerHandle | None = None
        loop.add_reader(child.exit_fd, self._on_exit)

    def _on_exit(self) -> None:
        """The process is gone; its last words may still be in the pipes."""
        self._loop.remove_reader(self.child.exit_fd)
        status = self.child.see_exit()
        if Exited in self._bus.kinds:
            self._witness.drain()  # its last words come before the news of its end
            self._bus.publish(Exited(self._witness.extension, self.child.pid, str(status)))
        if not self.exited.done():
            self.exited.set_result(None)
        self.soon_over(died(self._witness))
        self._told_exit()

    def soon_over(self, cause: Cause) -> None:
        """It is over in a moment: more may be known then."""
        if self._grace is None:
            grace = LAST_WORDS_SECONDS if self.exited.done() else EXIT_SECONDS
            self._grace = self._loop.call_later(grace, self._over, cause)

    def concluded(self) -> None:
        """The conversation is over: the process has no reason to be any more."""
        if self._grace is not None:
            self._grace.cancel()
        if self.exited.done():
            self.release()
        else:
            self.exited.add_done_callback(lambda _: self.release())

    def release(self) -> None:
        if self.released.done():
            return
        self._witness.leave()
        self._inlet.close()
        self.child.close_outputs()
        self.child.reap()
        self.released.set_result(None)

    async def end(self, ladder: tuple[LadderStep, ...], say: "Sayer") -> None:
        """Climb the ladder. Returns when the process has exited, or cannot be ended at all."""
        self._say = say
        if not await climb(ladder, self):
            _log.error("%s: its process survived SIGKILL", self._witness.extension)

    # What the ladder asks of us.

    async def say(self, message: Request | Notice, wait: float) -> None:
        answered = self._say(message)
        if answered is not None:
            await asyncio.wait([answered, self.exited], timeout=wait, return_when="FIRST_COMPLETED")
            answered.cancel()

    def write_raw(self, data: bytes) -> None:
        self._inlet.write_locked(data)

    def close_stdin(self) -> None:
        self._inlet.close()

    def terminate(self) -> None:
        self.child.terminate()

    def kill(self) -> None:
        self.child.kill()

    async def exits_within(self, seconds: float) -> bool:
        if not self.exited.done() and seconds > 0:
            await asyncio.wait([self.exited], timeout=seconds)
        return self.exited.done()


Sayer = Callable[[Request | Notice], "asyncio.Future[None] | None"]
"""Says something; the future, if any, is done when it was answered one way or the other."""

__all__ = ["EXIT_SECONDS", "KILL_SECONDS", "LAST_WORDS_SECONDS", "Life", "Sayer"]
