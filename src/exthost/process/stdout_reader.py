"""Reads the stdout of a process, and passes the frames to the callback `on_items`.

Small reads use `os.read`. Inside a large frame, bytes are read directly into the memory of the
frame. Reading can be paused: the pipe then fills, and the process blocks (back-pressure).

**Fairness.** No caller waits for log messages, nor for lines that are not messages of the protocol,
but they take time of the event loop. A read with many of these unawaited lines is a flood: its
frames are passed on in slices of a small fraction of a millisecond, with pauses in which the event
loop serves other extensions.

**Loans.** The event loop can lend the pipe to other threads (`stdout_loan.py`). It does not watch
the pipe until it takes it back.
"""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from os import read
from time import perf_counter

from exthost.process.large_reads import allocate_message, read_large, widen
from exthost.process.stdout_loan import CAN_LEND, StdoutLoan
from exthost.wire.framing import READ_BYTES, Framing, Item

# How long the memory of a large message is kept, so that the next message can use it.
_KEPT_SECONDS = 1.0

# How much of the first output is kept: enough to recognise a dialect, and a mistake in the first
# message.
FIRST_BYTES = 1024

# After a read with more unawaited lines than this, frames are passed on in slices. A banner or a
# traceback has fewer lines.
_FLOOD_LINES = 64

# How long one slice may take, after how many slices there is a pause, and how long that pause is
# (the resolution of the timers of an event loop). The event loop serves others between two slices,
# too. So an extension that writes log messages without end is read at some thousands a second.
_SLICE_SECONDS = 0.00003
_SLICES = 2
_SLICE_PAUSE_SECONDS = 0.001

# The size of a read during a flood.
_FLOOD_READ_BYTES = 4096

# At the end of a loan, how long the event loop waits for a thread that is busy with what it has
# read, which takes some microseconds. If it is still busy (it runs a signal handler, or gets no
# processor), the event loop does other work for a longer time, and then takes the data from it.
_STOP_SECONDS = 0.002
_BUSY_SECONDS = 0.05

# `_pending` of all readers whose output is not a flood. This list is never changed.
_NO_ITEMS: list[Item] = []


