"""The circuit breaker: after how many failures an extension gets no more calls, and for how long.

Pure: reads no clock; the caller passes `now` (seconds of any one monotonic clock). Knows no
processes, calls or dialects. The settings are a `spec.Breaker`; `failed` and `succeeded` report
what happened and return the next `Circuit`. `BreakerGate` keeps the circuit and opens and closes
the call queue by it; the supervisor starts the new process that a probe is sent to.

    circuit = circuit.failed(settings, now)        a timeout, the end of a process with calls, …
    circuit = circuit.succeeded(settings)          a call got a reply
    circuit = circuit.probing()                    its time has passed: try a new process
    circuit = Circuit()                            a restart was requested

**Closed**: calls are sent; `failures` in a row open it. **Open**: calls fail at once, for `open`
seconds; results and failures of the old process do not count. **Half-open**: one call at a time is
a probe; `successes` of them close it, and one failure opens it for twice as long as the last time,
at most `max_open`. Closing resets the doubling.

`is_breaker_failure` decides which outcomes are failures. A move that is not in the table is a bug
in exthost and raises KeyError.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from exthost.errors import CallFailed, CallTimeout, ExthostError, ProtocolViolation
from exthost.spec import Breaker

# For settings in which only some keys are set.
DEFAULTS: Final = Breaker(failures=5, open=10, max_open=120, successes=2, count_error_replies=False)


class Phase(Enum):
    """The three states of a breaker. Users see the values."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Event(Enum):
    """What moves a breaker."""

    FAILURE = "a failure"
    LAST_FAILURE = "a failure too many"
    SUCCESS = "a success"
    LAST_SUCCESS = "a success that is enough"
    TIME_UP = "its time is over"


class Move(NamedTuple):
    """One row: in this phase, on this event, go there."""

    phase: Phase
    event: Event
    next: Phase


TABLE: Final = (
    Move(Phase.CLOSED, Event.FAILURE, Phase.CLOSED),
    Move(Phase.CLOSED, Event.LAST_FAILURE, Phase.OPEN),
    Move(Phase.CLOSED, Event.SUCCESS, Phase.CLOSED),
    # Calls that were in flight when it opened end now: they say nothing about a new process.
    Move(Phase.OPEN, Event.FAILURE, Phase.OPEN),
    Move(Phase.OPEN, Event.SUCCESS, Phase.OPEN),
    Move(Phase.OPEN, Event.TIME_UP, Phase.HALF_OPEN),
    Move(Phase.HALF_OPEN, Event.LAST_FAILURE, Phase.OPEN),
    Move(Phase.HALF_OPEN, Event.SUCCESS, Phase.HALF_OPEN),
    Move(Phase.HALF_OPEN, Event.LAST_SUCCESS, Phase.CLOSED),
)

_NEXT: Final = {(row.phase, row.event): row.next for row in TABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """One breaker, at one moment.

    failures   in a row, while closed
    successes  of probes, while half-open
    span       how long it was last opened for, in seconds; 0 since it was last closed
    until      when it may be probed, if it is open
    """

    phase: Phase = Phase.CLOSED
    failures: int = 0
    successes: int = 0
    span: float = 0.0
    until: float = 0.0

    def failed(self, settings: Breaker, now: float) -> "Circuit":
        """Return the circuit after a failure."""
        most = _or_default(settings.failures, DEFAULTS.failures)
        last = self.phase is Phase.HALF_OPEN or (
            self.phase is Phase.CLOSED and self.failures + 1 >= most
        )
        phase = _NEXT[self.phase, Event.LAST_FAILURE if last else Event.FAILURE]
        if self.phase is Phase.OPEN:
            return self
        if phase is Phase.CLOSED:
            return replace(self, failures=self.failures + 1)
        first, longest = (
            _or_default(settings.open, DEFAULTS.open),
            _or_default(settings.max_open, DEFAULTS.max_open),
        )
        span = min(self.span * 2, max(first, longest)) if self.span else first
        return Circuit(phase=phase, span=span, until=now + span)

    def succeeded(self, settings: Breaker) -> "Circuit":
        """Return the circuit after a call that got a reply."""
        enough = _or_default(settings.successes, DEFAULTS.successes)
        last = self.phase is Phase.HALF_OPEN and self.successes + 1 >= enough
        phase = _NEXT[self.phase, Event.LAST_SUCCESS if last else Event.SUCCESS]
        if self.phase is Phase.OPEN:
            return self
        if phase is Phase.CLOSED:
            return Circuit()
        return replace(self, successes=self.successes + 1)

    def probing(self) -> "Circuit":
        """Return the half-open circuit, which lets probes through."""
        return replace(self, phase=_NEXT[self.phase, Event.TIME_UP], until=0.0)

    def seconds_until_probe(self, now: float) -> float:
        """Return the seconds until a probe is allowed; 0 if it is."""
        if self.phase is not Phase.OPEN:
            return 0.0
        return min(self.span, max(0.0, self.until - now))  # a sum may be rounded up


def is_breaker_failure(settings: Breaker, error: ExthostError) -> bool:
    """Return whether this outcome of a call counts as a failure while its process lives. A failure
    that also ends the process is counted once, with the process. An error reply is a failure only
    if the settings say so."""
    if isinstance(error, CallFailed):
        return bool(settings.count_error_replies)
    return isinstance(error, CallTimeout | ProtocolViolation)


def _or_default(value: float | None, default: float | None) -> float:
    assert default is not None
    return default if value is None else value
