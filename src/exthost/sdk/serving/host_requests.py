"""Requests of the extension that wait for the host's answer.

Not `concurrent.futures`, whose import takes longer than that of the whole SDK.
"""

import itertools
import threading
from collections.abc import Callable
from typing import Any

from exthost.sdk.errors import Cancelled, HostError


class Answer:
    """The answer of the host to one request, once it has come."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        self._value: Any = None
        self._error: BaseException | None = None

    def settle(self, value: Any = None, error: BaseException | None = None) -> None:
        """Store the answer, or the error in its place. Later ones are ignored."""
        with self._lock:
            if self._came.is_set():
                return
            self._value, self._error = value, error
            self._came.set()
        for callback in self._callbacks:
            callback()

    def cancel(self) -> None:
        """Raise Cancelled in the thread or task that waits."""
        self.settle(error=Cancelled())

    def wait(self, seconds: float | None) -> bool:
        """Wait in this thread; return whether the answer has come."""
        return self._came.wait(seconds)

    def on_arrival(self, callback: Callable[[], object]) -> None:
        """Call a function when the answer comes, in the thread that takes it, or now."""
        with self._lock:
            has_come = self._came.is_set()
            if not has_come:
                self._callbacks.append(callback)
        if has_come:
            callback()

    def result(self) -> Any:
        """Return the answer that has come, or raise the error."""
        if self._error is not None:
            raise self._error
        return self._value


class HostRequests:
    """Numbers requests, and finds the one that an answer belongs to."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[Any, Answer] = {}

    def open(self) -> tuple[int, Answer]:
        """Return the id of a new request, and its `Answer`."""
        number = next(self._numbers)
        answer = self._waiting[number] = Answer()
        return number, answer

    def close(self, number: int) -> None:
        """Forget a request: its answer will be dropped."""
        self._waiting.pop(number, None)

    def resolve(self, message: dict[str, Any]) -> None:
        """Store a response of the host. One without a waiting request is dropped."""
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
        """Fail all requests: there will be no answer."""
        for number in tuple(self._waiting):
            answer = self._waiting.pop(number, None)
            if answer is not None:
                answer.settle(error=HostError(reason))
