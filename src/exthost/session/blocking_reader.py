"""Lets a caller of the blocking API (`SyncHost`) read the reply to its own call.

Usually the thread of the event loop reads all replies. For a caller that blocks its own thread,
that means two switches between threads in each call, which take longer than everything else. So
after a few calls, if no other call is in flight, the event loop lends the child's stdout to its
callers. A caller then sends its request, reads the reply and ends its call, without the event loop.

A caller handles only the plain case: one read returns the result of its call and nothing else.
Anything else that it reads is left to the event loop, which takes the pipe back. The event loop
also takes it back when it waits for a reply itself, and when no caller has handled a reply for a
moment: then there are no calls, or a call takes so long that a switch does not matter.
"""

from _thread import LockType, allocate_lock
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from exthost.process.stdout_loan import StdoutLoan
from exthost.process.stdout_reader import StdoutReader
from exthost.session.call import Call
from exthost.session.call_owner import CallOwner
from exthost.session.conversation import NOT_TAKEN, Conversation
from exthost.session.phase import Phase

NO_REPLY: Any = object()
"""What `BlockingReader.read_reply` returns instead of a value."""

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

# The event loop takes the pipe back when no caller has handled a reply for this long. So a message
# that the child sends between two calls may be read late, by up to twice this time.
_UNUSED_SECONDS = 0.02


def make_blocking_reader(
    reader: StdoutReader, conversation: Conversation, owner: CallOwner
) -> "BlockingReader | None":
    """Return the object for the blocking callers of one session. Return None if no calls come from
    other threads, if the owner chooses among several processes by their replies, or if replies
    have no ids, so that all output must be read in order."""
    if not owner.is_shared or owner.is_pool or conversation.dialect.traits.positional:
        return None
    return BlockingReader(reader, conversation, owner)


class BlockingReader:
    """Lends the stdout of one session to blocking callers."""

    __slots__ = (
        "_calls_per_loan",
        "_calls_until_loan",
        "_conversation",
        "_is_lent",
        "_is_requested",
        "_loop",
        "_owner",
        "_reader",
    )

    def __init__(self, reader: StdoutReader, conversation: Conversation, owner: CallOwner) -> None:
        self._reader = reader
        self._conversation = conversation
        self._owner = owner
        self._loop = owner.loop
        self._calls_per_loan = _FIRST_CALLS  # how many calls the event loop serves before a loan
        self._calls_until_loan = _FIRST_CALLS  # how many of them are left until the next loan
        self._is_requested = False
        self._is_lent = False  # whether there was a loan when this was last looked at

    # -- on the thread of a caller -----------------------------------------------------------

    def read_reply(self, call: Call, seconds: float) -> Any:
        """Read the reply to this call, end the call, and return its value. Return NO_REPLY if no
        reply arrived in this time, or if the event loop will end the call."""
        loan = self._reader.loan
        if loan is None or not call.reply_handler.is_simple:
            return NO_REPLY
        # Only the caller that has the turn reads. If another caller has it, two calls are in
        # flight, which is not the plain case: the event loop takes the pipe back.
        if loan.turn.acquire(False):
            try:
                if not loan.wait(seconds):
                    return NO_REPLY
                with loan.busy:  # the event loop waits a moment for this lock to take the pipe back
                    data = loan.read()
                    value = NO_REPLY if data is None else self._end_call(call, data)
                    if value is not NO_REPLY:
                        loan.handled()
                        return value
                    loan.decline()
            finally:
                loan.turn.release()
        self._call_soon(self._reader.take_back)
        return NO_REPLY

    def _end_call(self, call: Call, data: bytes) -> Any:
        """If the data is the result of this call and nothing else, end the call and return its
        value; otherwise return NO_REPLY. Only a frame that is one line is recognised here."""
        is_one_line = data.find(b"\n") == len(data) - 1
        if not is_one_line or len(data) > self._conversation.max_message:
            return NO_REPLY
        value = self._conversation.receive_result(call, data, self._owner.may_complete_on_thread)
        if value is NOT_TAKEN:
            return NO_REPLY
        self._owner.complete_on_thread(call)
        if self._owner.has_waiting:
            self._call_soon(self._owner.pump)
        return value

    def count_call(self) -> None:
        """Count a call whose reply the event loop has read. After a few of them request a loan, and
        wait for the decision: the pipe is not lent while a call is in flight."""
        if self._is_lent and self._reader.loan is None:
            self._is_lent = False
            self._restart_count(lasted=self._reader.reads_of_last_loan >= _LASTING_READS)
        self._calls_until_loan -= 1
        if self._calls_until_loan <= 0 and not self._is_requested:
            self._is_requested = True
            # Not an Event: if a signal handler raises inside its `wait`, a RuntimeError of its lock
            # may come out instead.
            undecided = allocate_lock()
            undecided.acquire()
            self._call_soon(lambda: self._lend(undecided))
            undecided.acquire(timeout=_REQUEST_SECONDS)

    def _restart_count(self, *, lasted: bool) -> None:
        """Count the calls until the next loan from the start."""
        self._calls_per_loan = _FIRST_CALLS if lasted else min(2 * self._calls_per_loan, _MAX_CALLS)
        self._calls_until_loan = self._calls_per_loan

    def _call_soon(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the event loop is closed, and no call is open any more
            self._loop.call_soon_threadsafe(function)

    # -- on the thread of the event loop -----------------------------------------------------

    def _lend(self, undecided: LockType) -> None:
        """Lend the pipe if no call is in flight, and tell the caller that waits for the
        decision."""
        conversation, reader = self._conversation, self._reader
        loan = None
        if conversation.phase is Phase.OPEN and conversation.is_idle:
            loan = reader.lend()
        if loan is None:
            self._restart_count(lasted=False)
        else:
            self._is_lent = True
            self._loop.call_later(_UNUSED_SECONDS, self._take_back_if_unused, loan, 0)
            if conversation.pending:  # sent just now, by a caller that did not see the loan
                reader.take_back()
        self._is_requested = False
        undecided.release()

    def _take_back_if_unused(self, loan: StdoutLoan, reads: int) -> None:
        if self._reader.loan is not loan:
            return
        if loan.reads == reads:
            self._reader.take_back()
        else:
            self._loop.call_later(_UNUSED_SECONDS, self._take_back_if_unused, loan, loan.reads)
