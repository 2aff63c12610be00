"""Performs the effects that a conversation returns.

A `Conversation` (the rules of one dialect's messages) does no I/O. It returns effects: values such
as "write this frame", "fail this call", "end the session". This module performs them, except for
the most frequent effect, completed calls, which the session itself performs. The owner of the calls
is the call queue: it counts their outcomes and delivers them to the callers.

The objects that handle streams, requests of the child to the host, notifications and subscriptions
are created lazily, because most sessions need few of them and a host may have hundreds of sessions.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from exthost.dialects.meanings import RequestCancelled
from exthost.dialects.steps import Subscribe
from exthost.model.messages import Failure, Message, Reply
from exthost.model.spec import Limits
from exthost.session import effects, failures
from exthost.session.call import Call
from exthost.session.call_owner import CallOwner
from exthost.session.conversation import Conversation
from exthost.session.diagnostics import Diagnostics
from exthost.session.failures import EndCause
from exthost.session.inbound import Handler, InboundRequests
from exthost.session.internal_calls import InternalCalls
from exthost.session.notifications import Notifications
from exthost.session.outbound_hold import OutboundHold
from exthost.session.phase import Phase
from exthost.session.stream import EventStream
from exthost.session.stream_queue import MAX_SESSION_BYTES, MAX_STREAM_BYTES, Room, StreamQueue
from exthost.session.subscriptions import Subscriptions


class SessionPort(Protocol):
    """The part of the session that the performer uses.

    limits          the time and size limits of the extension
    wire_id         the id that the extension uses for itself in its messages
    handlers        the functions that answer requests of the child, by method
    on_stale_offer  called when the tools have changed and must be requested again, or None
    internal        sends the host's own requests
    write           writes a frame to the child
    send            sends a message whose reply is not needed, such as the answer to a request
    leave_stream    closes a stream, and tells the child this reason if the dialect can
    pause_for       stops reading the output of the child until the consumer of this stream, or of
                    another one, has read some of its events
    drive           calls a method of the conversation under the session's lock, and performs the
                    effects that it returns
    end             ends the session; `retired` means that the process is to be replaced
    """

    limits: Limits
    wire_id: str
    handlers: Mapping[str, Handler]
    on_stale_offer: Callable[[], None] | None
    internal: InternalCalls

    def write(self, frame: effects.Frame) -> None: ...
    def send(self, message: Message) -> None: ...
    def leave_stream(self, stream: StreamQueue, reason: str) -> None: ...
    def pause_for(self, stream: EventStream) -> None: ...
    def drive(self, method: Callable[..., list[effects.Effect]], *arguments: Any) -> None: ...
    def end(self, cause: EndCause, *, retired: bool = False) -> None: ...


class EffectPerformer:
    """Performs the effects of one session."""

    __slots__ = (
        "_conversation",
        "_diagnostics",
        "_dialect",
        "_inbound",
        "_loop",
        "_notifications",
        "_owner",
        "_session",
        "_subscriptions",
        "hold",
    )

    def __init__(
        self,
        session: SessionPort,
        owner: CallOwner,
        conversation: Conversation,
        diagnostics: Diagnostics,
    ) -> None:
        self._session = session
        self._owner = owner
        self._conversation = conversation
        self._diagnostics = diagnostics
        self._dialect = conversation.dialect
        self._loop = owner.loop
        self._inbound: InboundRequests | None = None
        self._notifications: Notifications | None = None
        self._subscriptions: Subscriptions | None = None
        # In dialects that need it: holds messages back while the child waits for an answer.
        self.hold: OutboundHold | None = None
        if self._dialect.traits.quiet_while_asked:
            self.hold = OutboundHold(owner.hold_calls, owner.release_calls)

    def perform(self, effect: Any) -> None:
        """Perform one effect."""
        _PERFORM[type(effect)](self, effect)

    def cancel(self) -> None:
        """Stop handling requests and renewing subscriptions, because the session has ended."""
        if self._inbound is not None:
            self._inbound.cancel()
        if self._subscriptions is not None:
            self._subscriptions.cancel()

    def _perform_failed(self, effect: effects.Failed) -> None:
        self._owner.fail(effect.call, effect.error)

    def _perform_write(self, effect: effects.WriteFrame) -> None:
        self._session.write(effect.frame)

    def _perform_send_internal(self, effect: effects.SendInternal) -> None:
        self._session.internal.send(effect.message)

    def _perform_set_deadline(self, effect: effects.SetDeadline) -> None:
        call, seconds = effect
        call.limit_request(None if seconds is None else self._owner.now() + seconds)
        self._owner.watch_deadline(call)

    def _perform_deliver_event(self, effect: effects.DeliverEvent) -> None:
        """Add an event to the queue of its stream, or fail the stream if its consumer is too
        slow."""
        stream, event, size, is_last = effect
        assert isinstance(stream, EventStream)
        if stream.ended:
            return
        stream.max_bytes = self._stream_limit(stream, size)
        room = stream.room(size, lambda: self._others_wait(stream))
        if room is Room.OVERRUN:
            self._session.leave_stream(stream, "its events were not read")
            self._owner.fail(
                stream.call, failures.stream_overrun_error(self._diagnostics.extension)
            )
            return
        stream.push(event, size)
        if room is Room.PAUSE and not is_last:
            self._session.pause_for(stream)

    def _stream_limit(self, stream: StreamQueue, size: int) -> int:
        """Return how many bytes may wait in a stream that gets an event of `size` bytes: an equal
        part of what all streams may hold together, if they would hold more."""
        part = MAX_SESSION_BYTES // max(1, self._conversation.stream_count)
        if stream.bytes + size <= part or part >= MAX_STREAM_BYTES:
            return MAX_STREAM_BYTES
        total = size + sum(other.bytes for other in self._conversation.streams())
        return MAX_STREAM_BYTES if total <= MAX_SESSION_BYTES else part

    def _others_wait(self, stream: StreamQueue) -> bool:
        # The consumer of the stream may itself wait for a call, inside its `async for` loop.
        return self._owner.has_waiting or self._conversation.others_wait(stream)

    def _perform_stream_accepted(self, effect: effects.StreamAccepted) -> None:
        stream, call = effect.stream, effect.stream.call
        assert isinstance(stream, EventStream)
        if not call.ended:
            call.acknowledged(self._owner.now())
            stream.acknowledge()
        self._owner.acknowledged(call)

    def _perform_serve_request(self, effect: effects.ServeRequest) -> None:
        self._inbound_requests.serve(effect.request)

    def _perform_run_handler(self, effect: effects.RunHandler) -> None:
        call, request = effect

        def on_answer(answer: Reply | Failure) -> None:
            self._session.drive(self._conversation.resume, call, request.id, answer)

        self._inbound_requests.ask(request, on_answer)

    @property
    def _inbound_requests(self) -> InboundRequests:
        if self._inbound is None:
            self._inbound = InboundRequests(
                self._session.handlers,
                self._dialect.refuse,
                self._session.send,
                self._diagnostics,
                self._loop,
                hold=self.hold,
            )
        return self._inbound

    def _perform_notified(self, effect: effects.Notified) -> None:
        if type(effect.meaning) is RequestCancelled and self._inbound is not None:
            self._inbound.cancel_request(effect.meaning.id)
        if self._notifications is None:
            self._notifications = Notifications(
                self._diagnostics,
                self._owner.bus,
                self._session.wire_id,
                self._extend_deadline,
                self._report_stale_offer,
            )
        self._notifications.handle(effect)

    def _extend_deadline(self, call: Call) -> None:
        """Give a call that reports progress more time, unless its caller has set a timeout."""
        factor = self._dialect.traits.progress_multiplier
        # A call without a timeout has the very object of the limits. A timeout of its caller is
        # another object, also if the numbers are equal.
        if factor > 1 and call.timeout is self._session.limits.call:
            call.extend_deadline(self._owner.now(), factor * call.timeout)

    def _report_stale_offer(self) -> None:
        if self._session.on_stale_offer is not None:
            self._session.on_stale_offer()

    def _perform_subscribed(self, effect: effects.Subscribed) -> None:
        if self._subscriptions is None:
            self._subscriptions = Subscriptions(
                self._diagnostics.extension,
                self._loop,
                self._subscribe,
                self._report_stale_offer,
                self._diagnostics.shorten,
            )
        self._subscriptions.add(*effect)

    def _subscribe(self, subscription: Subscribe) -> None:
        # A session that drains waits for its open requests. It must not send new ones.
        if self._conversation.phase is not Phase.DRAINING:
            self._session.drive(self._conversation.subscribe, subscription)

    def _perform_subscription_ended(self, effect: effects.SubscriptionEnded) -> None:
        if self._subscriptions is not None and self._conversation.phase is not Phase.DRAINING:
            self._subscriptions.handle_reply(*effect)

    def _perform_stray(self, effect: effects.Stray) -> None:
        self._diagnostics.stray(*effect)

    def _perform_count(self, effect: effects.Count) -> None:
        self._diagnostics.count(*effect)

    def _perform_end(self, effect: effects.End) -> None:
        self._session.end(effect.cause, retired=effect.retired)

    def _perform_interrupt(self, effect: effects.Interrupt) -> None:
        raise effect.exception


_PERFORM: Mapping[type, Callable[[EffectPerformer, Any], None]] = {
    effects.Failed: EffectPerformer._perform_failed,
    effects.WriteFrame: EffectPerformer._perform_write,
    effects.SendInternal: EffectPerformer._perform_send_internal,
    effects.SetDeadline: EffectPerformer._perform_set_deadline,
    effects.DeliverEvent: EffectPerformer._perform_deliver_event,
    effects.StreamAccepted: EffectPerformer._perform_stream_accepted,
    effects.ServeRequest: EffectPerformer._perform_serve_request,
    effects.RunHandler: EffectPerformer._perform_run_handler,
    effects.Subscribed: EffectPerformer._perform_subscribed,
    effects.SubscriptionEnded: EffectPerformer._perform_subscription_ended,
    effects.Notified: EffectPerformer._perform_notified,
    effects.Stray: EffectPerformer._perform_stray,
    effects.Count: EffectPerformer._perform_count,
    effects.End: EffectPerformer._perform_end,
    effects.Interrupt: EffectPerformer._perform_interrupt,
}
