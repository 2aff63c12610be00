"""The life-cycle table: the states of an extension, and the events that change them.

Has the states, the events, the table of moves and what each state means to other code: whether
tools are listed, whether a call waits, which word health shows. Knows no process, no clock and no
policy. The supervisor moves through the table; registry, health and command line read from it.
`docs/lifecycle.md` shows the diagram that `python -m exthost.extension.lifecycle` prints.

A move that is not in the table is a bug in exthost, never a fault of an extension: `step` raises
IllegalMove, which no code should catch.

The end of a process is not an event; the decision about it is. The restart policy or the breaker
decides in the same step, so the three decisions of `restart.py` are three events here.

Four things are deliberately not moves:
- a restart is requested while the extension is ready: the new process replaces the old one when it
  can serve, and the extension stays ready;
- one process of a pool ends while another is ready: the extension stays ready;
- a process ends while the breaker is open: the next probe starts a new one anyway;
- a stop when nothing runs and nothing will start by itself (see `is_at_rest`): `failed` stays
  `failed`.
"""

from enum import Enum, StrEnum
from typing import Final, NamedTuple


class State(StrEnum):
    """The state of an extension. Each is equal to the word that users see."""

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
    """The health of an extension. Each is equal to the word that users see."""

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
    """The table has no such row: a bug in the host."""

    def __init__(self, state: State, event: Event) -> None:
        known = ", ".join(f"'{row.event.value}'" for row in TABLE if row.state is state)
        super().__init__(
            f"internal error: '{event.value}' is no move from '{state.value}', which knows {known}"
        )
        self.state = state
        self.event = event


INITIAL_STATE: Final = State.DISCOVERED

TABLE: Final = (
    Move(State.DISCOVERED, Event.ADMIT, State.ADMITTED),
    Move(State.DISCOVERED, Event.REFUSE, State.REFUSED),
    # Before a requested restart the missing variable may have been set: it is checked again.
    Move(State.REFUSED, Event.ASKED_AGAIN, State.DISCOVERED),
    Move(State.ADMITTED, Event.START, State.STARTING),
    Move(State.ADMITTED, Event.ASKED_AGAIN, State.STARTING),
    Move(State.ADMITTED, Event.STOP, State.STOPPED),
    Move(State.STARTING, Event.SHOOK_HANDS, State.READY),
    # A wrong pin, path or permission may be found as late as at the spawn or the handshake.
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
    """Return the state after this event. Raises IllegalMove."""
    try:
        return _NEXT[state, event]
    except KeyError:
        raise IllegalMove(state, event) from None


class StateFacts(NamedTuple):
    """What a state means to other code. `crashed` is the health word after a crash."""

    serves: bool
    waits: bool
    health: Health
    crashed: Health


# While the breaker is open the tools stay listed: a call must find its tool to be a probe, or the
# breaker would stay open for ever. In backoff they stay listed, too: calls wait, and a list that
# changes with each crash would make every client request it again.
FACTS: Final = {
    State.DISCOVERED: StateFacts(False, False, Health.UNKNOWN, Health.UNKNOWN),
    State.REFUSED: StateFacts(False, False, Health.REFUSED, Health.REFUSED),
    State.ADMITTED: StateFacts(True, True, Health.IDLE, Health.IDLE),
    State.STARTING: StateFacts(True, True, Health.STARTING, Health.RESTARTING),
    State.READY: StateFacts(True, False, Health.RUNNING, Health.DEGRADED),
    State.DRAINING: StateFacts(False, False, Health.STOPPING, Health.STOPPING),
    State.BACKOFF: StateFacts(True, True, Health.RESTARTING, Health.RESTARTING),
    State.OPEN: StateFacts(True, False, Health.SUSPENDED, Health.SUSPENDED),
    State.STOPPED: StateFacts(False, False, Health.STOPPED, Health.STOPPED),
    State.FAILED: StateFacts(False, False, Health.FAILED, Health.FAILED),
}


def serves(state: State) -> bool:
    """Return whether tools are listed: the extension can serve them, or a call will start it."""
    return FACTS[state].serves


def waits(state: State) -> bool:
    """Return whether a new call waits for a process; in `admitted` it also causes a start."""
    return FACTS[state].waits


def health(state: State, *, crashed: bool) -> Health:
    """Return the health word. `crashed`: a process of the extension has crashed before."""
    facts = FACTS[state]
    return facts.crashed if crashed else facts.health


def is_at_rest(state: State) -> bool:
    """Return whether nothing runs and only a requested restart starts something."""
    return state in _RESTING


_RESTING: Final = frozenset(
    state
    for state in State
    if {row.event for row in TABLE if row.state is state} == {Event.ASKED_AGAIN}
)


def diagram() -> str:
    """Return the table as a Mermaid state diagram."""
    rows = (f"    {row.state.value} --> {row.next.value}: {row.event.value}" for row in TABLE)
    return "\n".join(["stateDiagram-v2", f"    [*] --> {INITIAL_STATE.value}", *rows])


if __name__ == "__main__":
    print(diagram())
