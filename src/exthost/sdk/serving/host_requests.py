"""Requests of the extension that wait for the host's answer."""

import itertools
from concurrent.futures import Future
from typing import Any

from exthost.sdk.errors import HostError


class HostRequests:
    """Numbers requests, and finds the one that an answer belongs to."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[Any, Future[Any]] = {}

    def open(self) -> tuple[int, "Future[Any]"]:
        """Return the id of a new request, and the future of its answer."""
        number = next(self._numbers)
        future: Future[Any] = Future()
        self._waiting[number] = future
        return number, future

    def close(self, number: int) -> None:
        """Nobody waits for this answer any more."""
        self._waiting.pop(number, None)

    def resolve(self, message: dict[str, Any]) -> None:
        """Take an answer. One that nobody waits for is dropped."""
        future = self._waiting.pop(message.get("id"), None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        error = message.get("error")
        if error is None:
            future.set_result(message.get("result"))
            return
        told: dict[str, Any] = error if isinstance(error, dict) else {"message": str(error)}
        text = str(told.get("message") or "the host refused the request")
        future.set_exception(HostError(text, code=told.get("code"), data=told.get("data")))

    def fail(self, reason: str) -> None:
        """Fail all requests: there will be no answer."""
        for number in tuple(self._waiting):
            future = self._waiting.pop(number, None)
            if future is not None and future.set_running_or_notify_cancel():
                future.set_exception(HostError(reason))
