"""Which process of a pool gets the trial call, which shows whether the program reads ahead.

A pool is a number of processes of one extension. A program reads ahead if it reads a call while it
handles another one; then a process may get several calls at once. To find out, the pool sends one
more call to a busy process, and checks whether it is read. A process that has unread bytes, or that
works on no call, would not show it.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from exthost.extension.read_ahead import ReadAheadTrial


def process(calls: int, unread: int = 0) -> Any:
    """Return a session with this many calls in flight and bytes that are not read."""
    return SimpleNamespace(pending=dict.fromkeys(range(calls), "call"), unread_bytes=lambda: unread)


def process_with_trial(*sessions: Any, max_in_flight: int = 3) -> Any:
    """Return the process that got the trial call, or None."""
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
    assert process_with_trial(busy, less_busy) is less_busy


@pytest.mark.parametrize(
    "unsuitable",
    [process(0), process(3), process(1, unread=5)],
    ids=["it works on no call", "it has all calls that it may have", "it has not read the last"],
)
def test_a_process_of_which_nothing_can_be_learnt_does_not_get_it(unsuitable: Any) -> None:
    assert process_with_trial(unsuitable) is None
