"""A call whose outcome is passed to a function, in the step in which its reply is read.

For code of the host that serves other processes: no task waits, so the loop has no further turn
between the reply and what is done with it.
"""

from collections.abc import Callable
from typing import Any, Protocol

from exthost.session.call import Call
from exthost.session.replies import ReplyHandler

__all__ = ["CallbackCall", "OnEnd"]

OnEnd = Callable[[Any, BaseException | None], None]
"""Called with the value or the error that a call ended with. Must not raise."""


class Clock(Protocol):
    """What such a call needs of its queue."""

    now: Callable[[], float]


class CallbackCall(Call):
    """A call without a task."""

    def __init__(
        self,
        method: str,
        params: Any,
        on_reply: ReplyHandler,
        timeout: float,
        queue: Clock,
        on_end: OnEnd,
    ) -> None:
        super().__init__(method, params, on_reply, timeout, queue.now())
        self._on_end = on_end

    def deliver(self, value: Any) -> None:
        self._on_end(value, None)

    def reject(self, error: BaseException) -> None:
        self._on_end(None, error)
