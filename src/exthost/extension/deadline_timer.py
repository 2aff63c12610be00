"""A timer for call deadlines that costs the event loop nothing until it fires.

While asyncio's own loop has any timer at all, it reads the clock twice in each iteration. Every
call has a deadline, so each call would pay for that (docs/architecture.md has the figures). On
Linux the deadlines of a loop therefore share one kernel timer (timerfd), whose file descriptor the
loop polls like a pipe. Elsewhere, and on loops whose timers cost nothing (uvloop), the timer is a
plain timer of the loop.
"""

import asyncio
import math
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, Protocol

# Constants of Linux, from <time.h> and <sys/timerfd.h>. loop.time() reads the same clock.
_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK_CLOEXEC = 0o2004000
_TFD_TIMER_ABSTIME = 1

# The earliest time to which a kernel timer is set: a time of zero would disarm it.
_MIN_TIME = 1e-6

# The latest time to which a kernel timer is set: 30 years after the machine was started. The kernel
# refuses numbers that are too large for it. A timer of a later time fires then in vain.
_MAX_TIME = 1e9


class DeadlineTimer(Protocol):
    """A timer that fires once. Setting it again replaces the time."""

    def set(self, when: float) -> None:
        """Fire at this time of the loop's clock."""

    def cancel(self) -> None:
        """Cancel the timer, and release its resources."""


def make_deadline_timer(
    loop: asyncio.AbstractEventLoop, on_time: Callable[[], None]
) -> DeadlineTimer:
    """Return a timer that calls `on_time` on the loop's thread."""
    if isinstance(loop, asyncio.BaseEventLoop) and _find_timerfd() is not None:
        return _KernelTimer(loop, on_time)
    return _LoopTimer(loop, on_time)


class _LoopTimer:
    """A timer made of `loop.call_at`."""

    __slots__ = ("_handle", "_loop", "_on_time")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_time: Callable[[], None]) -> None:
        self._loop = loop
        self._on_time = on_time
        self._handle: asyncio.TimerHandle | None = None

    def set(self, when: float) -> None:
        self.cancel()
        self._handle = self._loop.call_at(when, self._on_time)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class _KernelTimer:
    """One of the timers that share the kernel timer of their loop. `when` is the loop time at which
    the timer fires; infinity if it is not set."""

    __slots__ = ("__weakref__", "_loop", "on_time", "when")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_time: Callable[[], None]) -> None:
        self._loop = loop
        self.on_time = on_time
        self.when = math.inf

    def set(self, when: float) -> None:
        self.when = when
        clock = _clocks.get(self._loop)
        if clock is None:
            clock = _clocks[self._loop] = _KernelClock(self._loop)
        clock.add(self)

    def cancel(self) -> None:
        self.when = math.inf
        clock = _clocks.get(self._loop)
        if clock is not None:
            clock.remove(self)


