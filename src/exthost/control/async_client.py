"""The asyncio end of the socket: many requests at the same time on one connection."""

import asyncio
import socket
from collections.abc import Callable, Generator, Mapping
from contextvars import Context
from typing import Any

from exthost.control import protocol
from exthost.control.client import host_gone
from exthost.control.line_protocol import LineProtocol
from exthost.control.protocol import REPLY_BYTES, HostLine, Request
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.errors import ExthostError
from exthost.wire.framing import Broken, Item, Skipped

OnEvent = Callable[[Mapping[str, Any]], None]


class _Pending:
    """A request that has no answer yet. Its task awaits it directly, and is resumed by the callback
    that reads the answer: see `session/awaitable_call.py` for the names that a task needs."""

    __slots__ = (
        "_asyncio_future_blocking", "_context", "_loop", "_on_cancel", "_resume", "ended", "error",
        "on_event", "value",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_event: OnEvent | None,
        on_cancel: Callable[["_Pending"], None],
    ) -> None:
        self._asyncio_future_blocking = True
        self._loop = loop
        self._on_cancel = on_cancel
        self._resume: Callable[[_Pending], object] | None = None
        self._context: Context | None = None
        self.ended = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.on_event = on_event

    def end(self, value: Any, error: BaseException | None = None) -> None:
        """Take the outcome; `wake` then resumes the task."""
        self.value, self.error, self.ended = value, error, True

    def wake(self) -> None:
        """Resume the task. Only from a callback of the loop."""
        if self._context is not None and self._resume is not None:
            self._context.run(self._resume, self)

    # -- from the task -------------------------------------------------------------------------

    def __await__(self) -> Generator["_Pending", None, None]:
        if not self.ended:
            yield self
        self.result()

    def add_done_callback(
        self, callback: Callable[["_Pending"], object], *, context: Context
    ) -> None:
        self._resume, self._context = callback, context

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def cancel(self, msg: object = None) -> bool:
        if self.ended:
            return False
        self.end(None, asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        self._on_cancel(self)
        return True


class AsyncHostClient(LineProtocol):
    """One connection to a running host. Any task may ask."""

    def __init__(self) -> None:
        super().__init__(REPLY_BYTES)
        self._loop = asyncio.get_running_loop()
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._transport: asyncio.Transport | None = None
        self._lost: ExthostError | None = None

    @classmethod
    async def connect(cls, connected: socket.socket) -> "AsyncHostClient":
        """Use this connected socket."""
        connected.setblocking(False)
        loop = asyncio.get_running_loop()
        _, client = await loop.create_unix_connection(cls, sock=connected)
        return client

    async def ask(
        self,
        verb: str,
        name: str = "",
        params: Mapping[str, Any] = EMPTY_MAPPING,
        on_event: OnEvent | None = None,
    ) -> Any:
        """Return the answer to a request, after its events; raise the error in it. A request whose
        task is cancelled is given up at the host as well."""
        if self._transport is None or self._lost is not None:
            raise self._lost or host_gone()
        self._last_id = id = self._last_id + 1
        line = protocol.question(Request(verb, name, params, id))
        pending = self._pending[id] = _Pending(self._loop, on_event, self._cancel)
        self._transport.write(line)
        try:
            await pending
        except asyncio.CancelledError:
            if self._lost is None:
                self._transport.write(protocol.question(Request("cancel", id=id)))
            raise
        finally:
            del self._pending[id]
        return pending.value

    def _cancel(self, pending: _Pending) -> None:
        self._loop.call_soon(pending.wake)

    def close(self) -> None:
        """Leave. Requests without an answer fail."""
        if self._transport is not None:
            self._transport.abort()

    # -- the transport -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def lines_received(self, items: list[Item]) -> None:
        ended = []
        try:
            for item in items:
                if type(item) is bytes and (pending := self._ended_by(item)) is not None:
                    ended.append(pending)
                    continue
                head = item.head if isinstance(item, Skipped | Broken) else item
                pending = self._take(protocol.read_line(bytes(head)))
                if pending is not None:
                    ended.append(pending)
        except ExthostError as error:
            self._lose(error)
        for pending in ended:
            pending.wake()

    def _ended_by(self, line: bytes) -> _Pending | None:
        """Return the request that a plain answer ends; None for every other line."""
        answer = protocol.plain_answer(line)
        pending = None if answer is None else self._pending.get(answer[0])
        if answer is None or pending is None or pending.ended:
            return None
        pending.end(answer[1])
        return pending

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(host_gone())

    def _take(self, line: HostLine) -> _Pending | None:
        """Return the request that this line ends."""
        if line.id is None and line.error is not None:  # we are sent away
            self._lose(line.error)
            return None
        pending = self._pending.get(line.id or 0)
        if pending is None or pending.ended:
            return None  # it was cancelled
        if line.event is not None:
            if pending.on_event is not None:
                pending.on_event(line.event)
            return None
        pending.end(line.value, line.error)
        return pending

    def _lose(self, error: ExthostError) -> None:
        if self._lost is None:
            self._lost = error
        self.close()
        for pending in self._pending.values():
            if not pending.ended:
                pending.end(None, self._lost)
                self._loop.call_soon(pending.wake)
