"""Subscriptions: requests that stay open for the whole session. Sends them again when they end.

An example is `subscriptions/listen` of MCP: while it is open, the server reports when its tools
have changed. A session is the host's end of one process, the child.

The child ends a subscription by a reply. If the reply is not an error, the request is sent again
after a pause. `pauses` of the subscription has the length of each pause; when all are used, the
subscription is given up. A subscription that lasted longer than the longest pause begins with the
first pause again. An error reply ends a subscription permanently. A warning is logged when a
subscription is given up or ends with an error.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from exthost.dialects.steps import Subscribe
from exthost.model.messages import Failure

_log = logging.getLogger("exthost.session")


class _OpenSubscription(NamedTuple):
    subscription: Subscribe
    attempt: int  # how many pauses were used before it was sent
    opened_at: float


class Subscriptions:
    """The subscriptions of one session. `send` sends a subscription; `on_stale_offer` requests the
    tools again. `shorten` returns the beginning of a text of the extension, without secrets."""

    __slots__ = (
        "_extension",
        "_loop",
        "_next_attempt",
        "_on_stale_offer",
        "_open",
        "_send",
        "_shorten",
        "_timers",
    )

    def __init__(
        self,
        extension: str,
        loop: asyncio.AbstractEventLoop,
        send: Callable[[Subscribe], None],
        on_stale_offer: Callable[[], None],
        shorten: Callable[[str], str],
    ) -> None:
        self._extension = extension
        self._loop = loop
        self._send = send
        self._on_stale_offer = on_stale_offer
        self._shorten = shorten
        self._open: dict[Any, _OpenSubscription] = {}
        self._timers: dict[Any, asyncio.TimerHandle] = {}
        self._next_attempt = 0  # the `attempt` of the subscription that is being sent

    def add(self, id: Any, subscription: Subscribe) -> None:
        """Remember a subscription that was sent under this id."""
        self._open[id] = _OpenSubscription(subscription, self._next_attempt, self._loop.time())

    def handle_reply(self, id: Any, failure: Failure | None) -> None:
        """Handle the reply to a subscription: send it again, or warn."""
        entry = self._open.pop(id, None)
        if entry is None:
            return
        subscription, attempt, opened_at = entry
        pauses = subscription.pauses
        if pauses and self._loop.time() - opened_at > max(pauses):
            attempt = 0
        if failure is not None:
            self._warn(subscription, f"answered with an error: {self._shorten(failure.message)}")
        elif attempt >= len(pauses):
            self._warn(subscription, f"ended {attempt + 1} times in a row" if attempt else "ended")
        else:
            timer = self._loop.call_later(
                pauses[attempt], self._send_again, id, subscription, attempt + 1
            )
            self._timers[id] = timer

    def _send_again(self, id: Any, subscription: Subscribe, attempt: int) -> None:
        self._timers.pop(id, None)
        self._next_attempt = attempt
        try:
            self._send(subscription)
        finally:
            self._next_attempt = 0
        if subscription.refetch_offer:
            self._on_stale_offer()  # a change during the pause was not reported

    def _warn(self, subscription: Subscribe, reason: str) -> None:
        _log.warning(
            "[%s] %s was %s: its notifications do not come any more",
            self._extension,
            subscription.request.method,
            reason,
        )

    def cancel(self) -> None:
        """Send no subscription again, because the session has ended."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._open.clear()
