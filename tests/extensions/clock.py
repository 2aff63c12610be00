"""The clock behind the fixture `clock` of conftest.py: a test moves it past a time limit at once.

    await clock.advance(30)  # everything that waits for at most 30 s has now reached its limit

It replaces `time.monotonic`, which asyncio's loops and this package use, and the time of uvloop.
Processes and pipes are real. The clock runs like the real one until the test moves it past a limit.
Such a limit is so long that no slow machine reaches it by itself. A test whose limit is short stops
the clock first (not on uvloop).

The loop of such a test has no time limit, because moving the clock would reach it.
"""

import asyncio
import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvloop

# Enough loop iterations for due timers, and the tasks that they start, to finish.
TURNS = 20

_real = time.monotonic


class Clock:
    """The time for everything in this process that uses `time.monotonic` or its loop's clock."""

    def __init__(self) -> None:
        self.ahead = 0.0  # how far the clock was moved, in seconds
        self._stopped_at: float | None = None  # the real time when it was stopped; None if it runs

    def now(self) -> float:
        return (_real() if self._stopped_at is None else self._stopped_at) + self.ahead

    def stop(self) -> None:
        """Stop the clock until it is moved."""
        self._stopped_at = self.now() - self.ahead

    def move(self, seconds: float) -> None:
        """Move the time by this many seconds. Timers that are then due fire in the next turn."""
        self.ahead += seconds

    async def advance(self, seconds: float) -> None:
        """Move the time by this many seconds, and run all timers that are due."""
        self.move(seconds)
        loop = asyncio.get_running_loop()
        if isinstance(loop, Uvloop):
            loop.fire()
        await run_loop()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait in real time for a condition without an event; the test has a time limit."""
        while not condition():
            await asyncio.sleep(0)  # the loop looks at its pipes
            time.sleep(0.001)  # noqa: ASYNC251 - a timer would not fire while the clock is stopped


async def run_loop(times: int = TURNS) -> None:
    """Let the loop run this many iterations."""
    for _ in range(times):
        await asyncio.sleep(0)


@contextmanager
def installed_clock() -> Iterator[Clock]:
    """Replace the clock of this process until the end of the block."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", clock.now)
        # Not the kernel's timer, which uses the kernel's time.
        patch.setattr("exthost.extension.deadline_timer._cached_timerfd", [None])
        # Not uvloop in the thread of the blocking API, which would not see that the clock is moved.
        patch.setattr("exthost.host.sync.loop_thread.new_event_loop", asyncio.new_event_loop)
        yield clock


class _Timer:
    """A timer of uvloop that can also be fired early."""

    def __init__(self, loop: "Uvloop", when: float, call: Callable[[], object]) -> None:
        self._loop = loop
        self._when = when
        self._call = call
        self._is_over = False
        self.real: asyncio.TimerHandle | None = None

    def fire(self) -> None:
        if not self._is_over:
            self.cancel()
            self._call()

    def cancel(self) -> None:
        self._is_over = True
        self._loop.timers.discard(self)
        if self.real is not None:
            self.real.cancel()

    def cancelled(self) -> bool:
        return self._is_over

    def when(self) -> float:
        return self._when


class Uvloop(uvloop.Loop):
    """uvloop with timers that follow the clock of the test."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.timers: set[_Timer] = set()

    def time(self) -> float:
        return super().time() + self._clock.ahead

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        timer = _Timer(self, when, functools.partial(callback, *args))
        left = max(0.0, when - self.time())
        timer.real = super().call_later(left, timer.fire, context=context)
        self.timers.add(timer)
        return timer

    def fire(self) -> None:
        """Fire the timers that are due since the clock was moved, in order."""
        now = self.time()
        for timer in sorted(self.timers, key=_Timer.when):
            if timer.when() <= now:
                self.call_soon(timer.fire)
