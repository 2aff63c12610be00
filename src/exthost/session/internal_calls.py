"""Requests that the host makes for itself: cancellations, the handshake, a new list of the tools.

They are sent like every call, but are neither counted in `ext.stats` nor published as events. The
owner of the calls is the call queue of the extension. The hold (`outbound_hold.py`) keeps them back
while the process must get no requests; it is None in dialects without such times.
"""

import asyncio
from functools import partial
from typing import Any, Protocol

from exthost.dialects.steps import Exchanges
from exthost.errors import ExthostError
from exthost.model.messages import Message, Notification, Request
from exthost.session.call import Call, FutureCall
from exthost.session.call_owner import CallOwner
from exthost.session.outbound_hold import OutboundHold
from exthost.session.replies import DELIVER, GeneratorHandler

# The time limit of requests whose reply is not needed, such as a cancellation.
_UNAWAITED_SECONDS = 30.0


class CallSender(Protocol):
    """The part of the session that internal calls use."""

    def send_call(self, call: Call) -> None: ...
    def send(self, message: Message) -> None: ...


class InternalCalls:
    """The host's own calls through one session."""

    __slots__ = ("_hold", "_owner", "_session")

    def __init__(self, session: CallSender, owner: CallOwner, hold: OutboundHold | None) -> None:
        self._session = session
        self._owner = owner
        self._hold = hold

    def send(self, message: Request | Notification) -> "asyncio.Future[Any] | None":
        """Send a message whose reply is not needed. For a request, return a future that is
        done when the reply or an error has come; None if the request could not be sent."""
        if type(message) is not Request:
            self._session.send(message)
            return None
        future: asyncio.Future[Any] = self._owner.loop.create_future()
        # Retrieves the exception, because asyncio logs exceptions that are never retrieved.
        future.add_done_callback(lambda future: future.cancelled() or future.exception())
        call = FutureCall(
            message.method, message.params, DELIVER, _UNAWAITED_SECONDS, self._owner.now(), future
        )
        call.internal = True
        if self._hold is not None and self._hold.keep(partial(self._start, call)):
            return future
        return future if self._start(call) else None

    def run_operation(
        self, name: str, steps: Exchanges, timeout: float, *, limits_each_request: bool = False
    ) -> FutureCall:
        """Run a generator of the dialect. The outcome goes to the future of the call.

        `limits_each_request`: the timeout applies to each request and not to the whole call.
        """
        handler = GeneratorHandler(steps, limits_each_request=limits_each_request)
        future = self._owner.loop.create_future()
        call = FutureCall(name, None, handler, timeout, self._owner.now(), future)
        call.internal = True
        try:
            self._session.send_call(call)
        except ExthostError as error:
            call.reject(error)
        else:
            self._owner.watch_deadline(call)
        return call

    def cancel(self, call: Call) -> None:
        """Give up a call."""
        self._owner.cancel(call)

    def _start(self, call: Call) -> bool:
        """Send a call. Return False if it cannot be sent."""
        try:
            self._session.send_call(call)
        except ExthostError:
            return False
        self._owner.watch_deadline(call)
        return True
