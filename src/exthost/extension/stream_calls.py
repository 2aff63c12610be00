"""Opens and leaves streams: makes the call behind `async with ext.stream(…)`.

A stream is a call with many results, its events. In some dialects (protocols) the reply ends the
stream, and the call ends with the reply. In others the reply only acknowledges the stream; the call
then ends with the last event. In both cases the call is counted when the stream ends, with one of
the usual outcomes (result, error, timeout, cancelled, gone).
"""

import uuid
from collections.abc import Mapping
from typing import Any

from exthost.dialects.base import Dialect
from exthost.errors import UsageError
from exthost.extension.call_queue import CallQueue
from exthost.extension.misuse import check_loop
from exthost.session.stream import EventStream, StreamCall
from exthost.session.stream_queue import StreamQueue

# The reason that is sent to the extension with the cancellation.
_LEFT_REASON = "the consumer left"


def make_stream(
    queue: CallQueue,
    dialect: Dialect,
    method: str,
    params: Any,
    reply_seconds: float,
    stream_seconds: float | None,
) -> EventStream:
    """Return a stream that opens when its `async with` block is entered.

    `stream_seconds` limits the whole stream, from the call to the last event; None if the caller
    set no timeout. `reply_seconds` limits the time until the reply, but if the reply ends the
    stream and `stream_seconds` is set, only that counts.
    """
    kind = dialect.streams.get(method)
    if kind is None:
        stream_methods = ", ".join(dialect.streams) or "none"
        raise UsageError(
            "X1307",
            f"{method} is not a stream in the {dialect.name} dialect",
            extension=queue.extension,
            help=f"its streams are: {stream_methods}; use call() for a single answer",
        )
    key = None
    if kind.key is not None:
        params = _with_key(params, kind.key, method, queue.extension)
        key = params[kind.key]
    # Without a timeout of the caller, the dialect may limit a stream by its params. That limit
    # begins with the acknowledgement, so that it does not include the start of a process.
    dialect_seconds = None
    if stream_seconds is None and kind.limit is not None:
        dialect_seconds = kind.limit(params)

    def open_stream(stream: EventStream) -> None:
        check_loop(queue)
        timeout = reply_seconds if stream_seconds is None else stream_seconds
        # If a terminal event ends the stream, the reply only acknowledges it, and must arrive
        # within the time of any other reply.
        if kind.ends == "terminal":
            timeout = min(reply_seconds, timeout)
        call = StreamCall(
            method,
            params,
            stream,
            timeout,
            queue.now(),
            dialect_seconds if stream_seconds is None else stream_seconds,
            from_acknowledgement=stream_seconds is None,
        )
        queue.submit(call)

    return EventStream(kind, key, open=open_stream, close=lambda stream: _leave(queue, stream))


def _leave(queue: CallQueue, stream: StreamQueue) -> None:
    """Cancel the call of a stream whose consumer left early. `stream` is the EventStream, which is
    a StreamQueue."""
    call = stream.call
    if call is None or call.ended:
        return
    session = call.session
    if session is None or not stream.kind.nameless:
        queue.cancel(call, _LEFT_REASON)
        return
    # The events do not name their stream, so events that the extension still sends would be taken
    # for events of the next stream. Therefore the call counts as ended now, but the session keeps
    # its request until the reply comes.
    call.ended = True
    queue.outcomes.record_unsuccessful(call, "cancelled")
    session.leave_stream(stream, _LEFT_REASON)


def _with_key(params: Any, key: str, method: str, extension: str) -> dict[str, Any]:
    """Return the params with the stream's name under `key`, by which its events are recognised. A
    caller who gives no name gets a random name."""
    # Params that are not an object become an object without the key, which is refused below.
    params_with_key = {key: str(uuid.uuid4()), **params} if isinstance(params, Mapping) else {}
    if type(params_with_key.get(key)) not in (str, int):
        raise UsageError(
            "X1328",
            f"{method} is opened with an object, whose {key} names the stream: text, a whole "
            "number, or absent",
            extension=extension,
            help=f"leave {key} out, and it is given a name",
        )
    return params_with_key
