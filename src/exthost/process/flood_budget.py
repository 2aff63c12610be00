"""The budget of output that serves no call. Pure.

A caller waits for a reply, and for the events of its stream. No caller waits for other output: log
messages, notifications, progress reports, requests to the host, replies to no request, lines that
are not messages, and stderr. Such output has a cost, in units: a message costs one unit for itself
and one for each KiB, and handling a unit takes the host a few microseconds.

A budget is a leaky bucket. Each unit raises its level, and the level falls at a fixed rate. Output
is a flood from the moment at which the level is over the burst, until the pipe is empty and the
level has fallen below half the burst.
"""

from typing import NamedTuple

# A message of this many bytes costs twice as much as a message of none.
BYTES_PER_UNIT = 1024

# The cost of a request to the host: it has a task of its own, and an answer that must be written.
REQUEST_UNITS = 8


class Rate(NamedTuple):
    """How fast the level falls, and up to which level output is not a flood."""

    units_per_second: float
    burst_units: float


# One pipe. An extension that sends a thousand notifications a second is far below it, and so is one
# that prints a traceback.
PIPE_RATE = Rate(4000, 128)

# All pipes of one event loop together, while they are not floods: some hundredths of the time of
# the loop. Without it, many extensions could take all of that time, each within its own rate.
LOOP_RATE = Rate(8000, 1024)

# The level does not rise beyond what leaks in this time. So a flood is over this long after the
# last output at the latest, however large it was. But after a very large message, a pause of a
# second is not enough.
_MAX_LEVEL_SECONDS = 10.0


class FloodBudget:
    """A leaky bucket. All times are seconds of one clock."""

    __slots__ = ("_charged_at", "_level", "_rate")

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._level = 0.0
        self._charged_at = 0.0

    def level(self, now: float) -> float:
        """Return the units that have not leaked yet."""
        leaked = (now - self._charged_at) * self._rate.units_per_second
        return max(0.0, self._level - leaked)

    def charge(self, units: float, now: float) -> bool:
        """Add units; return whether the level is now over the burst."""
        highest = self._rate.units_per_second * _MAX_LEVEL_SECONDS
        self._level = min(self.level(now) + units, highest)
        self._charged_at = now
        return self.is_over(now)

    def is_over(self, now: float) -> bool:
        """Return whether the level is over the burst."""
        return self.level(now) > self._rate.burst_units

    def has_recovered(self, now: float) -> bool:
        """Return whether the level has fallen below half the burst."""
        return self.level(now) < self._rate.burst_units / 2


def message_units(size: int) -> int:
    """Return the cost of a message of `size` bytes."""
    return 1 + size // BYTES_PER_UNIT
