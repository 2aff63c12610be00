"""Reads the stdout of a process, and passes the frames to the callback `on_items`.

A frame is one message of the protocol; a `Framing` cuts the output into frames. Small reads return
new bytes. Inside a large frame, bytes are read directly into the memory of the frame. Reading can
be paused: the pipe then fills, and the process blocks (back-pressure).

**Fairness.** Frames that no call waits for, such as log messages, take time of the event loop.
`on_items` adds their cost to `unawaited_units`. If it exceeds the budget (`flood_budget.py`), the
output is a flood: the reader waits in the queue of the event loop (`flood_queue.py`), and in each
turn reads little, and passes on frames for a fraction of a millisecond. Frames that serve a call
are passed on in the same turn, however many there are. A large frame is a flood from its first
bytes, if these show that it serves no call (`may_serve_call`). The same holds for every large frame
after one that seemed to serve a call and did not.

**Loans.** The event loop can lend the pipe to other threads (`stdout_loan.py`). It does not watch
the pipe until it takes it back.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter, thread_time

from exthost.process.flood_budget import PIPE_RATE, FloodBudget, message_units
from exthost.process.flood_queue import TurnEnd, flood_queue
from exthost.process.large_frame_queue import SHARED_READ_BYTES, large_frame_queue
from exthost.process.large_reads import allocate_message, read_large
from exthost.process.pipe_ends import ReadEnd
from exthost.process.stdout_loan import CAN_LEND, StdoutLoan
from exthost.wire.framing import LARGE_READ_BYTES, READ_BYTES, Framing, Item

# How long the memory of a large message is kept, so that the next message can use it.
_KEPT_SECONDS = 1.0

# How much of the first output is kept: enough to recognise a dialect, and a mistake in the first
# message.
FIRST_BYTES = 1024

# The most frames that are passed on before their cost is charged; this number takes well below a
# millisecond.
_ITEMS_AT_ONCE = 128

# The size of a read during a flood, and inside a frame that is large or too long.
_FLOOD_READ_BYTES = 4096
_FLOOD_LARGE_READ_BYTES = 64 * 1024

# At the end of a loan, a thread may still be busy with what it has read, which takes some
# microseconds. The event loop waits for it this long. If the thread is still busy (it runs a signal
# handler, or gets no processor), the event loop does other work for the second, longer time, and
# then takes the data from the thread.
_STOP_SECONDS = 0.002
_BUSY_SECONDS = 0.05

# The value of `_pending` in every reader whose output is not a flood. It stays empty. It is shared
# because an empty deque takes 760 bytes.
_NO_ITEMS: deque[Item] = deque()


class StdoutReader:
    """Reads one pipe.

    on_items        is called with the frames of each read
    on_end          is called at the end of the pipe
    may_serve_call  returns whether a large frame that begins with these bytes may serve a call
    """

    __slots__ = (
        "_framing",
        "_is_finishing",
        "_is_head_believed",
        "_is_returning",
        "_is_wide",
        "_keeps_first_output",
        "_large_frames",
        "_loop",
        "_may_serve_call",
        "_memory_timer",
        "_on_end",
        "_pending",
        "_pipe",
        "_queue",
        "budget",
        "first_output",
        "is_closed",
        "is_flooded",
        "is_reading",
        "loan",
        "may_lend",
        "on_items",
        "reads_of_last_loan",
        "unawaited_units",
    )

    def __init__(
        self,
        pipe: ReadEnd,
        framing: Framing,
        loop: asyncio.AbstractEventLoop,
        on_items: Callable[[list[Item]], None],
        on_end: Callable[[], None],
        may_serve_call: Callable[[bytes], bool],
    ) -> None:
        self._pipe = pipe
        self._framing = framing
        self._loop = loop
        self.on_items = on_items
        self._on_end = on_end
        self._may_serve_call = may_serve_call
        # Whether the first bytes of a large frame are believed if they look like those of a frame
        # that serves a call: until a frame has looked so, and served none.
        self._is_head_believed = True
        self._is_wide = False  # whether the pipe was enlarged
        self._memory_timer: asyncio.TimerHandle | None = None
        self.first_output = b""  # the first FIRST_BYTES bytes, for a diagnosis of the handshake
        self._keeps_first_output = True
        self.is_reading = False
        self.is_closed = False
        self.is_flooded = False
        self.unawaited_units = 0  # not charged yet; `on_items` adds to them
        self.budget = FloodBudget(PIPE_RATE)
        self._queue = flood_queue(loop)
        self._large_frames = large_frame_queue(loop)
        self._pending = _NO_ITEMS  # frames of a flood, still to be passed on
        self._is_finishing = False  # the process has exited: nothing more is written
        self.loan: StdoutLoan | None = None  # while it is lent; `is_reading` is False then
        self._is_returning = False  # whether a loan has ended, and `loan` is still set
        self.reads_of_last_loan = 0
        self.may_lend = CAN_LEND and pipe.fd >= 0

    def resume(self) -> None:
        """Start reading, or continue after `pause` or a loan."""
        if self.loan is not None:
            self.take_back()
        elif not self.is_reading and not self.is_closed:
            self.is_reading = True
            if self._pending:
                self._queue.add(self)
            else:
                self._pipe.watch(self._loop, self.read_now)

    def finish(self, *, force: bool = False) -> None:
        """Read the rest without waiting for a turn, after the process has exited. The pipe holds
        little, and nothing is added any more. `force` is as in `_end_loan`."""
        if self.loan is not None and not self._end_loan(force=force):
            self._loop.call_later(_BUSY_SECONDS, partial(self.finish, force=True))
            return
        self.pause()
        self._is_finishing = True
        self.is_flooded = False
        items, self._pending = list(self._pending), _NO_ITEMS
        if items and not self.is_closed:
            self.on_items(items)
        self.resume()

    def pause(self) -> None:
        """Stop reading until `resume`. The output stays in the pipe."""
        if self.is_reading:
            self.is_reading = False
            self._pipe.unwatch(self._loop)
            if self.is_flooded:
                self._queue.remove(self)
            self._large_frames.remove(self)

    def close(self) -> None:
        """Stop reading for good, and drop the frames that were not passed on."""
        loan, self.loan = self.loan, None
        if loan is not None:
            loan.end()
        self.pause()
        self._pending = _NO_ITEMS
        self._large_frames.readers.discard(self)
        self.is_closed = True

    def lend(self) -> StdoutLoan | None:
        """Let other threads read the pipe. Return None if that is not possible now."""
        is_plain = self.is_reading and not self.is_flooded and self._framing.is_at_line_start
        if not is_plain or not self.may_lend:
            return None
        try:
            self.loan = StdoutLoan(self._pipe.fd)
        except OSError:  # too many open files
            return None
        self.is_reading = self._is_returning = False
        self._pipe.unwatch(self._loop)
        return self.loan

    def take_back(self) -> None:
        """End the loan, if there is one, and read again as soon as no other thread does."""
        if self.loan is not None and not self._is_returning:
            self._is_returning = True
            self.loan.end()
            # Not now, but in the next iteration of the loop: a task may call this method, and
            # passing on frames inside that task could resume other tasks.
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

    def allow_loans(self, are_allowed: bool) -> None:
        """Set whether other threads may read frames. If not, `on_items` gets every frame."""
        self.may_lend = are_allowed and CAN_LEND and self._pipe.fd >= 0
        if not are_allowed:
            self.take_back()

    def forget_first_output(self) -> None:
        """Drop the first bytes. They were kept only to explain a handshake that fails."""
        self._keeps_first_output = False
        self.first_output = b""

    def read_now(self) -> None:
        """Read once, and pass on the frames that are complete. During a flood, wait for a turn."""
        if self.is_flooded:
            self._pipe.unwatch(self._loop)
            self._queue.add(self)
            return
        framing, data = self._framing, b""
        if framing.read_size > READ_BYTES:  # only inside a large frame
            if self._large_frames.is_shared(self):
                self._pipe.unwatch(self._loop)
                self._large_frames.add(self)
            else:
                self.read_large_frame(LARGE_READ_BYTES)
            return
        try:
            data = self._pipe.read(framing.read_size)
            if self._keeps_first_output:
                self.first_output += data[: FIRST_BYTES - len(self.first_output)]
            items = framing.feed(data) if data else None
        except BlockingIOError:
            return
        except OSError:
            items = None
        # `items` is None at the end of the pipe, and empty if no frame is complete.
        if items:
            if len(items) <= _ITEMS_AT_ONCE:
                self.on_items(items)
                if self.unawaited_units:
                    self._charge()
            else:
                self._pass_on_many(items)
        elif items is None:
            self._end()
        elif framing.is_discarding:  # inside a frame that is too long
            self.unawaited_units += message_units(len(data))
            self._charge()

    def read_large_frame(self, size: int = SHARED_READ_BYTES) -> bool:
        """Read once inside a large frame. Return whether it continues. Begin a flood if it serves
        no call."""
        if self._is_frame_unawaited():
            self.is_flooded = True
            self._large_frames.readers.discard(self)
            self._pipe.unwatch(self._loop)
            self._queue.add(self)
            return False
        try:
            items, _ = self._read_large(size)
        except BlockingIOError:
            self._pipe.watch(self._loop, self.read_now)
            return False
        except OSError:
            items = None
        if items is None:
            self._end()
            return False
        if self._framing.read_size > READ_BYTES and not items:
            return True
        self._pass_on_large(items)
        if self.is_reading and not self._pending:
            self._pipe.watch(self._loop, self.read_now)
        return False

    def _is_frame_unawaited(self) -> bool:
        """Return whether the large frame that has begun serves no call."""
        if self._is_finishing:
            return False
        return not (
            self._is_head_believed and self._may_serve_call(self._framing.incomplete_head())
        )

    def _end(self) -> None:
        self.pause()
        self._on_end()

    def _pass_on_large(self, items: list[Item]) -> None:
        """Pass on a large frame, and those after it in the same read. If they turn out to be a
        flood, charge the time that this took."""
        now, began = self._loop.time(), thread_time()
        self._pass_on_many(items)
        if self.is_flooded:
            self._is_head_believed = False
            self._queue.rest_after(self, thread_time() - began, now)

    def _pass_on_many(self, items: list[Item]) -> None:
        """Pass on the frames of one read in parts. Keep the rest if they are a flood."""
        for start in range(0, len(items), _ITEMS_AT_ONCE):
            self.on_items(items[start : start + _ITEMS_AT_ONCE])
            if self.is_closed:
                return
            if self.unawaited_units:
                self._charge()
                if self.is_flooded:
                    self._pending = deque(items[start + _ITEMS_AT_ONCE :])
                    if self.is_reading:
                        self._pipe.unwatch(self._loop)
                        self._queue.add(self)
                    return

    def _charge(self) -> None:
        """Charge the frames that served no call. Begin a flood if they exceed a budget."""
        units, self.unawaited_units = self.unawaited_units, 0
        now = self._loop.time()
        is_over = self.budget.charge(units, now)
        if not self.is_flooded and not self._is_finishing:
            self.is_flooded = self._queue.others.charge(units, now) or is_over

    def take_turn(self, end: float, *, may_be_long: bool) -> TurnEnd:
        """Pass on frames of a flood until this time of `perf_counter`, and read if there are none.
        Without `may_be_long`, pass on no frame that is larger than a read."""
        if not self._pending and not self._read_little():
            return TurnEnd.EMPTY
        while self._pending:
            if not may_be_long and len(self._pending[0]) > _FLOOD_READ_BYTES:
                return TurnEnd.LARGE
            self.on_items([self._pending.popleft()])
            if not self.is_reading or not self.is_flooded:  # paused, closed, or finished
                return TurnEnd.EMPTY
            if self.unawaited_units:
                self._charge()
                if perf_counter() >= end:
                    break
        return TurnEnd.MORE

    def _read_little(self) -> bool:
        """Read once during a flood. Return False if nothing is left: watch the pipe again, and end
        the flood if the budget allows it."""
        framing = self._framing
        is_unawaited = framing.is_discarding
        try:
            if framing.read_size > READ_BYTES:
                is_unawaited = self._is_frame_unawaited()
                items, count = self._read_large(_FLOOD_LARGE_READ_BYTES)
            else:
                size = _FLOOD_LARGE_READ_BYTES if is_unawaited else _FLOOD_READ_BYTES
                data = self._pipe.read(size)
                items, count = framing.feed(data) if data else None, len(data)
        except BlockingIOError:
            now = self._loop.time()
            self.is_flooded = not (
                self.budget.has_recovered(now) and self._queue.others.has_recovered(now)
            )
            self._pipe.watch(self._loop, self.read_now)
            return False
        except OSError:
            items = None
        if items is None:
            self._end()
            return False
        self._pending = deque(items)
        if not items and is_unawaited:
            self.unawaited_units += message_units(count)
            self._charge()
        return True

    def _read_large(self, size: int) -> tuple[list[Item] | None, int]:
        """Read once inside a large frame. Return the frames that are complete, None at the end of
        the pipe, and the number of bytes."""
        framing = self._framing
        if not self._is_wide and not self.is_flooded:
            self._is_wide = True
            self._pipe.widen()
        is_alone = not self.is_flooded and not self._large_frames.is_shared(self)
        buffer = framing.read_buffer(partial(allocate_message, in_huge_pages=is_alone))
        if buffer is None:
            data = read_large(self._pipe.read_into, size)
            items, count = framing.feed(data) if data else None, len(data)
        else:
            if self._memory_timer is None:
                self._memory_timer = self._loop.call_later(_KEPT_SECONDS, self._release_memory)
            count = self._pipe.read_into(buffer[:size])
            items = framing.commit(count) if count else None
        if framing.read_size > READ_BYTES and items is not None and not self.is_flooded:
            self._large_frames.readers.add(self)
        else:
            self._large_frames.readers.discard(self)
        return items, count

    def _release_memory(self) -> None:
        self._memory_timer = None
        self._framing.release()
