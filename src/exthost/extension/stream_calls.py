"""Streams: the call behind `async with ext.stream(…)`, how it is opened and how it is left.

If the reply ends the stream, the call ends with the reply. If a last event ends it, the reply is
only an acknowledgement, and the call ends with the last event. Either way the call is counted when
the stream ends: as a result, an error, a timeout, cancelled or gone.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from exthost.dialects.base import Dialect
from exthost.errors import UsageError
from exthost.extension.call_queue import CallQueue
from exthost.session.stream import EventStream, StreamCall
from exthost.session.stream_queue import StreamQueue

_LEFT = "the consumer left"


def make_stream(
    queue: CallQueue, dialect: Dialect, method: str, params: Any, limit: float, whole: float | None
) -> EventStream:
    """Return a stream that opens when it is entered. `limit` is for one reply of the method,
    `whole`, where the caller gave it, for the whole stream."""
    kind = dialect.streams.get(method)
    if kind is None:
        known = ", ".join(dialect.streams) or "none"
        raise UsageError(
            "X1307",
            f"{method} is no stream in the {dialect.name} dialect",
            extension=queue.extension,
            help=f"its streams are: {known}; use call() for a single answer",
        )
    key = None
    if kind.key is not None:
        params = _with_key(params, kind.key, method, queue.extension)
        key = params[kind.key]
    # The dialect's own limit is for what an acknowledged stream does; a start is not part of that.
    own = kind.limit(params) if whole is None and kind.limit is not None else None

    def open(stream: EventStream) -> None:
        first = limit if whole is None else whole
        if kind.ends == "terminal":  # an acknowledgement has no more time than any other reply
            first = min(limit, first)
        seconds = own if whole is None else whole
        call = StreamCall(
            method, params, stream, first, queue.now(), seconds, from_acknowledgement=whole is None
        )
        queue.submit(call)

    return EventStream(kind, key, open=open, close=lambda stream: _leave(queue, stream))


def _leave(queue: CallQueue, stream: StreamQueue) -> None:
    """Give up the call of a stream whose consumer left early."""
    call = stream.call
    if call is None or call.ended:
        return
    session = call.session
    if session is None or not stream.kind.nameless:
        queue.cancel(call, _LEFT)
        return
    # Its events carry no name: what the child still sends would pass for the next call's. So the
    # call keeps its place until the reply comes.
    call.ended = True
    queue.outcomes.record_unsuccessful(call, "cancelled")
    session.leave_stream(stream, _LEFT)


def _with_key(params: Any, key: str, method: str, extension: str) -> dict[str, Any]:
    """Return the params with the name that the events carry: the caller's, or one of ours."""
    params_with_key = {key: str(uuid.uuid4()), **params} if isinstance(params, Mapping) else {}
    if type(params_with_key.get(key)) not in (str, int):
        raise UsageError(
            "X1328",
            f"{method} is opened with an object, whose {key} names the stream: text, or left out",
            extension=extension,
            help=f"leave {key} out, and it is given a name",
        )
    return params_with_key
