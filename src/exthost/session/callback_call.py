"""A call whose outcome is passed to a callback, synchronously when its reply is read.

The host uses it to answer requests of other processes, for example of a command line that has
connected to its control socket. No task waits for the call, so the answer is sent in the same
event-loop iteration as the reply is read.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from exthost.session.call import Call
from exthost.session.replies import ReplyHandler

OnEnd = Callable[[Any, BaseException | None], None]
"""Called with the value or the error that a call ended with. Must not raise."""


class Clock(Protocol):
    """The part of the call queue that a callback call uses."""

    now: Callable[[], float]


class CallbackCall(Call):
    """A call whose outcome goes to the function `on_end`."""

    def __init__(
        self,
        method: str,
        params: Any,
        reply_handler: ReplyHandler,
        timeout: float,
        queue: Clock,
        on_end: OnEnd,
        context: Mapping[str, Any],
    ) -> None:
        super().__init__(method, params, reply_handler, timeout, queue.now())
        self.context = context
        self._on_end = on_end

    def deliver(self, value: Any) -> None:
        self._on_end(value, None)

    def reject(self, error: BaseException) -> None:
        self._on_end(None, error)
