"""An alarm for a desk: rings at a time, and costs a loop nothing until then.

While asyncio's own loop has any timer at all, it looks at the clock twice in each of its turns:
7 % of a call, measured, and a call always has a deadline. So on Linux the alarms of a loop hang on
one timer of the kernel's, which the loop merely reads like a pipe. Elsewhere, and on loops whose
timers cost nothing (uvloop), an alarm is a plain timer of the loop.
"""

import asyncio
import math
import sys
from collections.abc import Callable
from typing import Any, Protocol

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK_CLOEXEC = 0o2004000
_TFD_TIMER_ABSTIME = 1
_ATTRIBUTE = "_exthost_clock"


class Alarm(Protocol):
    """Set again, it rings at the new time only."""

    def set(self, when: float) -> None:
        """Ring at this time of the loop's clock."""

    def clear(self) -> None:
        """Do not ring. What it held is let go of."""


def alarm(loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> Alarm:
    """An alarm that calls `ring`, on the loop's thread."""
    if isinstance(loop, asyncio.BaseEventLoop) and _kernel_timers() is not None:
        return _KernelAlarm(loop, ring)
    return _LoopAlarm(loop, ring)


class _LoopAlarm:
    """A timer of the loop's own."""

    __slots__ = ("_loop", "_ring", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, when: float) -> None:
        self.clear()
        self._timer = self._loop.call_at(when, self._ring)

    def clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _KernelAlarm:
    """One of the alarms that hang on a loop's kernel timer."""

    __slots__ = ("_loop", "ring", "when")

    def __init__(self, loop: asyncio.BaseEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self.ring = ring
        self.when = 0.0

    def set(self, when: float) -> None:
        self.when = when
        clock: _Clock | None = getattr(self._loop, _ATTRIBUTE, None)
        if clock is None:
            clock = _Clock(self._loop)
            setattr(self._loop, _ATTRIBUTE, clock)  # so that it goes when its loop goes
        clock.add(self)

    def clear(self) -> None:
        clock: _Clock | None = getattr(self._loop, _ATTRIBUTE, None)
        if clock is not None:
            clock.remove(self)


class _Clock:
    """The kernel timer of one loop; it is there while an alarm is set."""

    def __init__(self, loop: asyncio.BaseEventLoop) -> None:
        timers = _kernel_timers()
        assert timers is not None
        self._timers = timers
        self._loop = loop
        self._alarms: set[_KernelAlarm] = set()
        self._fd = timers.create()
        self._set_for = math.inf
        loop.add_reader(self._fd, self._on_time)

    def add(self, alarm: _KernelAlarm) -> None:
        self._alarms.add(alarm)
        self._ring_by(alarm.when)

    def remove(self, alarm: _KernelAlarm) -> None:
        self._alarms.discard(alarm)
        if not self._alarms:
            self._close()

    def _ring_by(self, when: float) -> None:
        """It may also ring for an alarm that was set anew or taken away: then it finds that out,
        which costs less than to look through all alarms whenever one changes."""
        if when < self._set_for:
            self._set_for = when
            self._timers.set(self._fd, when)

    def _on_time(self) -> None:
        now = self._loop.time()
        due = sorted(
            (alarm for alarm in self._alarms if alarm.when <= now), key=lambda alarm: alarm.when
        )
        self._set_for = math.inf  # setting it anew also takes back that it has rung
        for alarm in due:
            # One that rang before it may have cleared it or put it off.
            if alarm in self._alarms and alarm.when <= now:
                self._alarms.discard(alarm)
                alarm.ring()
        if getattr(self._loop, _ATTRIBUTE, None) is not self:
            return
        if self._alarms:
            self._ring_by(min(alarm.when for alarm in self._alarms))
        else:
            self._close()

    def _close(self) -> None:
        if getattr(self._loop, _ATTRIBUTE, None) is self:
            delattr(self._loop, _ATTRIBUTE)
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
            self._timers.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:  # its loop was dropped with alarms set
            self._timers.close(self._fd)


class _Timers(Protocol):
    """What the kernel has to offer."""

    def create(self) -> int: ...
    def set(self, fd: int, when: float) -> None: ...
    def close(self, fd: int) -> None: ...


_found: list[Any] = []


def _kernel_timers() -> _Timers | None:
    """The kernel's timers, where there are any and Python or the C library lets us have them."""
    if not _found:
        try:
            _found.append(_Timerfd() if sys.platform == "linux" and sys.maxsize > 2**32 else None)
        except (OSError, AttributeError, ImportError):
            _found.append(None)
    found: _Timers | None = _found[0]
    return found


class _Timerfd:
    """timerfd, by way of the C library: Python has it only from 3.13 on."""

    def __init__(self) -> None:
        import ctypes
        import os

        library = ctypes.CDLL(None, use_errno=True)
        self._create: Callable[..., int] = library.timerfd_create
        self._settime: Callable[..., int] = library.timerfd_settime
        self._spec = ctypes.c_long * 4  # an interval, which we do not use, and a time
        self._errno: Callable[[], int] = ctypes.get_errno
        self.close = os.close
        self.close(self.create())

    def create(self) -> int:
        fd = self._create(_CLOCK_MONOTONIC, _TFD_NONBLOCK_CLOEXEC)
        if fd < 0:
            raise OSError(self._errno(), "no timer could be made")
        return fd

    def set(self, fd: int, when: float) -> None:
        seconds, rest = divmod(max(when, 1e-6), 1.0)  # zero would switch it off
        spec = self._spec(0, 0, int(seconds), int(rest * 1e9))
        if self._settime(fd, _TFD_TIMER_ABSTIME, spec, None) < 0:
            raise OSError(self._errno(), "the timer could not be set")
