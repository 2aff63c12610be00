"""The event bus."""

import asyncio
from typing import Any

import pytest

import exthost
from exthost.errors import UsageError
from exthost.events import EVERYTHING, Bus, LogLine, StateChanged


@pytest.mark.parametrize("kind", ["StateChanged", str, None, (StateChanged, "Exited")])
def test_a_kind_that_is_never_published_is_an_error(kind: Any) -> None:
    with pytest.raises(UsageError, match="not a kind of event") as caught:
        Bus().subscribe(kind, lambda event: None)
    assert caught.value.code == "X1331" and "StateChanged" in caught.value.help


async def listen(event: Any) -> None:
    raise AssertionError


@pytest.mark.parametrize("listener", [listen, None, "print"])
def test_a_listener_that_would_never_run_is_an_error(listener: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Bus().subscribe(StateChanged, listener)
    assert caught.value.code == "X1332"


def test_a_listener_is_called_until_it_unsubscribes() -> None:
    bus, observed = Bus(), list[Any]()
    unsubscribe = bus.subscribe(EVERYTHING, observed.append)
    line = LogLine("a", "stderr", 20, "hello")
    bus.publish(line)
    unsubscribe()
    bus.publish(line)
    assert observed == [line] and not bus.listeners


def test_a_listener_that_raises_keeps_no_other_from_the_event() -> None:
    bus, observed = Bus(), list[Any]()
    raised: list[type[BaseException]] = [ValueError, asyncio.CancelledError, GeneratorExit]

    def fail(_: Any) -> None:
        # CancelledError is what `task.result()` raises for a task that was cancelled.
        raise raised[len(observed)]

    bus.subscribe(LogLine, fail)
    bus.subscribe(LogLine, observed.append)
    for _ in raised:
        bus.publish(LogLine("a", "stderr", 20, "hello"))
    assert len(observed) == len(raised)


@pytest.mark.parametrize("dialect", ["morphir", None])
async def test_the_error_for_an_awaited_connection_says_what_to_write(dialect: str | None) -> None:
    with pytest.raises(UsageError, match="async with") as caught:
        await exthost.connect(["python3"], dialect=dialect)
    assert caught.value.code == "X1333"
