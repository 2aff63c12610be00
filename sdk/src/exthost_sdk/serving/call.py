"""One running call of an extension: the state that its handler, its context and the server share.

The handler is the author's function. Its context is the object `ctx`, with which the handler
reports progress or asks the host; it uses the methods below `cancel`. The server starts the handler
and sends the reply.

A call ends exactly once. Its reply is a result or an error; a cancelled call has no reply, since
the host no longer waits for it. The endpoint of the dialect encodes all messages.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from exthost_sdk.answers import PromptMessage
from exthost_sdk.context import Context, Delivery
from exthost_sdk.errors import HostError, ToolError, describe
from exthost_sdk.serving.failure_report import report
from exthost_sdk.serving.host_requests import HostReply, HostRequests
from exthost_sdk.types.function import Function
from exthost_sdk.wire.writer import Sent, Writer

if TYPE_CHECKING:
    from asyncio import Task

Reply = Callable[[Any, Function, Any], bytes]
"""Returns the frame (the bytes of a message on the wire) of a result: (key, function, value)."""

Failure = Callable[[Any, Function, BaseException], bytes]
"""Returns the frame of an error: (key, function, exception)."""

ItemWriter = Callable[["HandlerCall", Any], bytes | None]
"""Returns the frame of one item of a stream, or None if the dialect has no message for items."""


class CallEndpoint(Protocol):
    """What a call needs from the endpoint of its dialect; see `Endpoint`."""

    @property
    def name(self) -> str: ...

    @property
    def config(self) -> Mapping[str, Any]: ...

    def progress(
        self, call: "HandlerCall", current: float, total: float | None, message: str
    ) -> bytes | None: ...

    def log(self, call: "HandlerCall", level: str, text: str) -> bytes | None: ...

    def request(self, number: int, method: str, params: Any) -> bytes: ...

    def cancel_request(self, number: int) -> bytes | None: ...

    def ask_host(self, call: "HandlerCall", method: str, params: Any) -> Any: ...

    def elicitation(
        self, call: "HandlerCall", message: str, schema: Mapping[str, Any]
    ) -> tuple[str, Any]: ...

    def sampling(
        self,
        call: "HandlerCall",
        messages: Sequence[PromptMessage],
        system: str,
        max_tokens: int,
    ) -> tuple[str, Any]: ...

    def widget(self, id: str, fields: Mapping[str, Any] | None) -> bytes | None: ...


class CallServer(Protocol):
    """What a call needs from the server that runs it; see `Server`."""

    @property
    def endpoint(self) -> CallEndpoint: ...

    @property
    def writer(self) -> Writer: ...

    @property
    def requests(self) -> HostRequests: ...

    @property
    def thread(self) -> int: ...


# How much of an exception's text is sent if the whole exception cannot be sent.
_SHORT_CHARACTERS = 2000


def encode_failure(key: Any, function: Function, error: BaseException, failure: Failure) -> bytes:
    """Report the exception of a handler, and return its frame. If it cannot be encoded, as a
    ToolError whose data is not JSON or is too large, return a frame without the data."""
    report(error, function)
    try:
        return failure(key, function, error)
    except Exception as problem:
        text, reason = (describe(it)[:_SHORT_CHARACTERS] for it in (error, problem))
        short_error = ToolError(f"{text} (its details cannot be sent: {reason})")
        code = getattr(error, "code", None)
        if isinstance(error, ToolError) and type(code) is int:
            short_error.code = code
        return failure(key, function, short_error)


EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})


class HandlerCall:
    """A call that is running."""

    __slots__ = (
        "_requests",
        "arguments",
        "collects",
        "failure",
        "function",
        "is_cancelled",
        "is_over",
        "items",
        "key",
        "meta",
        "on_item",
        "reply",
        "server",
        "task",
        "token",
    )

    def __init__(
        self,
        server: CallServer,
        key: Any,
        function: Function,
        arguments: dict[str, Any],
        reply: Reply,
        failure: Failure,
        *,
        meta: Mapping[str, Any] = EMPTY_MAPPING,
        token: Any = None,
        on_item: ItemWriter | None = None,
        collects: bool = True,
    ) -> None:
        """`key` identifies the call when it is cancelled; in most dialects it is the id of the
        request. `arguments` are bound: names of parameters → values; a context is added if the
        handler has a parameter for it. `reply`, `failure` and `on_item` encode its messages. `meta`
        is what the host sent with the call. `token` is what the endpoint needs to report its
        progress. With `collects`, the items of a generator are collected, and its result is the
        list of them."""
        self.server = server
        self.key = key
        self.function = function
        self.arguments = arguments
        self.reply = reply
        self.failure = failure
        self.meta = meta
        self.token = token
        self.on_item = on_item
        self.collects = collects
        self.items = 0  # the number of items that were sent
        self.is_over = False
        self.is_cancelled = False
        self.task: Task[None] | None = None
        self._requests: set[HostReply] = set()  # those to the host that wait for an answer
        if function.context_name:
            arguments[function.context_name] = Context(self, meta)

    # -- cancellation ------------------------------------------------------------------------

    def cancel(self) -> None:
        """Cancel the handler: its task, and the requests to the host that it waits for. A
        synchronous handler sees `is_cancelled` when it next uses its context. Called on the thread
        that reads the input."""
        self.is_cancelled = True
        if self.task is not None:
            self.task.cancel()
        for request in tuple(self._requests):
            request.cancel()

    # -- the methods that `Context` calls (`ContextPort`) ------------------------------------

    @property
    def dialect(self) -> str:
        return self.server.endpoint.name

    @property
    def config(self) -> Mapping[str, Any]:
        return self.server.endpoint.config

    def send_progress(self, current: float, total: float | None, message: str) -> Delivery:
        if self.is_over:
            return self._send(None)
        return self._send(self.server.endpoint.progress(self, current, total, message))

    def send_item(self, item: Any) -> Delivery:
        self.items += 1
        if self.is_over or self.on_item is None:
            return self._send(None)
        return self._send(self.on_item(self, item))

    def send_log(self, level: str, text: str) -> bool:
        frame = self.server.endpoint.log(self, level, text)
        if frame is not None:
            self._send(frame)
        return frame is not None

    def make_elicitation(self, message: str, schema: Mapping[str, Any]) -> tuple[str, Any]:
        return self.server.endpoint.elicitation(self, message, schema)

    def make_sampling(
        self, messages: Sequence[PromptMessage], system: str, max_tokens: int
    ) -> tuple[str, Any]:
        return self.server.endpoint.sampling(self, messages, system, max_tokens)

    def send_widget(self, id: str, fields: Mapping[str, Any] | None) -> Delivery:
        return self._send(self.server.endpoint.widget(id, fields))

    def _send(self, frame: bytes | None) -> Delivery:
        if frame is not None:
            self.server.writer.send(frame)
        return Sent(self.server.writer)

    def call_host(self, method: str, params: Any, timeout: float | None) -> Any:
        """Send a request to the host, and block this thread until the answer arrives."""
        if threading.get_ident() == self.server.thread:
            raise RuntimeError(
                "the answer could not be read while this handler runs: "
                "make it `async def` and await call_async, or register it with thread=True"
            )
        answer = self.server.endpoint.ask_host(self, method, params)
        if not isinstance(answer, HostReply):
            return answer
        try:
            if not answer.wait(timeout):
                raise HostError(f"the host did not answer {method} within {timeout:g} s")
            return answer.result()
        finally:
            self._requests.discard(answer)
            answer.cancel()  # without an effect if it has arrived; otherwise none waits for it

    async def call_host_async(self, method: str, params: Any, timeout: float | None) -> Any:
        """Send a request to the host, and wait for the answer in a task."""
        answer = self.server.endpoint.ask_host(self, method, params)
        if not isinstance(answer, HostReply):
            return answer
        import asyncio  # lazily imported, since that takes longer than importing the SDK

        loop = asyncio.get_running_loop()
        has_arrived = asyncio.Event()
        answer.on_arrival(lambda: loop.call_soon_threadsafe(has_arrived.set))
        try:
            async with asyncio.timeout(timeout):
                await has_arrived.wait()
            return answer.result()
        except TimeoutError:
            raise HostError(f"the host did not answer {method} within {timeout:g} s") from None
        finally:
            self._requests.discard(answer)
            answer.cancel()  # without an effect if it has arrived; otherwise none waits for it

    def send_request(self, method: str, params: Any) -> HostReply:
        """Send a request to the host. Called by the endpoint."""
        requests, endpoint = self.server.requests, self.server.endpoint
        number, answer = requests.open()
        self._requests.add(answer)
        answer.on_arrival(lambda: requests.close(number))
        # `cancel` sets this first, and then looks at `_requests`: one of both sees the other.
        if self.is_cancelled:
            answer.cancel()
            return answer
        try:
            frame = endpoint.request(number, method, params)
        except BaseException:  # the params cannot be encoded
            self._requests.discard(answer)
            answer.cancel()
            raise
        self.server.writer.send(frame)
        answer.on_arrival(lambda: self._cancel_request(number, answer))
        return answer

    def _cancel_request(self, number: int, answer: HostReply) -> None:
        """Cancel a request in the host, if the handler has given it up."""
        if answer.is_cancelled:
            self._send(self.server.endpoint.cancel_request(number))
