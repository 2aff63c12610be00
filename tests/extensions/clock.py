"""A clock that a test moves forward, beside real processes.

Time passes as it does everywhere, so that processes can be waited for; `advance` adds to it. A test
gives the limit that it is about a length that no machine reaches by being slow, and moves the clock
past it. The test runs in a loop of its own, whose end is bounded by the test's limit alone: a limit
of the loop would be reached by moving the clock.
"""

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

# A timer that fires lets a task run, which sets the next timer, and so on: turns for all of that.
TURNS = 20


class Clock:
    """The time of everything in this process that asks `time.monotonic` or its loop."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._real = time.monotonic

    def now(self) -> float:
        return self._real() + self.ahead

    async def advance(self, seconds: float) -> None:
        """Move the clock, and let what is due happen."""
        self.ahead += seconds
        loop = asyncio.get_running_loop()
        if isinstance(loop, _Uvloop):
            loop.fire()
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(time, "monotonic", self.now)
        # A timer of the kernel's would not see that the clock was moved.
        patch.setattr("exthost.session.alarm._found", [None])


def with_clock(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an asynchronous test with a `Clock` as its argument `clock`. A test that is marked
    `both_loops` has the argument `loop_kind`, too."""
    signature = inspect.signature(test)

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        clock = Clock()
        uses_uvloop = arguments.get("loop_kind") == "uvloop"
        make = functools.partial(_Uvloop, clock) if uses_uvloop else None

        async def body() -> None:
            await test(clock=clock, **arguments)

        with pytest.MonkeyPatch.context() as patch:
            clock.install(patch)
            with asyncio.Runner(loop_factory=make) as runner:
                runner.run(body())

    others = [one for name, one in signature.parameters.items() if name != "clock"]
    run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return run


class _Timer:
    """A timer of uvloop's that can also be fired early."""

    def __init__(self, loop: "_Uvloop", when: float, call: Callable[[], object]) -> None:
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


class _Uvloop(uvloop.Loop):
    """uvloop, whose own timers know nothing of a clock that is moved."""

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
        """Fire what is due since the clock was moved, in its order."""
        now = self.time()
        for timer in sorted(self.timers, key=_Timer.when):
            if timer.when() <= now:
                self.call_soon(timer.fire)
