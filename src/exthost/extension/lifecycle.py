"""The life-cycle table: the states of an extension, and the events that change them.

The module also defines what each state means to other code: whether tools are listed, whether a
call waits, what `ext.health` is. Knows no process, no clock and no policy. The supervisor and
`Recovery` report events through `Status.apply_event`; registry, health and command line read the
state. `docs/lifecycle.md` shows the diagram that `python -m exthost.extension.lifecycle` prints.

A move that is not in the table is a bug in exthost, never a fault of an extension: `step` raises
IllegalMove, which no code should catch.

The end of a process is not an event of this table. When a process ends, the restart policy or the
breaker decides synchronously what follows, and each of the three decisions of `restart.py` has an
event here (WILL_RETRY, REST, GAVE_UP).

Four things deliberately do not change the state:
- a restart is requested while the extension is ready: the new process replaces the old one when it
  is ready, and the extension stays ready;
- one process of a pool ends while another is ready: the extension stays ready;
- a process ends while the breaker is open: the next probe starts a new one anyway;
- a stop when nothing runs and nothing will start by itself (see `is_at_rest`): `failed` stays
  `failed`.
"""

from enum import Enum, StrEnum
from typing import Final, NamedTuple


class State(StrEnum):
    """The state of an extension. Each is equal to its text: State.READY == "ready"."""

    DISCOVERED = "discovered"  # loaded, and not checked yet
    REFUSED = "refused"  # a check has failed, such as a missing program or a wrong digest
    ADMITTED = "admitted"  # the checks have passed; no process runs, and a call starts one
    STARTING = "starting"  # a process is spawned, or runs its handshake
    READY = "ready"  # at least one process takes calls
    DRAINING = "draining"  # it is being stopped, and calls in flight may end
    BACKOFF = "backoff"  # it has failed, and is started again after a delay
    OPEN = "open"  # the circuit breaker is open: calls are refused for a while
    STOPPED = "stopped"  # it was stopped by its host
    FAILED = "failed"  # it was given up: only a requested restart starts it


class Health(StrEnum):
    """The health of an extension, which `ext.health` shows. It follows from the state (`FACTS`).
    Each is equal to its text: Health.IDLE == "idle"."""

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
    """An event that changes the state of an extension; docs/lifecycle.md explains each."""

    ADMIT = "admit"  # the checks before the first start have passed
    REFUSE = "refuse"  # a check has failed
    START = "start"  # a caller needs a process
    HANDSHAKE_DONE = "handshake done"
    WILL_RETRY = "will retry"  # decided: a new process after a delay
    RETRY_DUE = "retry due"  # that delay is over
    REST = "rest"  # decided: no process until the next call
    GAVE_UP = "gave up"  # decided: no process until a restart is requested
    BREAKER_OPENED = "breaker opened"
    PROBE = "probe"  # the breaker lets a single call through, which needs a process
    ASKED_AGAIN = "asked again"  # a restart was requested
    STOP = "stop"  # the host ends the extension
    ENDED = "ended"  # the last process has ended after a stop


class Move(NamedTuple):
    """One row of the table: in this state, this event leads to the state `next`."""

    state: State
    event: Event
    next: State


class IllegalMove(LookupError):
    """The table has no such row: a bug in the host."""

    def __init__(self, state: State, event: Event) -> None:
        allowed = ", ".join(f"'{row.event.value}'" for row in TABLE if row.state is state)
        super().__init__(
            f"internal error: '{event.value}' is not a transition from '{state.value}', "
            f"which knows {allowed}"
        )
        self.state = state
        self.event = event


INITIAL_STATE: Final = State.DISCOVERED

TABLE: Final = (
    Move(State.DISCOVERED, Event.ADMIT, State.ADMITTED),
    Move(State.DISCOVERED, Event.REFUSE, State.REFUSED),
    # The missing program or variable may be there by now, so a requested restart checks again.
    Move(State.REFUSED, Event.ASKED_AGAIN, State.DISCOVERED),
    Move(State.ADMITTED, Event.START, State.STARTING),
    Move(State.ADMITTED, Event.ASKED_AGAIN, State.STARTING),
    Move(State.ADMITTED, Event.STOP, State.STOPPED),
    Move(State.STARTING, Event.HANDSHAKE_DONE, State.READY),
    # Some reasons for a refusal show only at the spawn or the handshake, such as a wrong digest.
    Move(State.STARTING, Event.REFUSE, State.REFUSED),
    Move(State.STARTING, Event.WILL_RETRY, State.BACKOFF),
    Move(State.STARTING, Event.REST, State.ADMITTED),
    Move(State.STARTING, Event.GAVE_UP, State.FAILED),
    Move(State.STARTING, Event.BREAKER_OPENED, State.OPEN),
    Move(State.STARTING, Event.STOP, State.DRAINING),
    # A running process lists other tools than the pinned ones (the config has their digest).
    Move(State.READY, Event.REFUSE, State.REFUSED),
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
    """The meaning of a state for other code. `health_after_crash` is the health if a process of the
    extension has crashed before."""

    lists_tools: bool
    lets_calls_wait: bool
    health: Health
    health_after_crash: Health


# While the breaker is open the tools stay listed: without them no call could be made that becomes
# the probe, and the breaker would stay open forever. In backoff they stay listed, too, because
# calls wait then, and because every client would request the list again after each crash.
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


def lists_tools(state: State) -> bool:
    """Return whether the host lists the tools: the extension is ready, or a call will start it."""
    return FACTS[state].lists_tools


def lets_calls_wait(state: State) -> bool:
    """Return whether a new call waits for a process; in `admitted` it also causes a start."""
    return FACTS[state].lets_calls_wait


def health_in(state: State, *, has_crashed: bool) -> Health:
    """Return the health. `has_crashed`: a process of the extension has crashed before."""
    facts = FACTS[state]
    return facts.health_after_crash if has_crashed else facts.health


def is_at_rest(state: State) -> bool:
    """Return whether no process runs, and only a requested restart starts one."""
    return state in _AT_REST


_AT_REST: Final = frozenset(
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