class _KernelClock:
    """The kernel timer of one loop. It exists while one of its timers is set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        timerfd = _find_timerfd()
        assert timerfd is not None
        self._timerfd = timerfd
        # Weak, so that a loop with a set timer can be garbage-collected.
        self._loop = weakref.ref(loop)
        # Weak, because the timers belong to call queues, which refer to the loop.
        self._timers: weakref.WeakSet[_KernelTimer] = weakref.WeakSet()
        self._fd = timerfd.create()  # -1 when it is closed
        self._fires_at = math.inf  # loop time; infinity if the kernel timer is not set
        loop.add_reader(self._fd, self._on_time)

    def add(self, timer: _KernelTimer) -> None:
        self._timers.add(timer)
        self._fire_by(timer.when)

    def remove(self, timer: _KernelTimer) -> None:
        self._timers.discard(timer)
        if not self._timers:
            self._close()

    def _fire_by(self, when: float) -> None:
        """Fire at this time or earlier. The kernel timer is not moved when a timer is moved or
        cancelled: it then fires in vain, which costs less than a search at each change."""
        if when < self._fires_at:
            self._fires_at = when
            self._timerfd.set(self._fd, min(when, _MAX_TIME))

    def _on_time(self) -> None:
        """Fire the timers that are due, and set the kernel timer for the next one."""
        loop = self._loop()
        assert loop is not None, "the loop itself calls this"
        now = loop.time()
        due_timers = sorted(
            (timer for timer in self._timers if timer.when <= now), key=lambda timer: timer.when
        )
        # The descriptor stays readable until `_fire_by` sets the timer again, or `_close` closes
        # it.
        self._fires_at = math.inf
        try:
            for timer in due_timers:
                if timer.when <= now:  # the callback of an earlier timer may have moved this one
                    self._timers.discard(timer)
                    timer.on_time()
        finally:  # if a callback has raised, the rest of the due timers fire next
            if self._timers and self._fd >= 0:
                self._fire_by(min(timer.when for timer in self._timers))
            elif self._fd >= 0:  # otherwise a callback has cancelled the last timer
                self._close()

    def _close(self) -> None:
        loop = self._loop()
        if self._fd >= 0:
            if loop is not None:
                _clocks.pop(loop, None)
                if not loop.is_closed():
                    loop.remove_reader(self._fd)
            self._timerfd.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:  # the loop was garbage-collected with timers set
            self._timerfd.close(self._fd)


_clocks: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _KernelClock]" = (
    weakref.WeakKeyDictionary()
)


class _Timerfd(Protocol):
    def create(self) -> int: ...
    def set(self, fd: int, when: float) -> None: ...
    def close(self, fd: int) -> None: ...


# Empty until `_find_timerfd` was called; then its result.
_cached_timerfd: list[Any] = []


def _find_timerfd() -> _Timerfd | None:
    """Return the functions for kernel timers, or None where the system has none."""
    if not _cached_timerfd:
        try:
            _cached_timerfd.append(_load_timerfd())
        except (OSError, AttributeError, ImportError):  # an old kernel or C library, or no ctypes
            _cached_timerfd.append(None)
    cached: _Timerfd | None = _cached_timerfd[0]
    return cached


def _load_timerfd() -> _Timerfd | None:
    # `_LibcTimerfd` passes a struct whose fields have 64 bits only on 64-bit systems.
    if sys.platform != "linux" or sys.maxsize <= 2**32:
        return None
    if sys.version_info >= (3, 13) and hasattr(os, "timerfd_create"):
        return _OsTimerfd()
    return _LibcTimerfd()


class _OsTimerfd:
    """timerfd from the `os` module, which Python has since 3.13."""

    def __init__(self) -> None:
        self.close = os.close
        self.close(self.create())  # raises if the kernel refuses

    def create(self) -> int:
        fd: int = os.timerfd_create(  # type: ignore[attr-defined,unused-ignore]
            _CLOCK_MONOTONIC,
            flags=_TFD_NONBLOCK_CLOEXEC,
        )
        return fd

    def set(self, fd: int, when: float) -> None:
        os.timerfd_settime(  # type: ignore[attr-defined,unused-ignore]
            fd,
            flags=_TFD_TIMER_ABSTIME,
            initial=max(when, _MIN_TIME),
            interval=0,
        )


class _LibcTimerfd:
    """timerfd from the C library, for Python 3.11 and 3.12."""

    def __init__(self) -> None:
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        self._create: Callable[..., int] = library.timerfd_create
        self._settime: Callable[..., int] = library.timerfd_settime
        self._spec = ctypes.c_long * 4  # struct itimerspec: interval (not used) and first expiry
        self._errno: Callable[[], int] = ctypes.get_errno
        self.close = os.close
        self.close(self.create())  # raises if the kernel refuses

    def create(self) -> int:
        fd = self._create(_CLOCK_MONOTONIC, _TFD_NONBLOCK_CLOEXEC)
        if fd < 0:
            raise OSError(self._errno(), "no timer could be made")
        return fd

    def set(self, fd: int, when: float) -> None:
        seconds, fraction = divmod(max(when, _MIN_TIME), 1.0)
        spec = self._spec(0, 0, int(seconds), int(fraction * 1e9))
        if self._settime(fd, _TFD_TIMER_ABSTIME, spec, None) < 0:
            raise OSError(self._errno(), "the timer could not be set")
