"""A clock that stands still until the test moves it, for tests whose subject is a time limit.

It takes the place of `time.monotonic`, by which asyncio's own loops and this package tell time.
Processes and pipes are as real as ever: only timers wait for the test. Enter it before the
extension is made. While it runs it is the real clock; `stop` it before the moment that counts.
Not for uvloop, whose time is the kernel's.

The limit on the test itself is a timer of the same loop: move the clock by seconds, not minutes.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from exthost.session import alarm

_real = time.monotonic


class Clock:
    """Runs with the real clock until it is stopped."""

    def __init__(self) -> None:
        self._stands_at: float | None = None

    def now(self) -> float:
        return _real() if self._stands_at is None else self._stands_at

    def stop(self) -> None:
        """Stand still."""
        self._stands_at = self.now()

    def move(self, seconds: float) -> None:
        """Move on by so much. What is due by then happens when the loop turns next."""
        assert self._stands_at is not None, "a clock that runs cannot be moved"
        self._stands_at += seconds

    async def advance(self, seconds: float) -> None:
        """Move on by so much, and let everything happen that is due by then."""
        self.move(seconds)
        await turns()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait in real time for something that nobody tells us about; the test bounds it."""
        while not condition():
            await asyncio.sleep(0)  # the loop looks at its pipes
            time.sleep(0.001)  # noqa: ASYNC251 - a timer of the loop's would never come


async def turns(times: int = 5) -> None:
    """Let the loop turn so often: enough for a timer, what it wakes, and what that wakes."""
    for _ in range(times):
        await asyncio.sleep(0)


@contextmanager
def clock() -> Iterator[Clock]:
    """The clock of this process, from now on; the real one is back afterwards."""
    ours = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", ours.now)
        patch.setattr(alarm, "_found", [None])  # a timer of the kernel's has the kernel's time
        yield ours
