"""The asyncio end of the socket: many requests at the same time on one connection."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any

from exthost.control import protocol
from exthost.control.client import host_gone
from exthost.control.protocol import REPLY_BYTES, HostLine, Request
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.errors import ExthostError
from exthost.wire.framing import Broken, Skipped
from exthost.wire.lines import Lines

OnEvent = Callable[[Mapping[str, Any]], None]


class _Pending:
    """A request that has no answer yet."""

    __slots__ = ("answer", "on_event")

    def __init__(self, answer: "asyncio.Future[Any]", on_event: OnEvent | None) -> None:
        self.answer = answer
        self.on_event = on_event


class AsyncHostClient(asyncio.Protocol):
    """One connection to a running host. Any task may ask."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._framing = Lines(REPLY_BYTES)
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
        pending = self._pending[id] = _Pending(self._loop.create_future(), on_event)
        self._transport.write(line)
        try:
            return await pending.answer
        except asyncio.CancelledError:
            if self._lost is None:
                self._transport.write(protocol.question(Request("cancel", id=id)))
            raise
        finally:
            del self._pending[id]

    def close(self) -> None:
        """Leave. Requests without an answer fail."""
        if self._transport is not None:
            self._transport.abort()

    # -- the transport -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for item in self._framing.feed(data):
            head = item.head if isinstance(item, Skipped | Broken) else bytes(item)
            try:
                self._take(protocol.read_line(head))
            except ExthostError as error:
                self._lose(error)
                return

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(host_gone())

    def _take(self, line: HostLine) -> None:
        if line.id is None and line.error is not None:  # we are sent away
            self._lose(line.error)
            return
        pending = self._pending.get(line.id or 0)
        if pending is None or pending.answer.done():
            return  # it was cancelled
        if line.event is not None:
            if pending.on_event is not None:
                pending.on_event(line.event)
        elif line.error is not None:
            pending.answer.set_exception(line.error)
        else:
            pending.answer.set_result(line.value)

    def _lose(self, error: ExthostError) -> None:
        if self._lost is None:
            self._lost = error
        self.close()
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(self._lost)