class StdoutReader:
    """Reads one pipe. `on_items` gets the frames of each read, `on_end` is called at the end of the
    pipe."""

    __slots__ = (
        "_fd",
        "_framing",
        "_is_returning",
        "_is_wide",
        "_keeps_first_output",
        "_loop",
        "_memory_timer",
        "_on_end",
        "_pending",
        "_slice_timer",
        "_slices",
        "first_output",
        "is_closed",
        "is_flooded",
        "is_reading",
        "loan",
        "may_lend",
        "on_items",
        "reads_of_last_loan",
        "unawaited_lines",
    )

    def __init__(
        self,
        fd: int,
        framing: Framing,
        loop: asyncio.AbstractEventLoop,
        on_items: Callable[[list[Item]], None],
        on_end: Callable[[], None],
    ) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._framing = framing
        self._loop = loop
        self.on_items = on_items
        self._on_end = on_end
        self._is_wide = False
        self._memory_timer: asyncio.TimerHandle | None = None
        self.first_output = b""  # the first FIRST_BYTES bytes, for a diagnosis of the handshake
        self._keeps_first_output = True
        self.is_reading = False
        self.is_closed = False
        self.is_flooded = False
        self.unawaited_lines = 0  # since the last read; `on_items` counts them
        self._pending = _NO_ITEMS  # frames of a flood, still to be passed on
        self._slice_timer: asyncio.TimerHandle | None = None
        self._slices = 0  # since the last pause
        self.loan: StdoutLoan | None = None  # while it is lent; `is_reading` is False then
        self._is_returning = False  # whether a loan has ended, and `loan` is still set
        self.reads_of_last_loan = 0
        self.may_lend = CAN_LEND

    def resume(self) -> None:
        """Start reading, or continue after `pause` or a loan."""
        if self.loan is not None:
            self.take_back()
        elif not self.is_reading and not self.is_closed:
            self.is_reading = True
            if self._pending:
                self._slice_timer = self._loop.call_later(0, self._pass_on_slice)
            else:
                self._loop.add_reader(self._fd, self.read_now)

    def finish(self, *, force: bool = False) -> None:
        """Read the rest without slices, after the process has exited. The pipe holds little, and
        nothing is added any more. `force` is as in `_end_loan`."""
        if self.loan is not None and not self._end_loan(force=force):
            self._loop.call_later(_BUSY_SECONDS, partial(self.finish, force=True))
            return
        self._stop_slices()
        items, self._pending = self._pending, _NO_ITEMS
        self.is_flooded = False
        if items and not self.is_closed:
            self.on_items(items)
        self.is_reading = False
        self.resume()

    def pause(self) -> None:
        """Stop reading until `resume`. The output stays in the pipe."""
        if self.is_reading:
            self.is_reading = False
            self._stop_slices()
            self._loop.remove_reader(self._fd)

    def close(self) -> None:
        """Stop reading for good, and drop the frames that were not passed on."""
        loan, self.loan = self.loan, None
        if loan is not None:
            loan.end()
        self.pause()
        self._pending = _NO_ITEMS
        self.is_closed = True

    def lend(self) -> StdoutLoan | None:
        """Let other threads read the pipe. Return None if that is not possible now."""
        is_plain = self.is_reading and not self.is_flooded and self._framing.is_at_line_start
        if not is_plain or not self.may_lend:
            return None
        try:
            self.loan = StdoutLoan(self._fd)
        except OSError:  # too many open files
            return None
        self.is_reading = self._is_returning = False
        self._loop.remove_reader(self._fd)
        return self.loan

    def take_back(self) -> None:
        """End the loan, if there is one, and read again as soon as no other thread does."""
        if self.loan is not None and not self._is_returning:
            self._is_returning = True
            self.loan.end()
            # Later, because a task may call this, and it must not resume other tasks.
            self._loop.call_soon(self._resume_after_loan)

    def _resume_after_loan(self, *, force: bool = False) -> None:
        if self.loan is not None and not self._end_loan(force=force):
            resume = partial(self._resume_after_loan, force=True)
            self._loop.call_later(_BUSY_SECONDS, resume)

    def _end_loan(self, *, force: bool) -> bool:
        """End the loan, read again, and pass on what was read and not handled. Return False if a
        thread is busy with what it has read, unless `force` is set."""
        assert self.loan is not None
        self.loan.end()
        returned = self.loan.take_data(_STOP_SECONDS, force=force)
        if returned is None:
            return False
        self.reads_of_last_loan = self.loan.reads
        self.loan = None
        self.resume()
        items = [item for data in returned for item in self._framing.feed(data)]
        self.on_items(items)  # even if there are none: a thread may have read the last reply
        return True

    def pass_to(self, on_items: Callable[[list[Item]], None], *, may_lend: bool) -> None:
        """Pass all further frames to this function. `may_lend`: it need not see every frame, so
        other threads may read some."""
        self.on_items, self.may_lend = on_items, may_lend and CAN_LEND
        if not may_lend:
            self.take_back()

    def forget_first_output(self) -> None:
        """Keep the first bytes no longer: no handshake needs an explanation any more."""
        self._keeps_first_output, self.first_output = False, b""

    def _stop_slices(self) -> None:
        if self._slice_timer is not None:
            self._slice_timer.cancel()
            self._slice_timer = None

    def read_now(self) -> None:
        """Read once, and pass on the frames that are complete."""
        framing = self._framing
        try:
            if framing.read_size > READ_BYTES:
                items = self._read_large()
            else:
                size = _FLOOD_READ_BYTES if self.is_flooded else framing.read_size
                data = read(self._fd, size)
                if self._keeps_first_output:
                    self.first_output += data[: FIRST_BYTES - len(self.first_output)]
                items = framing.feed(data) if data else None
        except BlockingIOError:
            return
        except OSError:
            items = None
        if items is None:
            self.pause()
            self._on_end()
        elif self.is_flooded and self.is_reading:
            self._loop.remove_reader(self._fd)
            self._pending = items
            self._pass_on_slice()
        elif items:
            self.on_items(items)
            if self.unawaited_lines:
                self.is_flooded, self.unawaited_lines = self.unawaited_lines > _FLOOD_LINES, 0
        if framing.read_size > READ_BYTES and not self._is_wide:
            self._is_wide = True
            widen(self._fd)

    def _pass_on_slice(self) -> None:
        """Pass on frames of a flood for a fraction of a millisecond, then pause."""
        self._slice_timer = None
        end = perf_counter() + _SLICE_SECONDS
        while self._pending and perf_counter() < end:
            first, self._pending = self._pending[:1], self._pending[1:]
            self.on_items(first)
            if not self.is_reading:
                return
        next_step = self._pass_on_slice if self._pending else self._read_again
        self._slices = (self._slices + 1) % _SLICES
        pause = 0.0 if self._slices else _SLICE_PAUSE_SECONDS
        self._slice_timer = self._loop.call_later(pause, next_step)

    def _read_again(self) -> None:
        self._slice_timer = None
        self.is_flooded, self.unawaited_lines = self.unawaited_lines > _FLOOD_LINES, 0
        if self.is_reading:
            self._loop.add_reader(self._fd, self.read_now)

    def _read_large(self) -> list[Item] | None:
        framing = self._framing
        buffer = framing.read_buffer(allocate_message)
        if buffer is None:
            data = read_large(self._fd)
            return framing.feed(data) if data else None
        if self._memory_timer is None:
            self._memory_timer = self._loop.call_later(_KEPT_SECONDS, self._release_memory)
        count = os.readv(self._fd, [buffer])
        return framing.commit(count) if count else None

    def _release_memory(self) -> None:
        self._memory_timer = None
        self._framing.release()
