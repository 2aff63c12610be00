"""The one task that owns an extension for its life, and what anyone may wish of it.

Never touches a call: calls go to the queue, and the queue to a session. The owner sleeps until it is
rung: by a wish, a start or a process that came to an end, the breaker, or the one timer that it
sets for itself. Then it looks at everything once, without waiting for anything (`Keeper.heed`), and
sleeps again. The only thing it waits for is the end of its processes, when it is to stop.
"""

import asyncio
import math
from typing import Any

from exthost.errors import ExthostError
from exthost.extension.lifecycle import Event, State, rests
from exthost.extension.processes import DOORS_SECONDS
from exthost.extension.supervisor import Keeper

# How often it is looked whether calls under way have ended, when it is stopped with patience.
_LOOK_SECONDS = 0.02


class Owner(Keeper):
    """Keeps one extension in the wanted state."""

    __slots__ = ("_task",)

    def __init__(self, *parts: Any, **settings: Any) -> None:
        super().__init__(*parts, **settings)
        self._task: asyncio.Task[None] | None = None
        self._queue.on_needed = self.need

    # -- wishes ------------------------------------------------------------------------------

    def need(self) -> None:
        """Somebody wants to call it: start it, unless it runs or was given up."""
        waits = self.state in (State.DISCOVERED, State.ADMITTED)
        probes = self.state is State.OPEN and self.guard.may_probe()
        if not self._wishes.stop and (waits or probes):
            self._wishes.start = True
            self._awaken()

    def need_probe(self) -> None:
        """Somebody who would not wait came while its breaker is open: if its time is over, the next
        one finds it ready."""
        if self.state is State.OPEN:
            self.need()

    def ask_again(self) -> "asyncio.Future[ExthostError | None]":
        """A person or the API wants it fresh: running or not, failed or not. Done when it is; with
        an error if the fresh one is no good and the old one goes on."""
        future = self._wishes.ask_again()
        self._awaken()
        return future

    async def settle(self) -> None:
        """Wait until it is ready, or rests: stopped, refused or failed."""
        if not self._is_settled():
            await self._wishes.settled()

    async def stop(self, patience: float = 0.0) -> None:
        """End it, as its dialect has it. Returns when nothing of it is left. Calls under way have
        so many seconds to end before."""
        if self._queue.is_forked:
            return
        self._wishes.ask_to_stop(patience)
        if self._task is None:
            self._rest_for_good()
            return
        stopped = self._wishes.stopped()
        self._wake.set()
        await stopped

    def _awaken(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._own(), name=f"owner of {self.spec.id}")
        self._wake.set()

    # -- its life ----------------------------------------------------------------------------

    async def _own(self) -> None:
        wishes = self._wishes
        try:
            while True:
                self._wake.clear()
                if wishes.stop:
                    await self._end()
                    if wishes.stop:
                        break
                self.heed()
                if self._is_settled():
                    wishes.tell_settled()
                    wishes.tell_again(None)
                if not wishes.stop:
                    await self._sleep()
        finally:
            self._task = None
            if not self._queue.is_forked:
                await self.crew.perish()  # the loop is being torn down around us, or we tripped
            wishes.tell_all()
        self._rest_for_good()

    async def _sleep(self) -> None:
        """Until somebody rings, or the next thing is due."""
        when = self.next_due()
        timer = self._loop.call_at(when, self._wake.set) if when < math.inf else None
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    # -- ending ------------------------------------------------------------------------------

    async def _end(self) -> None:
        self._due = math.inf
        if not rests(self.state) and self.state is not State.DISCOVERED:
            self._go(Event.STOP)
        self._wants_more = False
        if self.crew.serving and self._wishes.patience > 0:
            await self._let_finish()
        self._last_id = self._next_id()
        await self.crew.close()
        self.ready_at = None
        if self.state is State.DRAINING:
            self._go(Event.ENDED)

    async def _let_finish(self) -> None:
        """Give calls under way their time, unless somebody has less patience or wants it back.

        Looks from time to time, and does not ask to be told, since its doors are open at first: a
        call that was on its way here when it was stopped is let in, and so are those that wait.
        """
        wishes, began = self._wishes, self._loop.time()
        doors_open = True
        while wishes.stop and (doors_open or not self.crew.is_quiet()):
            now = self._loop.time()
            if now >= began + wishes.patience:
                return
            if doors_open and now >= began + DOORS_SECONDS and not self._queue.waiting:
                doors_open = False
                self._queue.close(self._why_closed)
            await asyncio.sleep(_LOOK_SECONDS)

    def _rest_for_good(self) -> None:
        if self.state is State.ADMITTED:
            self._go(Event.STOP)
        elif self.state is State.DISCOVERED:
            self._go(Event.ADMIT)
            self._go(Event.STOP)
        self._queue.close(self._why_closed)
        self._queue.stop_timer()
        self._wishes.tell_all()
