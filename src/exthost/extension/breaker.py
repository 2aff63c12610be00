"""The circuit breaker as a state machine: after how many failures an extension gets no more calls,
and for how long.

Pure: reads no clock; the caller passes `now` (seconds of any one monotonic clock). Knows no
processes, calls or dialects. The settings are a `spec.Breaker`. Each method of `Circuit` reports
one event and returns the next `Circuit`. `QueueBreaker` keeps the current one and stops the call
queue while it is open; the supervisor starts the process that a probe is sent to.

    circuit = circuit.after_failure(settings, now)  # a timeout, the end of a process with calls, …
    circuit = circuit.after_success(settings)       # a call got a reply
    circuit = circuit.after_open_time()             # the open time is over: try a new process
    circuit = Circuit()                             # a restart was requested

The phases, in which a word in backticks is a key of the settings:

closed     Calls are sent. `failures` failures in a row open the breaker.
open       Calls fail at once, for `open` seconds. Calls of the old process that end meanwhile
           change nothing.
half-open  One call at a time is sent as a probe. `successes` successful probes close the breaker;
           one failure opens it for twice as long as the last time, at most `max_open` seconds.
           Closing the breaker resets the doubling.

`is_breaker_failure` decides which outcomes are failures. A move that is not in the table is a bug
in exthost and raises KeyError.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from exthost.errors import CallFailed, CallTimeout, ExthostError, ProtocolViolation
from exthost.model.spec import Breaker

# The values of the keys that are not set. An extension has a breaker if at least one key is set.
DEFAULTS: Final = Breaker(failures=5, open=10, max_open=120, successes=2, count_error_replies=False)


class BreakerPhase(Enum):
    """The three states of a breaker. Users see the values in `ext.stats.breaker`."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class BreakerEvent(Enum):
    """An event that changes the phase of a breaker. LAST_FAILURE and LAST_SUCCESS are the failure
    and the success that reach the configured number."""

    FAILURE = "a failure"
    LAST_FAILURE = "one failure too many"
    SUCCESS = "a success"
    LAST_SUCCESS = "a success that is enough"
    TIME_UP = "its time is over"


class BreakerMove(NamedTuple):
    """One row of the table: in this phase, this event leads to the phase `next`."""

    phase: BreakerPhase
    event: BreakerEvent
    next: BreakerPhase


TABLE: Final = (
    BreakerMove(BreakerPhase.CLOSED, BreakerEvent.FAILURE, BreakerPhase.CLOSED),
    BreakerMove(BreakerPhase.CLOSED, BreakerEvent.LAST_FAILURE, BreakerPhase.OPEN),
    BreakerMove(BreakerPhase.CLOSED, BreakerEvent.SUCCESS, BreakerPhase.CLOSED),
    # These are calls that were in flight when the breaker opened: they went to the old process.
    BreakerMove(BreakerPhase.OPEN, BreakerEvent.FAILURE, BreakerPhase.OPEN),
    BreakerMove(BreakerPhase.OPEN, BreakerEvent.SUCCESS, BreakerPhase.OPEN),
    BreakerMove(BreakerPhase.OPEN, BreakerEvent.TIME_UP, BreakerPhase.HALF_OPEN),
    BreakerMove(BreakerPhase.HALF_OPEN, BreakerEvent.LAST_FAILURE, BreakerPhase.OPEN),
    BreakerMove(BreakerPhase.HALF_OPEN, BreakerEvent.SUCCESS, BreakerPhase.HALF_OPEN),
    BreakerMove(BreakerPhase.HALF_OPEN, BreakerEvent.LAST_SUCCESS, BreakerPhase.CLOSED),
)

_NEXT: Final = {(row.phase, row.event): row.next for row in TABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """One breaker, at one moment.

    phase         closed, open or half-open
    failures      failures in a row, while closed
    successes     successful probes, while half-open
    open_seconds  for how long the breaker was last opened; 0 if it was closed since then
    open_until    when a probe may be sent, while open
    """

    phase: BreakerPhase = BreakerPhase.CLOSED
    failures: int = 0
    successes: int = 0
    open_seconds: float = 0.0
    open_until: float = 0.0

    def after_failure(self, settings: Breaker, now: float) -> "Circuit":
        """Return the circuit after a failure."""
        max_failures = _or_default(settings.failures, DEFAULTS.failures)
        is_last = self.phase is BreakerPhase.HALF_OPEN or (
            self.phase is BreakerPhase.CLOSED and self.failures + 1 >= max_failures
        )
        phase = _NEXT[self.phase, BreakerEvent.LAST_FAILURE if is_last else BreakerEvent.FAILURE]
        if self.phase is BreakerPhase.OPEN:  # the call was sent before the breaker opened
            return self
        if phase is BreakerPhase.CLOSED:
            return replace(self, failures=self.failures + 1)
        seconds = initial_seconds = _or_default(settings.open, DEFAULTS.open)
        if self.open_seconds:  # the breaker was not closed since it last opened
            # A `max_open` that is less than `open` has no effect.
            max_seconds = max(initial_seconds, _or_default(settings.max_open, DEFAULTS.max_open))
            seconds = min(self.open_seconds * 2, max_seconds)
        return Circuit(phase=phase, open_seconds=seconds, open_until=now + seconds)

    def after_success(self, settings: Breaker) -> "Circuit":
        """Return the circuit after a call that got a reply."""
        successes_needed = _or_default(settings.successes, DEFAULTS.successes)
        is_last = self.phase is BreakerPhase.HALF_OPEN and self.successes + 1 >= successes_needed
        phase = _NEXT[self.phase, BreakerEvent.LAST_SUCCESS if is_last else BreakerEvent.SUCCESS]
        if self.phase is BreakerPhase.OPEN:  # the call was sent before the breaker opened
            return self
        if phase is BreakerPhase.CLOSED:
            return Circuit()
        return replace(self, successes=self.successes + 1)

    def after_open_time(self) -> "Circuit":
        """Return the half-open circuit, which lets probes through."""
        return replace(self, phase=_NEXT[self.phase, BreakerEvent.TIME_UP], open_until=0.0)

    def seconds_until_probe(self, now: float) -> float:
        """Return the seconds until a probe is allowed; 0 if it is allowed now."""
        if self.phase is not BreakerPhase.OPEN:
            return 0.0
        # At most `open_seconds`: `open_until` is a sum of floats, which may have been rounded up.
        return min(self.open_seconds, max(0.0, self.open_until - now))


def is_breaker_failure(settings: Breaker, error: ExthostError) -> bool:
    """Return whether the breaker counts this error of a call as a failure.

    Timeouts and protocol violations are failures. Error replies are failures only if
    `count_error_replies` is set. An error that also ends the process is not counted here:
    `QueueBreaker.count_crash` counts the end of the process once for all its calls.
    """
    if isinstance(error, CallFailed):
        return bool(settings.count_error_replies)
    return isinstance(error, CallTimeout | ProtocolViolation)


def _or_default(value: float | None, default: float | None) -> float:
    assert default is not None
    return default if value is None else value
