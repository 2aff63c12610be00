"""Reply handlers: the object of each call that says what happens with its reply.

    DELIVER            return the result unchanged
    MapResult          return the result as a function maps it
    OneRequestOrMoreReply     map it, or continue with a generator if the reply asks for more
    GeneratorReply     send the reply into a generator, whose next step is sent to the child
    StreamReply        the reply acknowledges or ends a stream

A handler returns the value that ends the call, or raises an ExthostError if the call failed. It
does no I/O and never waits.
"""

from collections.abc import Callable
from types import GeneratorType
from typing import Any, NamedTuple

from exthost.dialects.steps import Exchanges, OneRequestOrMore, Received, Step, call_failed_error
from exthost.messages import Failure
from exthost.session.stream_queue import StreamQueue


class Continue(NamedTuple):
    """The generator has not ended: the conversation takes this step next."""

    step: Step


class ReplyHandler:
    """Delivers the result unchanged. Subclasses override what they do differently."""

    __slots__ = ("is_simple", "words_request")

    # The stream that the call opens, if it opens one.
    stream: StreamQueue | None = None

    def __init__(self, *, is_simple: bool = True, words_request: bool = False) -> None:
        """`is_simple`: the call is a single request whose result needs only `on_result`.
        `words_request`: `request` makes the request; otherwise the method and params of the call
        are sent. Every call reads both; in the instance they are found faster than in the class."""
        self.is_simple = is_simple
        self.words_request = words_request

    def request(self, params: Any) -> tuple[str, Any]:
        """Return the method and the params that are sent, from the params of the call."""
        raise NotImplementedError

    def on_result(self, params: Any, result: Any) -> Any:
        """Handle a reply with a result; `params` are those of the call."""
        return result

    def on_failure(self, method: str, failure: Failure) -> Any:
        """Handle a reply with an error."""
        raise call_failed_error(failure, method)


DELIVER = ReplyHandler()


class MapResult(ReplyHandler):
    """Maps the result of a single request."""

    __slots__ = ("_map_result",)

    def __init__(self, map_result: Callable[[Any], Any]) -> None:
        super().__init__()
        self._map_result = map_result

    def on_result(self, params: Any, result: Any) -> Any:
        return self._map_result(result)


class OneRequestOrMoreReply(ReplyHandler):
    """Handles an operation whose first reply is usually its only one."""

    __slots__ = ("_finish", "_request")

    def __init__(self, operation: OneRequestOrMore) -> None:
        super().__init__(words_request=True)
        self._request, self._finish = operation

    def request(self, params: Any) -> tuple[str, Any]:
        return self._request(params)

    def on_result(self, params: Any, result: Any) -> Any:
        value = self._finish(params, result)
        if type(value) is GeneratorType:
            return Switch(GeneratorReply(value))
        return value


class GeneratorReply(ReplyHandler):
    """Runs a generator of a dialect: each reply is sent into it, and its return value ends the
    call. One object serves one call."""

    __slots__ = ("_steps", "is_optional", "limits_each_request", "retires_process")

    def __init__(self, steps: Exchanges, *, limits_each_request: bool = False) -> None:
        super().__init__(is_simple=False)
        self._steps = steps
        self.limits_each_request = limits_each_request  # the timeout is not for the whole call
        self.is_optional = False  # the request in flight may stay without a reply
        self.retires_process = False  # the process can serve no other call afterwards

    def advance(self, received: Received) -> Any:
        """Send this into the generator; return its next step, or the value of the call."""
        try:
            return Continue(self._steps.send(received))
        except StopIteration as done:
            return done.value

    def close(self) -> None:
        """End the generator: its call was given up."""
        self._steps.close()


class Switch(NamedTuple):
    """The call continues with another handler, which starts now."""

    handler: GeneratorReply


class StreamReply(ReplyHandler):
    """Marks the call that opens a stream: the reply acknowledges the stream or ends it."""

    __slots__ = ("stream",)

    def __init__(self, stream: StreamQueue) -> None:
        super().__init__(is_simple=False)
        self.stream: StreamQueue | None = stream
