"""Opening a stream and leaving it: the call that stands behind `async with ext.stream(…)`.

Where the reply ends the stream, the call's outcome is the stream's. Where a terminal event does,
the reply is an acknowledgement that is waited for, and the time limit goes on to the last event.
"""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

from exthost.dialects.dialect import Dialect, StreamKind
from exthost.errors import CallTimeout, ExthostError, UsageError
from exthost.session.causes import copy_of
from exthost.session.desk import Desk
from exthost.session.state import Call
from exthost.session.stream import EventStream

_LEFT = "the consumer left"


def make_stream(
    desk: Desk, dialect: Dialect, method: str, params: Any, limit: float, timeout: float | None
) -> EventStream:
    """A stream that is opened when it is entered. `limit` is for one answer of the method,
    `timeout`, where the caller gave one, for the whole stream."""
    kind = dialect.streams.get(method)
    if kind is None:
        known = ", ".join(dialect.streams) or "none"
        raise UsageError(
            "X1307",
            f"{method} is no stream in the {dialect.name} dialect",
            extension=desk.extension,
            help=f"its streams are: {known}; use call() for a single answer",
        )
    key = None
    if kind.key is not None:
        params = _named(params, kind.key, method, desk.extension)
        key = params[kind.key]
    whole = kind.limit(params) if timeout is None and kind.limit is not None else timeout
    opening = _Opening(desk, kind, method, params, limit, whole)
    return EventStream(kind, key, open=opening.open, close=opening.close)


def _named(params: Any, key: str, method: str, extension: str) -> dict[str, Any]:
    """The params with the name that the stream's events carry: the caller's, or one of ours."""
    named = {key: str(uuid.uuid4()), **params} if isinstance(params, Mapping) else {}
    if type(named.get(key)) not in (str, int):
        raise UsageError(
            "X1328",
            f"{method} is opened with an object, whose {key} names the stream: text, or left out",
            extension=extension,
            help=f"leave {key} out, and it is given a name",
        )
    return named


class _Opening:
    """One opened stream, from its request to its end."""

    def __init__(
        self,
        desk: Desk,
        kind: StreamKind,
        method: str,
        params: Any,
        limit: float,
        whole: float | None,
    ) -> None:
        self._desk = desk
        self._kind = kind
        self._method = method
        self._params = params
        self._limit = limit
        self._whole = whole
        self._call: Call | None = None
        self._alarm: asyncio.TimerHandle | None = None

    async def open(self, stream: EventStream) -> None:
        desk, whole = self._desk, self._whole
        future: asyncio.Future[Any] = desk.loop.create_future()
        limit = self._limit if whole is None else whole
        if self._kind.ends == "terminal":
            limit = min(self._limit, limit)  # for the acknowledgement
        began = desk.now()
        call = Call.of(self._method, self._params, future, limit, began).into(stream)
        self._call = call
        desk.take(call)
        if self._kind.ends == "reply":
            future.add_done_callback(lambda done: _heed(done, stream))
            return
        try:
            await future
        except asyncio.CancelledError:  # perhaps as the acknowledgement came: then it is open
            self.close(stream)
            raise
        if whole is not None:
            left = max(0.0, began + whole - desk.now())
            self._alarm = desk.loop.call_later(left, self._expire, stream, whole)

    def _expire(self, stream: EventStream, seconds: float) -> None:
        if stream.ended:
            return
        self._leave(stream, f"timed out after {seconds:g} s")
        stream.fail(
            CallTimeout(
                "X0840",
                f"{self._method} took longer than {seconds:g} s, and its last event has not come",
                extension=self._desk.extension,
                help="give the stream a longer timeout, or look at what the extension is doing",
            )
        )

    def close(self, stream: EventStream) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        call = self._call
        if call is not None:
            session = call.session
            if session is None or not self._kind.nameless:  # else only its reply tells its end
                self._desk.cancel(call, _LEFT)
            if session is not None:
                session.leave(stream, _LEFT)

    def _leave(self, stream: EventStream, why: str) -> None:
        if self._call is not None and self._call.session is not None:
            self._call.session.leave(stream, why)


def _heed(done: "asyncio.Future[Any]", stream: EventStream) -> None:
    """Where the reply ends a stream, what the call failed with is what the stream failed with."""
    if not done.cancelled() and (error := done.exception()) is not None:
        assert isinstance(error, ExthostError)
        stream.fail(copy_of(error))
