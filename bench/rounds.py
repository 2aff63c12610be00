"""Rounds: subject and baseline run one after the other, many times, in changing order.

A machine that is slow for a while slows down both, so the ratio of a round stays the same. The
median of these ratios is the value of a row.
"""

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from bench.row import Reading

# Seconds per call, one number for each round.
Samples = dict[str, list[float]]


def _order(names: Sequence[str], turn: int) -> Sequence[str]:
    return names if turn % 2 == 0 else names[::-1]


class _Clock:
    """Times the blocks of the rounds."""

    def __init__(self, names: Sequence[str], calls: int) -> None:
        self._calls = calls
        self._samples: Samples = {name: [] for name in names}
        self._start = 0.0

    def start(self) -> None:
        self._start = time.perf_counter()

    def stop(self, name: str, turn: int, measured: object) -> None:
        took = time.perf_counter() - self._start
        if turn >= 0:
            self._samples[name].append(
                measured if isinstance(measured, float) else took / self._calls
            )

    def samples(self) -> Samples:
        return self._samples


def take_turns(
    blocks: Mapping[str, Callable[[], object]], rounds: int, calls: int = 1, warm: int = 1
) -> Samples:
    """Time each block once a round, after `warm` rounds that do not count; return seconds per call.

    A block that returns a float has measured itself: the float is its seconds per call.
    """
    clock = _Clock(list(blocks), calls)
    for turn in range(-warm, rounds):
        for name in _order(list(blocks), turn):
            clock.start()
            clock.stop(name, turn, blocks[name]())
    return clock.samples()


async def take_turns_async(
    blocks: Mapping[str, Callable[[], Awaitable[object]]],
    rounds: int,
    calls: int = 1,
    warm: int = 1,
) -> Samples:
    """Do the same on a running loop. A blocking baseline blocks the loop during its turn."""
    clock = _Clock(list(blocks), calls)
    for turn in range(-warm, rounds):
        for name in _order(list(blocks), turn):
            clock.start()
            clock.stop(name, turn, await blocks[name]())
    return clock.samples()


def held(block: Callable[[], object]) -> Callable[[], Awaitable[None]]:
    """Return a blocking block in the form of a block for a loop."""

    async def step() -> None:
        block()

    return step


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Return the ratio of each round."""
    return [a / b for a, b in zip(over, under, strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    if len(values) < 2:
        return (values[0], values[0], values[0])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (low, middle, high)


def read_values(
    values: Sequence[float], absolute: tuple[tuple[str, str], ...] = (), note: str = ""
) -> Reading:
    """Return the median of these values, with its quartiles."""
    low, middle, high = quartiles(values)
    return Reading(middle, absolute, note, low, high)


def duration(seconds: Sequence[float]) -> str:
    """Return the median of these times as text, in a fitting unit."""
    middle = statistics.median(seconds)
    if middle < 1e-3:
        return f"{middle * 1e6:.1f} us"
    if middle < 1:
        return f"{middle * 1e3:.2f} ms"
    return f"{middle:.2f} s"
