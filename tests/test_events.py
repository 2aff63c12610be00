"""Tests of the event bus (`exthost.events.Bus`), by which a host reports what happens.

A listener subscribes to a class of events: `bus.subscribe(StateChanged, print)`. A subscription
that would never receive an event is an error.
"""

import asyncio
from typing import Any

import pytest

import exthost
from exthost.errors import UsageError
from exthost.events import EVERYTHING, Bus, LogLine, StateChanged


@pytest.mark.parametrize("kind", ["StateChanged", str, None, (StateChanged, "Exited")])
def test_subscribing_to_a_class_that_is_not_an_event_is_an_error(kind: Any) -> None:
    with pytest.raises(UsageError, match="not a kind of event") as caught:
        Bus().subscribe(kind, lambda event: None)
    assert caught.value.code == "X1331" and "StateChanged" in caught.value.help


async def listen(event: Any) -> None:
    raise AssertionError


@pytest.mark.parametrize("listener", [listen, None, "print"])
def test_a_listener_that_cannot_be_called_is_an_error(listener: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Bus().subscribe(StateChanged, listener)
    assert caught.value.code == "X1332"


def test_a_listener_is_called_until_it_unsubscribes() -> None:
    bus, received = Bus(), list[Any]()
    unsubscribe = bus.subscribe(EVERYTHING, received.append)
    line = LogLine("a", "stderr", 20, "hello")
    bus.publish(line)
    unsubscribe()
    bus.publish(line)
    assert received == [line] and not bus.listeners


def test_a_listener_that_raises_does_not_keep_the_event_from_others() -> None:
    bus, received = Bus(), list[Any]()
    raised: list[type[BaseException]] = [ValueError, asyncio.CancelledError, GeneratorExit]

    def fail(_: Any) -> None:
        # CancelledError, for example, comes from `task.result()` of a cancelled task.
        raise raised[len(received)]

    bus.subscribe(LogLine, fail)
    bus.subscribe(LogLine, received.append)
    for _ in raised:
        bus.publish(LogLine("a", "stderr", 20, "hello"))
    assert len(received) == len(raised)


@pytest.mark.parametrize("dialect", ["morphir", None])
async def test_the_error_for_an_awaited_connection_says_what_to_write(dialect: str | None) -> None:
    with pytest.raises(UsageError, match="async with") as caught:
        await exthost.connect(["python3"], dialect=dialect)
    assert caught.value.code == "X1333"
