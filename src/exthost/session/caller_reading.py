"""Lets a blocking caller read the reply to its own call.

Usually the thread of the event loop reads all replies. For a caller that blocks its own thread,
that means two switches between threads in each call, which take longer than everything else. So
after a few calls that were made one at a time, the event loop lends the child's stdout to its
callers. A caller then sends its request, reads the reply and ends its call, while the event loop
sleeps.

A caller handles only the plain case: one read returns the result of its call and nothing else. In
every other case the event loop takes the pipe back and handles what was read. It also takes the
pipe back when it waits for a reply itself, and when no caller has read for a moment.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from exthost.process.stdout_loan import StdoutLoan
from exthost.process.stdout_reader import StdoutReader
from exthost.session.call import Call
from exthost.session.call_owner import CallOwner
from exthost.session.conversation import Conversation
from exthost.session.phase import Phase
from exthost.session.replies import DELIVER, Switch

NO_REPLY: Any = object()
"""What `CallerReading.read_reply` returns instead of a value."""

# The pipe is lent after this many calls whose replies the event loop has read.
_FIRST_CALLS = 3

# After a loan that did not last, or that was refused, twice as many calls are needed for the next
# one, up to this number: lending and taking back cost more than a call.
_MAX_CALLS = 4096

# A loan with fewer reads than this did not last.
_LASTING_READS = 64

# How long a caller waits for a loan that it has requested. The event loop decides in much less than
# a millisecond, unless it is busy.
_REQUEST_SECONDS = 0.01

# The event loop takes the pipe back when no caller has read for this long. So a message that the
# child sends between two calls may be read late, by up to twice this time.
_UNUSED_SECONDS = 0.02


def make_caller_reading(
    reader: StdoutReader, conversation: Conversation, owner: CallOwner
) -> "CallerReading | None":
    """Return the object for the blocking callers of one session. Return None if the owner has none,
    or has several processes, among which it chooses by their replies."""
    if not owner.is_shared or owner.is_pool:
        return None
    return CallerReading(reader, conversation, owner)


class CallerReading:
    """Lends the stdout of one session to blocking callers."""

    __slots__ = (
        "_conversation",
        "_decode",
        "_is_requested",
        "_last_loan",
        "_loop",
        "_missing_calls",
        "_needed_calls",
        "_owner",
        "_reader",
    )

    def __init__(self, reader: StdoutReader, conversation: Conversation, owner: CallOwner) -> None:
        self._reader = reader
        self._conversation = conversation
        self._decode = conversation.decode  # without an observer
        self._owner = owner
        self._loop = owner.loop
        self._needed_calls = _FIRST_CALLS
        self._missing_calls = _FIRST_CALLS  # until the next loan is requested
        self._is_requested = False
        self._last_loan: StdoutLoan | None = None

    # -- on the thread of a caller -----------------------------------------------------------

    def read_reply(self, call: Call, seconds: float) -> Any:
        """Read the reply to this call, end the call, and return its value. Return NO_REPLY if no
        reply came in this time, or if the event loop will end the call."""
        loan = self._reader.loan
        if loan is None:
            return NO_REPLY
        try:
            if loan.begin():
                data = loan.read(seconds)
                if data is not None:
                    value = self._end_call(call, data)
                    if value is not NO_REPLY:
                        loan.handled()
                        return value
                elif not loan.is_over and not loan.data:
                    return NO_REPLY  # nothing came in this time
        finally:
            loan.stop()
        self._call_soon(self._reader.take_back)
        return NO_REPLY

    def _end_call(self, call: Call, data: bytes) -> Any:
        """If the data is the result of this call and nothing else, end the call and return its
        value; otherwise return NO_REPLY."""
        is_one_line = data.find(b"\n") == len(data) - 1
        if not is_one_line or len(data) > self._conversation.max_message:
            return NO_REPLY
        try:
            message = self._decode(data)
            if type(message) is not tuple or message[0] != call.id:
                return NO_REPLY
            value = message[1]
            if call.on_reply is not DELIVER:
                value = call.on_reply.on_result(call.params, value)
        except Exception:  # the event loop handles the data again, and reports the error
            return NO_REPLY
        if type(value) is Switch or not self._owner.complete_on_thread(call, value):
            return NO_REPLY
        if self._owner.has_waiting:
            self._call_soon(self._owner.pump)
        return value

    def stop(self) -> None:
        """Stop to read, on a thread that was interrupted by an exception."""
        loan = self._reader.loan
        if loan is not None:
            loan.stop()

    def count_call(self) -> None:
        """Count a call whose reply the event loop has read. After a few of them request a loan, and
        wait for the decision: the pipe is not lent while a call is in flight."""
        loan = self._last_loan
        if loan is not None and loan.is_over:
            self._last_loan = None
            self._count_again(lasted=loan.reads >= _LASTING_READS)
        self._missing_calls -= 1
        if self._missing_calls <= 0 and not self._is_requested:
            self._is_requested = True
            decided = threading.Event()
            self._call_soon(lambda: self._lend(decided))
            decided.wait(_REQUEST_SECONDS)

    def _count_again(self, *, lasted: bool) -> None:
        """Count the calls until the next loan from the start."""
        self._needed_calls = _FIRST_CALLS if lasted else min(2 * self._needed_calls, _MAX_CALLS)
        self._missing_calls = self._needed_calls

    def _call_soon(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the event loop is closed, and no call is open any more
            self._loop.call_soon_threadsafe(function)

    # -- on the thread of the event loop -----------------------------------------------------

    def _lend(self, decided: threading.Event) -> None:
        conversation, reader = self._conversation, self._reader
        loan = None
        if conversation.phase is Phase.OPEN and conversation.is_idle:
            loan = reader.lend()
        if loan is None:
            self._count_again(lasted=False)
        else:
            self._last_loan = loan
            self._loop.call_later(_UNUSED_SECONDS, self._check, loan, 0)
            if conversation.pending:  # sent just now, by a caller that did not see the loan
                reader.take_back()
        self._is_requested = False
        decided.set()

    def _check(self, loan: StdoutLoan, reads: int) -> None:
        """Take the pipe back if no caller reads it any more."""
        if self._reader.loan is loan:
            if loan.reads == reads and not loan.is_in_use():
                self._reader.take_back()
            else:
                self._loop.call_later(_UNUSED_SECONDS, self._check, loan, loan.reads)
