"""Requests that stay open are sent again after their replies, with a clock that the test moves.

A subscription is a request that the extension answers only when it ends, and during which it sends
notifications. `Subscribe(request, pauses)` says how long the host waits before it sends the request
again: after the first end for the first of the pauses, and so on. After the last pause it stops.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from exthost.dialects.steps import Subscribe
from exthost.events import Bus
from exthost.extension.call_queue import CallQueue
from exthost.model.messages import Failure, Request
from exthost.session.effects import Subscribed, SubscriptionEnded
from exthost.session.subscriptions import Subscriptions
from exthost.session.trace.secrets import SecretFilter
from tests.extensions.fake_child import FakeChild, session_with
from tests.extensions.harness import wait_until

REQUEST = Request("watch", {})
ERROR = Failure(1, "no", -32601)  # a reply with an error, here "method not found"


class FakeLoop:
    """Records the timers that are set. A test calls their functions itself."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], Any]]] = []
        self.cancelled = 0

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
        self.timers.append((seconds, lambda: function(*arguments)))
        return self

    def cancel(self) -> None:
        self.cancelled += 1


class Sender:
    """A table of subscriptions, and how many messages and fetches of the tools it causes."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.sent = 0
        self.refetched = 0
        loop = cast(asyncio.AbstractEventLoop, self.loop)
        self.table = Subscriptions("x", loop, self.send, self.refetch, str)

    def send(self, subscription: Subscribe) -> None:
        self.sent += 1
        self.table.add(self.sent, subscription)

    def refetch(self) -> None:
        self.refetched += 1

    def reply_and_run_timer(self, failure: Failure | None = None) -> None:
        """Let the extension reply to the last request, and run the timer that this sets."""
        self.table.handle_reply(self.sent, failure)
        if self.loop.timers:
            self.loop.timers.pop()[1]()


@pytest.mark.parametrize("refetch_offer", [True, False])
def test_a_subscription_is_sent_again_after_each_of_its_pauses(
    refetch_offer: bool, caplog: pytest.LogCaptureFixture
) -> None:
    sender = Sender()
    sender.send(Subscribe(REQUEST, (1.0, 2.0), refetch_offer))
    sender.table.handle_reply(1, None)
    assert [seconds for seconds, _ in sender.loop.timers] == [1.0]
    sender.loop.timers.pop()[1]()
    sender.table.handle_reply(2, None)
    assert [seconds for seconds, _ in sender.loop.timers] == [2.0]
    sender.loop.timers.pop()[1]()
    assert sender.sent == 3 and sender.refetched == (2 if refetch_offer else 0)
    assert caplog.messages == []
    sender.table.handle_reply(3, None)
    assert sender.loop.timers == [] and "ended 3 times in a row" in caplog.text


@pytest.mark.parametrize(("seconds", "is_first_again"), [(2.0, False), (2.1, True)])
def test_a_subscription_that_was_open_for_long_begins_with_the_first_pause(
    seconds: float, is_first_again: bool
) -> None:
    sender = Sender()
    sender.send(Subscribe(REQUEST, (1.0, 2.0)))
    sender.reply_and_run_timer()
    sender.loop.now += seconds  # it stays open for more than the longest pause, or not
    sender.table.handle_reply(2, None)
    assert sender.loop.timers[0][0] == (1.0 if is_first_again else 2.0)


@pytest.mark.parametrize(
    ("pauses", "failure", "warning"),
    [((), None, "watch was ended:"), ((1.0,), ERROR, "answered with an error: no")],
)
def test_a_subscription_that_ends_for_good_is_logged(
    pauses: tuple[float, ...],
    failure: Failure | None,
    warning: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sender = Sender()
    sender.send(Subscribe(REQUEST, pauses))
    sender.reply_and_run_timer(failure)
    assert sender.sent == 1 and warning in caplog.text
    caplog.clear()
    sender.table.handle_reply(1, None)  # it is not known any more
    assert caplog.messages == []


async def test_a_secret_in_the_error_that_ends_a_subscription_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = CallQueue("x", max_in_flight=1, bus=Bus(), loop=asyncio.get_running_loop())
    child = FakeChild()
    session = session_with(child, queue)
    session.diagnostics.use_secret_filter(SecretFilter(["tok-0123456789"]))
    session._performer.perform(Subscribed(7, Subscribe(REQUEST, (0.0,))))
    failure = Failure(7, "no tok-0123456789 " + "x" * 100_000)
    session._performer.perform(SubscriptionEnded(7, failure))
    assert "answered with an error: no ***" in caplog.text and len(caplog.text) < 1000
    child.exit()
    await wait_until(lambda: session.lifetime.released.is_set)


async def test_the_session_sends_a_subscription_again_after_its_reply() -> None:
    queue = CallQueue("x", max_in_flight=1, bus=Bus(), loop=asyncio.get_running_loop())
    child = FakeChild()
    session = session_with(child, queue)
    session._performer.perform(Subscribed(7, Subscribe(REQUEST, (0.0,))))
    session._performer.perform(SubscriptionEnded(7, None))
    await wait_until(lambda: len(child.received()) == 1)
    assert child.received()[0]["method"] == "watch"
    child.exit()
    await wait_until(lambda: session.lifetime.released.is_set)


def test_nothing_is_sent_after_the_end_of_the_session() -> None:
    sender = Sender()
    sender.send(Subscribe(REQUEST, (1.0,)))
    sender.table.handle_reply(1, None)
    sender.table.cancel()
    assert sender.loop.cancelled == 1
