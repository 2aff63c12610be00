"""Reply handlers: the handler of a call decides what happens with the reply to its request.

    DELIVER                  the result ends the call, unchanged
    ANSWER                   the reply itself ends the call, even if it is an error reply
    MapResultHandler         the result ends the call, mapped by a function
    OneRequestOrMoreHandler  the mapped result ends the call, unless the reply requires more
                             requests; the call then continues with a generator
    GeneratorHandler         the reply is sent into a generator, which yields what to send next
    StreamHandler            the reply acknowledges or ends a stream

A handler returns the value that ends the call, or raises an ExthostError if the call failed. It
does no I/O and never waits.
"""

from collections.abc import Callable
from types import GeneratorType
from typing import Any, NamedTuple

from exthost.dialects.steps import (
    Exchanges,
    OneRequestOrMore,
    Outgoing,
    Received,
    Step,
    call_failed_error,
)
from exthost.errors import ExthostError
from exthost.model.messages import Failure, Reply
from exthost.session.stream_queue import StreamQueue


class Continue(NamedTuple):
    """The generator has not ended, and this is its next step."""

    step: Step


class ReplyHandler:
    """Delivers the result unchanged. Subclasses override what they do differently."""

    __slots__ = ("is_simple", "makes_request")

    # The stream that the call opens; None if it opens no stream.
    stream: StreamQueue | None = None

    def __init__(self, *, is_simple: bool = True, makes_request: bool = False) -> None:
        """`is_simple`: the call is a single request whose result needs only `on_result`.
        `makes_request`: the method `request` makes the request; otherwise the method and params of
        the call are sent. Every call reads both attributes; instance attributes are found faster
        than class attributes."""
        self.is_simple = is_simple
        self.makes_request = makes_request

    def request(self, params: Any) -> tuple[str, Any]:
        """Return the method and the params that are sent, from the params of the call."""
        raise NotImplementedError

    def on_result(self, params: Any, result: Any) -> Any:
        """Handle a reply with a result; `params` are the params of the call."""
        return result

    def on_failure(self, method: str, params: Any, failure: Failure) -> Any:
        """Handle a reply with an error; `method` is the name of the call in errors."""
        raise call_failed_error(failure, method)


DELIVER = ReplyHandler()
"""The handler of most calls. All of them share this object."""


class AnswerHandler(ReplyHandler):
    """Delivers the reply itself: a Reply (without its id, which the call has) or a Failure."""

    __slots__ = ()

    def on_result(self, params: Any, result: Any) -> Any:
        return Reply(None, result)

    def on_failure(self, method: str, params: Any, failure: Failure) -> Any:
        return failure


ANSWER = AnswerHandler()


class MapResultHandler(ReplyHandler):
    """Maps the result of a single request."""

    __slots__ = ("_map_result",)

    def __init__(self, map_result: Callable[[Any], Any]) -> None:
        super().__init__()
        self._map_result = map_result

    def on_result(self, params: Any, result: Any) -> Any:
        return self._map_result(result)


class OneRequestOrMoreHandler(ReplyHandler):
    """Handles the first reply of an operation that usually needs one request, and sometimes
    more."""

    __slots__ = ("_finish", "_on_failure", "_request")

    def __init__(self, operation: OneRequestOrMore) -> None:
        super().__init__(makes_request=True)
        self._request, self._finish, self._on_failure = operation

    def request(self, params: Any) -> tuple[str, Any]:
        return self._request(params)

    def on_result(self, params: Any, result: Any) -> Any:
        if self._finish is None:
            return result
        value = self._finish(params, result)
        if type(value) is GeneratorType:
            return Switch(GeneratorHandler(value))
        return value

    def on_failure(self, method: str, params: Any, failure: Failure) -> Any:
        steps = None if self._on_failure is None else self._on_failure(params, failure)
        if steps is None:
            raise call_failed_error(failure, method)
        return Switch(GeneratorHandler(steps))


class GeneratorHandler(ReplyHandler):
    """Runs a generator of a dialect: each reply is sent into it, and its return value ends the
    call. One object serves one call."""

    __slots__ = (
        "_steps", "answered", "awaited", "cancel_message", "is_optional", "limits_each_request",
        "retires_process",
    )  # fmt: skip

    def __init__(self, steps: Exchanges, *, limits_each_request: bool = False) -> None:
        super().__init__(is_simple=False)
        self._steps = steps
        self.limits_each_request = limits_each_request  # the timeout applies to each request
        self.is_optional = False  # the call continues even if the request in flight gets no reply
        self.retires_process = False  # the process can take no other call afterwards
        self.cancel_message: Outgoing | None = None  # sent if the call is given up
        self.awaited = ""  # the method of the request in flight
        self.answered = ""  # the method of the last request that got a result

    def advance(self, received: Received) -> Any:
        """Resume the generator with `received`. Return a `Continue` with its next step, or the
        value of the call if the generator has ended."""
        if isinstance(received, Reply):
            self.answered = self.awaited
        self.awaited = ""
        try:
            return Continue(self._steps.send(received))
        except StopIteration as stop:
            return stop.value

    def throw(self, error: ExthostError) -> Any:
        """Raise an error where the generator waits, because its step could not be taken. Return as
        `advance` does; the error is raised here if the generator does not handle it."""
        self.awaited = ""
        try:
            return Continue(self._steps.throw(error))
        except StopIteration as stop:
            return stop.value

    def close(self) -> None:
        """End the generator, because its call was given up."""
        self._steps.close()


class Switch(NamedTuple):
    """The call continues with this handler, whose generator is started now."""

    handler: GeneratorHandler


class StreamHandler(ReplyHandler):
    """Marks the call that opens a stream: the reply acknowledges the stream or ends it."""

    __slots__ = ("stream",)

    def __init__(self, stream: StreamQueue) -> None:
        super().__init__(is_simple=False)
        self.stream: StreamQueue | None = stream
