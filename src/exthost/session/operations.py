"""Runs operations of several requests, which dialects (protocols) define as generators.

A generator yields steps (`dialects/steps.py`), such as a request to send, and receives the replies.
Its return value ends the call:

    def list_tools(params):
        reply = yield Request("tools/list", {})
        return reply.result["tools"]

Between its steps, other messages of the child are handled as usual. An exception in the dialect's
code fails only that call.

An operation may retire the process: the process has done nothing wrong, but is of no use after the
operation, so the session ends it. The functions append effects (what the session must do) to a list
that their caller passes.
"""

import logging
from typing import Any

from exthost.dialects.base import Dialect
from exthost.dialects.steps import (
    AskHost,
    CancelWith,
    GetOffer,
    RetireProcess,
    Step,
    Subscribe,
    TryRequest,
    WaitFor,
)
from exthost.errors import ExthostError, UsageError
from exthost.model.messages import Notification, Request
from exthost.model.offer import NO_OFFER, Offer
from exthost.session import failures
from exthost.session.call import Call
from exthost.session.effects import (
    Effect,
    End,
    Failed,
    RunHandler,
    SetDeadline,
    Subscribed,
    WriteFrame,
)
from exthost.session.replies import Continue, GeneratorHandler, Switch
from exthost.session.requests import RequestTable

_log = logging.getLogger("exthost.session")

# Shared by all conversations in which no call waits for a notification, to save memory. Stays
# empty.
_NO_WAITS: dict[Any, tuple[Call, WaitFor]] = {}


class Operations:
    """Runs the generators of one conversation."""

    __slots__ = ("_dialect", "_requests", "offer", "waits")

    def __init__(self, dialect: Dialect, requests: RequestTable) -> None:
        self._dialect = dialect
        self._requests = requests
        self.offer: Offer = NO_OFFER  # what the extension announced in the handshake
        self.waits = _NO_WAITS  # the calls that wait for a notification, by id

    def switch(self, call: Call, switch: Switch, effects: list[Effect]) -> None:
        """Continue a call that turned out to need more than its first request, with the generator
        of `switch`."""
        call.reply_handler = switch.handler
        self.run(call, None, effects)

    def run(self, call: Call, received: Any, effects: list[Effect]) -> None:
        """Send a value into the generator of a call, and take the steps that it yields, until it
        waits or ends. The effects of the steps are appended to `effects`."""
        handler = call.reply_handler
        assert isinstance(handler, GeneratorHandler)
        try:
            outcome = handler.advance(received)
            while type(outcome) is Continue:
                try:
                    if self._take_step(call, handler, outcome.step, effects):
                        return
                except UsageError as error:  # the request cannot be encoded, or is too large
                    outcome = handler.throw(error)
                    continue
                step_result = self.offer if isinstance(outcome.step, GetOffer) else None
                outcome = handler.advance(step_result)
        except ExthostError as error:
            self._retire(call, handler, effects)
            effects.append(Failed(call, error))
        except Exception as error:  # the dialect's code failed on what the child wrote
            _log.exception("the %s dialect could not follow its own operation", self._dialect.name)
            self._retire(call, handler, effects)
            effects.append(Failed(call, failures.not_understood_error(error)))
        else:
            self._retire(call, handler, effects)
            effects.append([(call, outcome)])

    def _take_step(
        self, call: Call, handler: GeneratorHandler, step: Step, effects: list[Effect]
    ) -> bool:
        """Perform one step of a generator. Return True if the generator must then wait for a reply,
        a notification, or the host's answer."""
        requests = self._requests
        match step:
            case Request(method, params, id):
                handler.awaited = method
                _limit_step(call, handler, None, effects)
                effects.append(WriteFrame(requests.send_step(call, method, params, id)))
                return True
            case TryRequest(Request(method, params, id), seconds):  # goes on without a reply
                handler.awaited = method
                effects.append(WriteFrame(requests.send_step(call, method, params, id)))
                _limit_step(call, handler, seconds, effects)
                return True
            case WaitFor(seconds=seconds):
                _limit_step(call, handler, seconds, effects)
                self._open_waits()
                self.waits[requests.keep_without_request(call)] = call, step
                return True
            case AskHost(method, params):
                _limit_step(call, handler, None, effects)
                wait_id = requests.keep_without_request(call)
                effects.append(RunHandler(call, Request(method, params, wait_id)))
                return True
            case RetireProcess():
                handler.retires_process = True
            case CancelWith(message):
                handler.cancel_message = message
            case Subscribe():
                self.subscribe(step, effects)
            case Notification():
                effects.append(WriteFrame(requests.encode(step)))
        return False

    def on_notification(self, notification: Notification, effects: list[Effect]) -> None:
        """Resume the calls that wait for this notification."""
        method, params = notification
        for id, (call, step) in self._open_waits().items():
            failure = None
            try:
                if step.method != method or not step.matches(params):
                    continue
            except Exception as error:
                failure = self.make_failed_effect(call, error)
            del self.waits[id], self._requests.pending[id]
            if failure is None:
                self.run(call, notification, effects)
            else:
                effects.append(failure)

    def _open_waits(self) -> dict[Any, tuple[Call, WaitFor]]:
        """Remove from `waits` the calls that timed out or were given up. Return a copy of the
        rest."""
        pending = self._requests.pending
        self.waits = {id: wait for id, wait in self.waits.items() if pending.get(id) is wait[0]}
        return dict(self.waits)

    def subscribe(self, subscription: Subscribe, effects: list[Effect]) -> None:
        """Send a request that stays open until the child replies."""
        id, frame = self._requests.subscribe(subscription)
        effects.append(Subscribed(id, subscription))
        effects.append(WriteFrame(frame))

    def make_failed_effect(self, call: Call, error: Exception) -> Failed:
        """Return the effect that fails a call, because the dialect's code raised `error` when it
        read a reply."""
        if isinstance(error, ExthostError):
            return Failed(call, error)
        _log.error("the %s dialect could not read a reply", self._dialect.name, exc_info=error)
        return Failed(call, failures.not_understood_error(error))

    def _retire(self, call: Call, handler: GeneratorHandler, effects: list[Effect]) -> None:
        """End the process if the call left it unusable. This effect must come before the one that
        ends the call, because the next call may be sent as soon as this call has ended."""
        if handler.retires_process:
            effects.append(End(failures.Retired(self._dialect.name, call.method), retired=True))


def _limit_step(
    call: Call, handler: GeneratorHandler, seconds: float | None, effects: list[Effect]
) -> None:
    """Set the deadline of the next step. With `seconds`, the generator continues after that time
    without a reply; with None, the time limit of the call applies."""
    if seconds is not None:
        # At most half of the time limit: the rest of the operation needs time, too.
        effects.append(SetDeadline(call, min(seconds, call.timeout / 2)))
    elif handler.limits_each_request:
        effects.append(SetDeadline(call, call.timeout))
    elif handler.is_optional:  # the previous step had its own time limit
        effects.append(SetDeadline(call, None))
    handler.is_optional = seconds is not None
