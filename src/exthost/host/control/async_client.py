"""The asyncio client of the control socket: many requests at the same time on one connection.

`exthost.attach` uses it. `protocol` documents the lines that it writes and reads.

    client = AsyncHostClient(connect_to_host("exthost.toml", os.environ, 10.0))
    row = await client.ask("restart", "weather")
"""

import asyncio
import logging
import socket
from _thread import get_ident
from collections.abc import Callable, Generator, Mapping
from contextvars import Context
from typing import Any

from exthost.errors import ExtensionGone, ExthostError
from exthost.extension.misuse import other_loop_error
from exthost.host.control import protocol
from exthost.host.control.client import host_ended_error, host_gone_error, left_error
from exthost.host.control.line_connection import LineConnection
from exthost.host.control.protocol import REPLY_BYTES, ControlRequest, HostLine
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.session.awaitable_call import DONE, Done
from exthost.session.failures import used_after_fork_error
from exthost.wire.framing import Broken, Item, Skipped

_log = logging.getLogger("exthost.host.control")

OnEvent = Callable[[Mapping[str, Any]], None]


class _Pending:
    """A request that was sent. Use `await pending`, then `pending.value`. The callback that reads
    the reply resumes the task directly, without a future. `session/awaitable_call.py` explains
    how."""

    # The defaults are class attributes: an object is created for each call, and most of these
    # attributes are never set on it. asyncio.Task requires the first one of every awaitable that
    # stands for a future.
    _asyncio_future_blocking = True
    _resume: Callable[["_Pending | Done"], object]
    _context: Context | None = None
    ended = False
    value: Any = None
    error: BaseException | None = None

    def __init__(self, client: "AsyncHostClient", id: int, on_event: OnEvent | None) -> None:
        self._loop = client.loop
        self._client = client
        self.id = id
        self.on_event = on_event

    def end(self, value: Any, error: BaseException | None = None) -> None:
        """Store the outcome; `wake` then resumes the task."""
        self.value, self.error, self.ended = value, error, True

    def wake(self) -> None:
        """Resume the task. Call this only from a callback of the event loop."""
        if self._context is not None:
            self._context.run(self._resume, DONE if self.error is None else self)

    # -- the methods that asyncio.Task calls -------------------------------------------------

    def __await__(self) -> Generator["_Pending", None, None]:
        if self.ended:
            self.result()
            return iter(())  # type: ignore[return-value]
        # A task needs only an iterator, and a tuple's iterator costs no Python frame.
        return iter((self,))  # type: ignore[return-value]

    def add_done_callback(
        self, callback: Callable[["_Pending | Done"], object], *, context: Context
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
        self._client.cancel_request(self)
        return True


class AsyncHostClient(LineConnection):
    """One connection to a running host. Any task may send requests."""

    def __init__(self, connected: socket.socket) -> None:
        """`connected` is a socket that is connected to a host; see `connect_to_host`."""
        super().__init__(connected, REPLY_BYTES)
        # The requests that have no reply yet, by their ids. None is not a key; it is in the type
        # because a line of the host may have no id.
        self._pending: dict[int | None, _Pending] = {}
        self._last_id = 0
        self._connection_error: ExthostError | None = None  # why the connection is lost
        self._thread = get_ident()  # of the loop
        self.resume_reading()

    def send(
        self,
        verb: str,
        name: str = "",
        params: Mapping[str, Any] = EMPTY_MAPPING,
        on_event: OnEvent | None = None,
    ) -> _Pending:
        """Send a request, and return an awaitable for its reply. `on_event` is called with each
        event of the request."""
        # If this is the thread of the loop and the loop runs, it is the current one. This check is
        # faster than a call of asyncio.
        if get_ident() != self._thread or not self.loop.is_running():
            raise other_loop_error(help="attach to the host in each loop that uses it")
        if self._connection_error is not None:
            raise self._connection_error
        self._last_id = id = self._last_id + 1
        line = protocol.encode_request((verb, name, params, id))
        pending = self._pending[id] = _Pending(self, id, on_event)
        self.write(line)
        return pending

    async def ask(
        self,
        verb: str,
        name: str = "",
        params: Mapping[str, Any] = EMPTY_MAPPING,
        on_event: OnEvent | None = None,
    ) -> Any:
        """Send a request, and return the value of its reply or raise the error in it. `on_event` is
        called with each event of the request. If the task is cancelled, the host cancels the
        request."""
        pending = self.send(verb, name, params, on_event)
        await pending
        return pending.value

    def cancel_request(self, pending: _Pending) -> None:
        """Make the host cancel a request."""
        self._pending.pop(pending.id, None)
        self.write(protocol.encode_request(ControlRequest("cancel", id=pending.id)))
        self.loop.call_soon(pending.wake)

    def answer(self, params: Mapping[str, Any]) -> None:
        """Answer a question of the host."""
        self.write(protocol.encode_request(ControlRequest("answer", params=params)))

    # -- the connection ------------------------------------------------------------------------

    def leave(self) -> None:
        """Close the connection, which this program no longer needs. The requests in progress are
        cancelled, with an error that says so."""
        self._connection_error = self._connection_error or left_error()
        self._fail(left_error())

    def lines_received(self, items: list[Item]) -> None:
        # Woken only after all lines are handled, because a woken task runs at once and may send
        # further requests.
        ended = []
        try:
            for item in items:
                head = item.head if isinstance(item, Skipped | Broken) else item
                pending = self._handle_line(protocol.read_line(bytes(head)))
                if pending is not None:
                    ended.append(pending)
        except ExthostError as error:
            self._fail(error)
        for pending in ended:
            pending.wake()

    def connection_lost(self) -> None:
        self._fail(host_gone_error())

    def disown(self) -> None:
        """In a forked copy of this process, make later requests raise."""
        self._connection_error = used_after_fork_error()
        super().disown()

    def _handle_line(self, line: HostLine) -> _Pending | None:
        """Handle an event or a reply. Return the request that a reply ends, otherwise None."""
        if line.id is None and line.error is not None:  # the host refuses this connection
            self._fail(line.error)
            return None
        pending = self._pending.get(line.id)
        if pending is None:
            return None  # the request was cancelled
        if line.event is not None:
            _deliver_event(pending, line.event)
            return None
        del self._pending[pending.id]
        pending.end(line.value, line.error)
        return pending

    def _fail(self, error: ExthostError) -> None:
        """Close the connection, and end every request with this error."""
        if self._connection_error is None:
            self._connection_error = error
            if isinstance(error, ExtensionGone):  # what later requests raise
                self._connection_error = host_ended_error()
        self.abort()
        unfinished, self._pending = self._pending, {}
        for pending in unfinished.values():
            pending.end(None, error)
            self.loop.call_soon(pending.wake)


def _deliver_event(pending: _Pending, event: Mapping[str, Any]) -> None:
    """Call the callback of a request with an event. Log an error that it raises."""
    if pending.on_event is None:
        return
    try:
        pending.on_event(event)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # the caller's callback must not harm other requests of the connection
        _log.exception("the callback of a request to the host failed")
