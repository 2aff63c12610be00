"""Requests that the host sends on its own, such as a cancellation: when they are sent.

Many extensions can read only one message after they have sent a request: its answer. Until the host
has answered, an `OutboundHold` holds back all other messages. A session is the connection to the
process of an extension.
"""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from exthost.errors import UsageError
from exthost.events import Bus
from exthost.extension.call_queue import CallQueue
from exthost.model.messages import Message, Notification, Request
from exthost.session.call import Call
from exthost.session.call_owner import CallOwner
from exthost.session.internal_calls import InternalCalls
from exthost.session.outbound_hold import OutboundHold
from exthost.wire.lines import Lines
from tests.extensions.fake_child import FakeChild, session_with
from tests.extensions.harness import wait_until
from tests.toys.askback import DIALECT as ASKBACK

REQUEST = Request("cancel", {})


class FakeSession:
    """Records what is sent. A session that is not open refuses calls."""

    def __init__(self, is_open: bool = True) -> None:
        self.is_open = is_open
        self.sent: list[Any] = []

    def send_call(self, call: Call) -> None:
        if not self.is_open:
            raise UsageError("X1301", "it is closed")
        self.sent.append(call.method)

    def send(self, message: Message) -> None:
        self.sent.append(message)


class FakeOwner:
    """Records the calls whose deadlines are watched."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.watched: list[str] = []

    def now(self) -> float:
        return 0.0

    def watch_deadline(self, call: Call) -> None:
        self.watched.append(call.method)


def make_calls(session: FakeSession, hold: OutboundHold | None) -> tuple[InternalCalls, FakeOwner]:
    owner = FakeOwner()
    return InternalCalls(session, cast(CallOwner, owner), hold), owner


@pytest.mark.parametrize("has_hold", [True, False])
async def test_a_request_is_sent_at_once_if_nothing_is_held_back(has_hold: bool) -> None:
    session = FakeSession()
    calls, owner = make_calls(
        session, OutboundHold(lambda: None, lambda: None) if has_hold else None
    )
    assert calls.send(REQUEST) is not None
    assert session.sent == owner.watched == ["cancel"]


async def test_a_request_is_sent_at_the_end_of_a_hold() -> None:
    session, hold = FakeSession(), OutboundHold(lambda: None, lambda: None)
    calls, owner = make_calls(session, hold)
    hold.begin()
    assert calls.send(REQUEST) is not None
    assert session.sent == owner.watched == []
    hold.end()
    assert session.sent == owner.watched == ["cancel"]


async def test_a_request_that_cannot_be_sent_has_no_future() -> None:
    calls, owner = make_calls(FakeSession(is_open=False), None)
    assert calls.send(REQUEST) is None
    assert owner.watched == []


async def test_a_notification_is_sent_without_a_future() -> None:
    session = FakeSession()
    calls, _ = make_calls(session, None)
    notification = Notification("cancel", {})
    assert calls.send(notification) is None
    assert session.sent == [notification]


async def test_a_held_notification_that_cannot_be_encoded_is_an_error_of_its_caller() -> None:
    """The others are sent at the end of the hold, as they were when they were passed on."""
    loop = asyncio.get_running_loop()
    queue = CallQueue("x", max_in_flight=1, is_shared=False, bus=Bus(), loop=loop)
    child = FakeChild()
    dialect = replace(
        ASKBACK, framing=Lines, traits=replace(ASKBACK.traits, quiet_while_asked=True)
    )
    session = session_with(child, queue, dialect)
    hold = session._performer.hold
    assert hold is not None
    hold.begin()
    params = {"n": 1}
    session.send(Notification("first", params))
    with pytest.raises(UsageError):
        session.send(Notification("second", object()))
    params["n"] = 2
    session.send(Notification("third", params))
    assert child.received() == [] and session.unread_bytes() > 0
    hold.end()
    sent = [(message["method"], message["params"]) for message in child.received()]
    assert sent == [("first", {"n": 1}), ("third", {"n": 2})]
    assert queue.max_in_flight == 1
    child.exit()
    await wait_until(lambda: session.lifetime.released.is_set)
