"""The one life-cycle table: where an extension can be, and what moves it.

Owns the states, the events, the table of moves and what each state means to others: whether its
tools are listed, whether a call waits, which word health shows. Knows no process, no clock and
no policy. The extension's owner (above) steps through it; registry, health, command line and
web page read from it; `docs/lifecycle.md` shows the diagram that `diagram` draws, which
`python -m exthost.extension.lifecycle` prints.

A move that is not in the table is a mistake of ours, never of an extension: `step` raises
IllegalMove, and nobody should catch it.

How a process ends is not an event, what follows from it is: the restart policy (or the breaker)
decides in the same step, so the three decisions of `restart.py` are three events here.

Four things that are deliberately no moves:
- asked again while it is ready: the fresh process takes the place of the old one when it can serve,
  and the extension is ready all the time;
- one process of a pool ends while another is ready: the extension is still ready;
- a process ends while the breaker is open: the probe brings a fresh one anyway;
- a stop when nothing runs and nothing will by itself (see `rests`): a failed one still says so.
"""

from enum import Enum, StrEnum
from typing import Final, NamedTuple


class State(StrEnum):
    """Where an extension is. Each is equal to the word that users see."""

    DISCOVERED = "discovered"
    REFUSED = "refused"
    ADMITTED = "admitted"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    BACKOFF = "backoff"
    OPEN = "open"
    STOPPED = "stopped"
    FAILED = "failed"


class Health(StrEnum):
    """How an extension is, in one word. Each is equal to that word."""

    UNKNOWN = "unknown"
    REFUSED = "refused"
    IDLE = "idle"
    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    STOPPING = "stopping"
    RESTARTING = "restarting"
    SUSPENDED = "suspended"
    STOPPED = "stopped"
    FAILED = "failed"


class Event(Enum):
    """What moves an extension; each is explained in docs/lifecycle.md."""

    ADMIT = "admit"
    REFUSE = "refuse"
    START = "start"
    SHOOK_HANDS = "shook hands"
    WILL_RETRY = "will retry"
    RETRY_DUE = "retry due"
    REST = "rest"
    GAVE_UP = "gave up"
    BREAKER_OPENED = "breaker opened"
    PROBE = "probe"
    ASKED_AGAIN = "asked again"
    STOP = "stop"
    ENDED = "ended"


class Move(NamedTuple):
    """One row: in this state, on this event, go there."""

    state: State
    event: Event
    next: State


class IllegalMove(LookupError):
    """There is no such row. A bug in the host."""

    def __init__(self, state: State, event: Event) -> None:
        known = ", ".join(f"'{row.event.value}'" for row in TABLE if row.state is state)
        super().__init__(
            f"internal error: '{event.value}' is no move from '{state.value}', which knows {known}"
        )
        self.state = state
        self.event = event


FIRST: Final = State.DISCOVERED

TABLE: Final = (
    Move(State.DISCOVERED, Event.ADMIT, State.ADMITTED),
    Move(State.DISCOVERED, Event.REFUSE, State.REFUSED),
    # Whoever asks again has perhaps set the missing variable: the gate judges anew.
    Move(State.REFUSED, Event.ASKED_AGAIN, State.DISCOVERED),
    Move(State.ADMITTED, Event.START, State.STARTING),
    Move(State.ADMITTED, Event.ASKED_AGAIN, State.STARTING),
    Move(State.ADMITTED, Event.STOP, State.STOPPED),
    Move(State.STARTING, Event.SHOOK_HANDS, State.READY),
    # A pin, a path or a permission can turn out wrong as late as at the spawn or the handshake.
    Move(State.STARTING, Event.REFUSE, State.REFUSED),
    Move(State.STARTING, Event.WILL_RETRY, State.BACKOFF),
    Move(State.STARTING, Event.REST, State.ADMITTED),
    Move(State.STARTING, Event.GAVE_UP, State.FAILED),
    Move(State.STARTING, Event.BREAKER_OPENED, State.OPEN),
    Move(State.STARTING, Event.STOP, State.DRAINING),
    Move(State.READY, Event.WILL_RETRY, State.BACKOFF),
    Move(State.READY, Event.REST, State.ADMITTED),
    Move(State.READY, Event.GAVE_UP, State.FAILED),
    Move(State.READY, Event.BREAKER_OPENED, State.OPEN),
    Move(State.READY, Event.STOP, State.DRAINING),
    Move(State.BACKOFF, Event.RETRY_DUE, State.STARTING),
    Move(State.BACKOFF, Event.ASKED_AGAIN, State.STARTING),
    Move(State.BACKOFF, Event.STOP, State.STOPPED),
    Move(State.OPEN, Event.PROBE, State.STARTING),
    Move(State.OPEN, Event.ASKED_AGAIN, State.STARTING),
    Move(State.OPEN, Event.STOP, State.DRAINING),
    Move(State.DRAINING, Event.ENDED, State.STOPPED),
    Move(State.STOPPED, Event.ASKED_AGAIN, State.STARTING),
    Move(State.FAILED, Event.ASKED_AGAIN, State.STARTING),
)

_NEXT: Final = {(row.state, row.event): row.next for row in TABLE}


def step(state: State, event: Event) -> State:
    """Where this event leads from this state. Raises IllegalMove."""
    try:
        return _NEXT[state, event]
    except KeyError:
        raise IllegalMove(state, event) from None


class Facts(NamedTuple):
    """What a state means to everyone else. `crashed` is the health word after a crash."""

    serves: bool
    waits: bool
    health: Health
    crashed: Health


# An open breaker keeps its tools listed: the call that probes must be able to find them, or it
# would stay open for ever. Backoff does too: its calls wait, and a list that flickers with each
# crash makes every onlooker ask again.
FACTS: Final = {
    State.DISCOVERED: Facts(False, False, Health.UNKNOWN, Health.UNKNOWN),
    State.REFUSED: Facts(False, False, Health.REFUSED, Health.REFUSED),
    State.ADMITTED: Facts(True, True, Health.IDLE, Health.IDLE),
    State.STARTING: Facts(True, True, Health.STARTING, Health.RESTARTING),
    State.READY: Facts(True, False, Health.RUNNING, Health.DEGRADED),
    State.DRAINING: Facts(False, False, Health.STOPPING, Health.STOPPING),
    State.BACKOFF: Facts(True, True, Health.RESTARTING, Health.RESTARTING),
    State.OPEN: Facts(True, False, Health.SUSPENDED, Health.SUSPENDED),
    State.STOPPED: Facts(False, False, Health.STOPPED, Health.STOPPED),
    State.FAILED: Facts(False, False, Health.FAILED, Health.FAILED),
}


def serves(state: State) -> bool:
    """Whether its tools are listed: it can serve them, or will be started for a call."""
    return FACTS[state].serves


def waits(state: State) -> bool:
    """Whether a call that arrives now waits for a process; in `admitted` it also causes one."""
    return FACTS[state].waits


def health(state: State, *, crashed: bool) -> Health:
    """The health word; `crashed` says whether a process of it has crashed before."""
    facts = FACTS[state]
    return facts.crashed if crashed else facts.health


def rests(state: State) -> bool:
    """Whether nothing runs and nothing will by itself: only asking again leads out."""
    return state in _RESTING


_RESTING: Final = frozenset(
    state
    for state in State
    if {row.event for row in TABLE if row.state is state} == {Event.ASKED_AGAIN}
)


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    rows = (f"    {row.state.value} --> {row.next.value}: {row.event.value}" for row in TABLE)
    return "\n".join(["stateDiagram-v2", f"    [*] --> {FIRST.value}", *rows])


if __name__ == "__main__":
    print(diagram())
