"""Requests of the extension to the host, and the answers that they wait for.

A handler that calls `ctx.call(…)` sends such a request, and waits for its `HostReply` in its own
thread or task. The thread that reads the input stores the answer.

`concurrent.futures` has a class for this, but importing it takes longer than importing the SDK.
"""

import itertools
import threading
from collections.abc import Callable
from typing import Any

from exthost_sdk.errors import CallCancelled, HostError


class HostReply:
    """A future for the answer of the host to one request. Thread-safe."""

    def __init__(self) -> None:
        self._has_arrived = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        self._value: Any = None
        self._error: BaseException | None = None

    def settle(self, value: Any = None, error: BaseException | None = None) -> None:
        """Store the answer, or the error in its place. Only the first call has an effect."""
        with self._lock:
            if self._has_arrived.is_set():
                return
            self._value, self._error = value, error
            self._has_arrived.set()
        for callback in self._callbacks:
            callback()

    def cancel(self) -> None:
        """Raise CallCancelled in the thread or task that waits."""
        self.settle(error=CallCancelled())

    @property
    def is_cancelled(self) -> bool:
        return isinstance(self._error, CallCancelled)

    def wait(self, seconds: float | None) -> bool:
        """Block this thread until the answer arrives; return whether it arrived in time. None waits
        without a limit."""
        return self._has_arrived.wait(seconds)

    def on_arrival(self, callback: Callable[[], object]) -> None:
        """Call a function when the answer arrives, in the thread that stores it. If it has arrived
        already, call the function now."""
        with self._lock:
            has_arrived = self._has_arrived.is_set()
            if not has_arrived:
                self._callbacks.append(callback)
        if has_arrived:
            callback()

    def result(self) -> Any:
        """Return the answer that has arrived, or raise the error."""
        if self._error is not None:
            raise self._error
        return self._value


class HostRequests:
    """The requests of one connection that wait for an answer, by their ids."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[Any, HostReply] = {}

    def open(self) -> tuple[int, HostReply]:
        """Return the id of a new request, and its `HostReply`."""
        number = next(self._numbers)
        answer = HostReply()
        self._waiting[number] = answer
        return number, answer

    def close(self, number: int) -> None:
        """Remove a request. An answer that arrives later is dropped."""
        self._waiting.pop(number, None)

    def resolve(self, message: dict[str, Any]) -> None:
        """Store a response of the host. A response that no request waits for is dropped."""
        id = message.get("id")
        answer = self._waiting.pop(id, None) if type(id) is int else None
        if answer is None:
            return
        error = message.get("error")
        if error is None:
            answer.settle(message.get("result"))
            return
        failure: dict[str, Any] = error if isinstance(error, dict) else {"message": str(error)}
        text = str(failure.get("message") or "the host refused the request")
        answer.settle(error=HostError(text, code=failure.get("code"), data=failure.get("data")))

    def fail(self, reason: str) -> None:
        """Fail all requests with this reason, since no answer will arrive."""
        for number in tuple(self._waiting):
            answer = self._waiting.pop(number, None)
            if answer is not None:
                answer.settle(error=HostError(reason))
