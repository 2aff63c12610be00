"""One call of an extension: its request, its deadline, and the object that handles its reply.

A `Call` exists from the moment the host accepts the call until it ends. It may wait in the call
queue, is sent to a process through a session, and may be sent once more if that process dies.

A call ends exactly once. The code that sets `ended` then calls `deliver` with the value or `reject`
with the error, unless the caller itself has read the value; subclasses pass the value or error on
to the caller. The call queue counts the outcome.
"""

from typing import Any

from exthost.dialects.meanings import OnProgress
from exthost.errors import ExthostError
from exthost.model.messages import Id, Noise
from exthost.session.replies import ReplyHandler


class Call:
    """One call of one extension. `timeout` is in seconds, `deadline` a time of the loop's clock.

    Fields that most calls leave at their default are class attributes, because setting each of
    them would be a measurable part of a call.
    """

    ended = False
    id: Id | None = None  # the id of its request in flight
    session: Any = None  # the session it was sent through; None if not sent, or if that ended
    first_error: ExthostError | None = None  # the error of the first attempt, if it may be resent
    was_resent: bool = False  # whether it was sent to a second process
    is_start_unpublished = False  # its `CallStarted` has subscribers and is still to be published
    internal = False  # made by the host itself: neither counted nor published
    # The deadline of the whole call, if the request in flight has a deadline of its own
    # (`limit_request`); else None.
    final_deadline: float | None = None
    extended = 0.0  # the seconds by which progress reports have moved the deadline
    # Output with the id of this call that is not a valid message, and that id: it may have been
    # meant as the reply.
    unreadable_reply: tuple[Id, Noise] | None = None
    has_error_result = False  # it ended with a result that its dialect marks as an error
    context: Any = None  # values of the caller, which events carry
    tool = ""  # the own name of the tool that it calls
    trace_number: int | None = None  # its number in a trace; None if it is not traced
    on_progress: OnProgress | None = None  # called with each progress report

    def __init__(
        self,
        method: str,
        params: Any,
        reply_handler: ReplyHandler,
        timeout: float,
        now: float,
    ) -> None:
        self.method = method
        self.params = params
        self.reply_handler = reply_handler
        self.timeout = timeout
        self.started_at = now  # when the call was accepted
        self.deadline = now + timeout

    @property
    def has_own_timer(self) -> bool:
        """Whether the caller itself ends the call at its deadline, by `expire` of the queue."""
        return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.method} id={self.id} ended={self.ended}>"

    def deliver(self, value: Any) -> None:
        """Give the caller the value that its call ended with."""
        raise NotImplementedError

    def reject(self, error: BaseException) -> None:
        """Give the caller the error that its call ended with."""
        raise NotImplementedError

    def limit_request(self, deadline: float | None) -> None:
        """Give the request in flight its own deadline. None restores the deadline of the call."""
        if self.final_deadline is None:
            self.final_deadline = self.deadline
        self.deadline = self.final_deadline if deadline is None else deadline

    def extend_deadline(self, now: float, max_seconds: float) -> None:
        """Start the time limit again, but allow at most this many seconds in total."""
        deadline = max(self.deadline, min(now + self.timeout, self.started_at + max_seconds))
        self.extended += deadline - self.deadline
        self.deadline = deadline


class FutureCall(Call):
    """A call whose outcome goes to a future. The host uses it for its own requests, such as the
    handshake."""

    def __init__(
        self,
        method: str,
        params: Any,
        reply_handler: ReplyHandler,
        timeout: float,
        now: float,
        future: Any,
    ) -> None:
        super().__init__(method, params, reply_handler, timeout, now)
        self.future = future  # an asyncio future, or an object with the same methods

    def deliver(self, value: Any) -> None:
        if not self.future.done():  # the caller may have given up at the same moment
            self.future.set_result(value)

    def reject(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)
