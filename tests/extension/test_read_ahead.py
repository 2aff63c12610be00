"""Which process of a pool gets the call that tries whether it reads ahead."""

from types import SimpleNamespace
from typing import Any

import pytest

from exthost.extension.read_ahead import ReadAheadTrial


def process(calls: int, unread: int = 0) -> Any:
    return SimpleNamespace(pending=dict.fromkeys(range(calls), "call"), unread_bytes=lambda: unread)


def first_trial(*sessions: Any, max_in_flight: int = 3) -> Any:
    """Return the process that got the trial call; None if none did."""
    chosen: list[Any] = []
    queue: Any = SimpleNamespace(
        loop=SimpleNamespace(time=lambda: 100.0),
        max_in_flight=max_in_flight,
        sessions=list(sessions),
        send_first_waiting=chosen.append,
    )
    choice: Any = SimpleNamespace(reads_ahead=False)
    trial = ReadAheadTrial(queue, choice)
    started = trial._start()
    assert (started is None) == (not chosen)
    return chosen[0] if chosen else None


def test_the_process_with_the_fewest_calls_gets_it() -> None:
    busy, less_busy = process(2), process(1)
    assert first_trial(busy, less_busy) is less_busy


@pytest.mark.parametrize(
    "unsuitable",
    [process(0), process(3), process(1, unread=5)],
    ids=["it works on no call", "it has all calls that it may have", "it has not read the last"],
)
def test_a_process_of_which_nothing_can_be_learnt_does_not_get_it(unsuitable: Any) -> None:
    assert first_trial(unsuitable) is None
