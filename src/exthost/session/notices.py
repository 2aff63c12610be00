"""What a child says of its own accord: events of streams, log lines, news of itself.

An event goes to the streams that it is for; what else a notice means, the dialect says. This is
also where a slow consumer is held to its room (see `state.Room`): its child is left unread while
nobody else waits, and the stream is ended alone when somebody does.
"""

import logging
from typing import TYPE_CHECKING, Any

from exthost.dialects.dialect import Emitted, Log, OfferStale, Progress, Told, Unfit
from exthost.events import ExtensionEvent, Noticed, Progressed
from exthost.messages import Notice
from exthost.session.state import Room, StreamQueue
from exthost.session.stream import EventStream
from exthost.session.violations import overrun

if TYPE_CHECKING:
    from exthost.session.session import Session

_log = logging.getLogger("exthost.session")


def take(session: "Session", notice: Notice, size: int) -> None:
    """One notice, of a frame of so many bytes."""
    method, params = notice
    if session.state.is_event(method):
        streams = session.state.streams_for(method, params)
        if not streams:
            session.witness.drop("events of no open stream")
        for stream in streams:
            _event(session, stream, method, params, size)
    meaning = session.dialect.notices.get(method)
    meant = meaning(params) if meaning is not None else None
    if type(meant) is Log:
        session.witness.log("log", meant.level, meant.text)
    elif type(meant) is Emitted:
        _own_event(session, meant)
    elif type(meant) is Told:
        if ExtensionEvent in session.desk.bus.kinds:
            session.desk.bus.publish(
                ExtensionEvent(session.desk.extension, meant.kind, 1, meant.payload)
            )
    elif type(meant) is Unfit:
        _unfit(session, meant.why)
    elif type(meant) is Progress:
        _progress(session, meant)
    elif type(meant) is OfferStale and session.on_stale is not None:
        session.on_stale()
    if Noticed in session.desk.bus.kinds:
        session.desk.bus.publish(Noticed(session.desk.extension, method, params))


def _progress(session: "Session", meant: Progress) -> None:
    """A call has come so far. That buys it time, unless its caller said how long it may take."""
    call = session.pending.get(meant.id) if type(meant.id) in (int, str) else None
    if call is None:
        session.witness.drop("progress of no call")
        return
    patience = session.dialect.traits.patience
    if patience > 1 and call.timeout == session.limits.call:
        call.extend(session.desk.now(), patience * call.timeout)
    if Progressed in session.desk.bus.kinds:
        told = meant.progress, meant.total, meant.message
        session.desk.bus.publish(
            Progressed(session.desk.extension, call.method, *told, call.context)
        )
    if call.on_progress is not None and not call.ended:
        try:
            call.on_progress(meant)
        except Exception:  # an onlooker's trouble is not the child's
            _log.exception("what was to be told of the progress of %s failed", call.method)


def _own_event(session: "Session", emitted: Emitted) -> None:
    """It goes on under the id that it has here, whatever it calls itself on the wire."""
    if emitted.by != session.wire_id:
        _unfit(session, "events in the name of another extension")
    elif ExtensionEvent in session.desk.bus.kinds:
        session.desk.bus.publish(ExtensionEvent(session.desk.extension, *emitted[1:]))


def _unfit(session: "Session", why: str) -> None:
    session.witness.drop(why)
    times = session.witness.counts[why]
    if times & (times - 1) == 0:  # 1, 2, 4, 8 …: a flood must not flood the log, too
        session.witness.log("stdout", logging.WARNING, f"dropped: {why} ({times} so far)")


def _event(session: "Session", stream: StreamQueue, method: str, params: Any, size: int) -> None:
    assert isinstance(stream, EventStream)
    decoded = stream.kind.decode(method, params)
    if decoded is None:
        _unfit(session, "events that could not be read")
        return
    room = stream.room(size, lambda: _others_wait(session, stream))
    if room is Room.OVERRUN:
        session.leave(stream, "its events were not read")
        stream.fail(overrun(session.desk.extension))
        return
    stream.push(decoded.event, size)
    if decoded.terminal:
        session.state.close_stream(stream)
        stream.finish(decoded.event)
    elif room is Room.PAUSE and not session.life.exited.done():
        stream.paused = session.read_on
        session.pause()


def _others_wait(session: "Session", stream: StreamQueue) -> bool:
    # A call that waits for its turn may be the consumer's own, made inside its `async for`.
    return bool(session.desk.waiting) or session.state.others_wait(stream)
