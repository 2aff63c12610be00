"""Handles requests of the child (the extension's process) to the host. Each request has a task, so
reading never waits. An example is a request that reads a setting, `config.get`.

In dialects (protocols) that need it, other messages to the child are held back while it waits for
an answer (`OutboundHold`). A hold begins when a request is accepted. Requests that come before the
first answer join the hold, which ends when all of them are answered. Later requests do not join,
because a child that keeps sending requests must not block all other messages.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from exthost.errors import CallFailed, ExthostError
from exthost.model.messages import Failure, Reply, Request
from exthost.session.outbound_hold import OutboundHold

_log = logging.getLogger("exthost.session")

# The maximum number of requests that are handled at a time; more are answered with an error.
MAX_REQUESTS_AT_ONCE = 256

# The maximum length of the id of a request, because the answer repeats it.
_MAX_ID_CHARACTERS = 1024

_INVALID_REQUEST = -32600

Handler: TypeAlias = Callable[[Any], Awaitable[Any]]
"""Takes the params of a request and returns its result. Raises CallFailed to answer with an
error."""

OnAnswer: TypeAlias = Callable[[Reply | Failure], None]


class DropCounter(Protocol):
    """Counts dropped requests under a name."""

    def count(self, name: str) -> object: ...


class InboundRequests:
    """The requests of one child that are being handled."""

    __slots__ = (
        "_can_join_hold",
        "_counts",
        "_handlers",
        "_hold",
        "_hold_keys",
        "_loop",
        "_refuse",
        "_send",
        "_tasks",
    )

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        refuse: Callable[[Request], Reply | Failure],
        send: OnAnswer,
        counts: DropCounter,
        loop: asyncio.AbstractEventLoop,
        *,
        hold: OutboundHold | None = None,
    ) -> None:
        """`handlers` handle requests, by method. `refuse` returns the answer to a request without a
        handler. `send` sends an answer. `hold` is None in dialects that need no hold."""
        self._handlers = handlers
        self._refuse = refuse
        self._send = send
        self._counts = counts
        self._loop = loop
        self._hold = hold
        self._hold_keys: set[Any] = set()  # the keys of the requests that have joined the hold
        self._can_join_hold = True
        self._tasks: dict[Any, asyncio.Task[None]] = {}

    def serve(self, request: Request) -> None:
        """Start to handle a request, or refuse it at once if it has no handler."""
        handler = self._handlers.get(request.method)
        key = request_key(request.id)
        if key is None:
            self._counts.count("requests with an id that is too long")
            # The answer does not repeat the id.
            reason = f"the id of the request has more than {_MAX_ID_CHARACTERS} characters"
            self._send(Failure(None, reason, _INVALID_REQUEST))
        elif handler is None:
            self._send(self._refuse(request))
        elif key in self._tasks:
            self._counts.count("requests under an id that is still being served")
        elif len(self._tasks) >= MAX_REQUESTS_AT_ONCE:
            self._counts.count("requests beyond those that can be served at once")
            self._send(Failure(request.id, "too many requests at once", -32000))
        else:
            if self._hold is not None:
                self._hold_for(key, self._hold)
            self._tasks[key] = self._loop.create_task(self._serve(handler, request))

    def ask(self, request: Request, on_answer: OnAnswer) -> None:
        """Handle a request that is part of a reply, as in the stateless versions of MCP, where a
        reply can ask a question. `on_answer` is called in a later event-loop iteration."""
        handler = self._handlers.get(request.method)
        if handler is None:
            self._loop.call_soon(on_answer, self._refuse(request))
        else:
            key = ("inside", repr(request.id))
            self._tasks[key] = self._loop.create_task(self._ask(key, handler, request, on_answer))

    async def _ask(self, key: Any, handler: Handler, request: Request, on_answer: OnAnswer) -> None:
        try:
            answer = await _run_handler(handler, request)
        finally:
            self._tasks.pop(key, None)
        on_answer(answer)

    async def _serve(self, handler: Handler, request: Request) -> None:
        """Run the handler of a request, and send the answer."""
        key = request_key(request.id)
        try:
            answer = await _run_handler(handler, request)
        except BaseException:
            # After `cancel_request`, another request may have this id.
            if self._tasks.get(key) is asyncio.current_task():
                self._forget(key)
            raise
        if self._tasks.get(key) is not asyncio.current_task():
            return  # the handler has ignored its cancellation
        try:
            self._send(answer)
        except ExthostError as error:  # the dialect cannot express the answer
            self._send(Failure(request.id, error.message, -32603))
        finally:
            self._forget(key)

    def _hold_for(self, key: Any, hold: OutboundHold) -> None:
        if not self._hold_keys:
            self._hold_keys.add(key)
            self._can_join_hold = True
            hold.begin()
        elif self._can_join_hold:
            self._hold_keys.add(key)

    def cancel_request(self, id: Any) -> None:
        """Cancel the handler of this request: the child no longer waits for the answer, and gets
        none. Ids without a handler are ignored, because the answer may have been sent just now."""
        key = request_key(id)
        task = self._tasks.get(key)
        if task is not None:
            task.cancel()
            self._forget(key)  # now, because a task that has not begun does not do it

    def _forget(self, key: Any) -> None:
        """Forget a request that was answered or cancelled, or whose child has ended."""
        self._tasks.pop(key, None)
        self._can_join_hold = False
        if self._hold_keys == {key}:
            self._end_hold()
        self._hold_keys.discard(key)

    def _end_hold(self) -> None:
        if self._hold_keys and self._hold is not None:
            self._hold_keys.clear()
            self._hold.end()

    def cancel(self) -> None:
        """Cancel all handlers, because the child has ended."""
        for task in list(self._tasks.values()):
            task.cancel()
        self._end_hold()  # a task that is cancelled before its first step never runs `_forget`


async def _run_handler(handler: Handler, request: Request) -> Reply | Failure:
    """Return the answer to a request: the result of its handler, or an error."""
    try:
        return Reply(request.id, await handler(request.params))
    except CallFailed as error:
        code = -32000 if error.error_code is None else error.error_code
        return Failure(request.id, error.error_message or error.message, code, error.data)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # `cancel`: no task waits for the answer
            raise
        return _failed(request, error)  # the handler awaited a task that was cancelled
    except Exception as error:
        return _failed(request, error)


def _failed(request: Request, error: BaseException) -> Failure:
    _log.exception("the handler of %s failed", request.method)
    reason = str(error) or type(error).__name__
    return Failure(request.id, f"the host could not serve this: {reason}", -32603)


def request_key(id: Any) -> Any:
    """Return a dict key for a request id; None if the id is too long. Some dialects accept ids that
    are not hashable, such as a list, or that equal another id, such as `true`, which equals 1."""
    if type(id) is int:
        return id
    try:
        text = id if type(id) is str else repr(id)
    except RecursionError:
        return None
    if len(text) > _MAX_ID_CHARACTERS:
        return None
    return id if type(id) is str else ("repr", text)
