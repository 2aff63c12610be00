"""The restart policy: what follows when a process has ended, from its past and the time.

Pure: no clock is read and no chance is taken here; the caller passes `at`, `now` (seconds of any
one monotonic clock) and `jitter` (a number in [0, 1)). Knows nothing of processes or dialects;
the settings come as a `model.Restart`, the past as a `History`, which the extension's owner
advances and keeps. Fails only by ValueError for a word in the settings that it does not know.

    history = history.started(at)            about to spawn, whatever the reason
    history = history.ready(at)              hands were shaken
    history = history.served()               it answered a caller (the handshake is no call)
    history = history.ended(policy, at)      it is gone, or never came to be
    decision, history = decide(policy, history, now=…, jitter=…)
    history = history.asked_again()          a person or the API wants it: the slate is clean

An end that is followed by no `decide` (the breaker opened) costs no retry, and neither does the
start after it. A retry is spent when the process is really started, not when it is granted.

**Budgets.** There are two. A *first start* (never ready since it was loaded or asked for) is not
repeated unless `start_retries` says so: every page wants one clear error there, not a loop. Once
it has been ready, `max_retries` counts every further start, after a crash as after a re-start
that failed: within the sliding `window`, or, without one, since the count was last forgiven.
`max_retries` None is no limit. Permanent causes are never retried. On demand nothing is retried
by itself, so neither rule applies: the next use is somebody asking; `max_retries`, where given,
still counts (first starts too).

**Forgiving.** `forgiven_by` "uptime": the process had been ready for 60 s; "call": it had served
a call; None: "uptime", or with a `window` the passing of time alone. Never a mere handshake.

**Delays.** exponential: initial_delay doubled with each retry counted, at most max_delay, less up
to 20 % by jitter: never longer than written (so never above max_delay), never below 80 % of it.
immediate: none.

**The floor.** A policy without limit must not spin when a child shakes hands and dies: after three
processes in a row that neither served a call nor were ready for 60 s, each further one waits at
least 0.1 s, doubling up to max_delay (30 s if not said; the 0.1 s holds even above a smaller
max_delay). Limited policies need no floor: the budget ends them.

**Memory.** A History holds at most max_retries + 1 times (65 without a limit, one without a
window), however long the host lives.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from exthost.extension.lifecycle import Event
from exthost.model import Restart

# Long enough that no child which dies of its own start reaches it (DESIGN, decision 9).
SUSTAINED_UPTIME_S: Final = 60.0
# For settings of which neither the user nor the dialect said anything.
DEFAULT_INITIAL_DELAY_S: Final = 1.0
DEFAULT_MAX_DELAY_S: Final = 30.0
# Enough to pull apart extensions that died together; downwards only, so that a limit is a limit.
JITTER_SHARE: Final = 0.2
# "immediate" keeps its word for a hiccup; only a series is slowed down.
FREE_FRUITLESS: Final = 3
FLOOR_S: Final = 0.1
# 2**64 of any sensible unit is beyond any max_delay, and floats do not overflow there.
MAX_DOUBLINGS: Final = 64


class Phase(Enum):
    """How far the present (or the last) process got."""

    EMPTY_MAPPING = "never started"
    STARTING = "never got ready"
    SERVING = "crashed while serving"


class Again(NamedTuple):
    """Start it again after so many seconds."""

    delay: float


class OnDemand(NamedTuple):
    """Start it again when it is next used."""


class GiveUp(NamedTuple):
    """Leave it, until somebody asks again."""

    reason: str


Decision: TypeAlias = Again | OnDemand | GiveUp

_EVENTS: Final[dict[type, Event]] = {
    Again: Event.WILL_RETRY,
    OnDemand: Event.REST,
    GiveUp: Event.GAVE_UP,
}


def event_of(decision: Decision) -> Event:
    """The life-cycle event that a decision is."""
    return _EVENTS[type(decision)]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What the policy must remember of one extension. See the module's docstring for its use.

    attempts       when retries were spent, newest last; pruned by `decide`
    used           retries spent since the count was last forgiven
    failed_starts  first starts in a row that never got ready
    fruitless      processes in a row that ended without a served call or sustained uptime
    crashes        processes that were ready and then ended by themselves, since last asked for
    restarts       retries spent in all its life; never reset
    granted        which budget the next start is charged to
    final          why it was given up, until asked again
    """

    attempts: tuple[float, ...] = ()
    used: int = 0
    failed_starts: int = 0
    fruitless: int = 0
    crashes: int = 0
    restarts: int = 0
    phase: Phase = Phase.EMPTY_MAPPING
    ready_at: float | None = None
    has_served: bool = False
    been_ready: bool = False
    granted: Literal["", "start", "retry"] = ""
    final: str = ""

    def started(self, at: float) -> "History":
        """A process is about to be spawned: first, again, on demand, or as a probe."""
        retry = self.granted == "retry"
        return replace(
            self,
            attempts=(*self.attempts, at) if retry else self.attempts,
            used=self.used + retry,
            restarts=self.restarts + (self.granted != ""),
            phase=Phase.STARTING,
            ready_at=None,
            has_served=False,
            granted="",
        )

    def ready(self, at: float) -> "History":
        """It shook hands. Forgives nothing."""
        return replace(self, phase=Phase.SERVING, ready_at=at, been_ready=True, failed_starts=0)

    def of(self, ready_at: float, *, has_served: bool) -> "History":
        """The same, as told of one process among several: it was ready then, and served or not."""
        return replace(
            self, phase=Phase.SERVING, ready_at=ready_at, been_ready=True, has_served=has_served
        )

    def served(self) -> "History":
        """It served a call. Cheap to repeat: the first one of each process says it all."""
        return self if self.has_served else replace(self, has_served=True)

    def ended(self, policy: Restart, at: float, *, by_us: bool = False) -> "History":
        """Its process is gone. `by_us`: we ended it (a probe's replacement, idleness): no fault."""
        sustained = self.ready_at is not None and at - self.ready_at >= SUSTAINED_UPTIME_S
        forgiven = {"uptime": sustained, "call": self.has_served, "": False}[_forgiver(policy)]
        first_start_failed = self.phase is Phase.STARTING and not self.been_ready and not by_us
        fruitless = 0 if sustained or self.has_served else self.fruitless + (not by_us)
        return replace(
            self,
            attempts=() if forgiven else self.attempts,
            used=0 if forgiven else self.used,
            failed_starts=self.failed_starts + first_start_failed,
            fruitless=fruitless,
            crashes=self.crashes + (self.phase is Phase.SERVING and not by_us),
        )

    def asked_again(self) -> "History":
        """A person or the API wants it started: everything but the life's total is forgotten."""
        return History(restarts=self.restarts)


def decide(
    policy: Restart,
    history: History,
    *,
    now: float,
    jitter: float,
    permanent: bool = False,
    start_retries: int = 0,
) -> tuple[Decision, History]:
    """What to do about the end that `history` was last told of, and the history that knows it.

    `permanent`: the cause cannot go away by itself (no such file, not executable, bad version).
    """
    if history.final:
        return GiveUp(history.final), history
    history = replace(history, attempts=_remembered(policy, history, now))
    decision = _decide(policy, history, jitter, permanent, start_retries)
    if isinstance(decision, GiveUp):
        return decision, replace(history, final=decision.reason, granted="")
    first = _is_first_start(history) and isinstance(decision, Again)
    return decision, replace(history, granted="start" if first else "retry")


def _decide(
    policy: Restart, history: History, jitter: float, permanent: bool, start_retries: int
) -> Decision:
    strategy = _strategy(policy)
    spent = history.used if policy.window is None else len(history.attempts)
    exhausted = policy.max_retries is not None and spent >= policy.max_retries
    if strategy == "on-demand":
        return GiveUp(_exhausted(policy, history, spent)) if exhausted else OnDemand()
    if permanent:
        return GiveUp(f"it {history.phase.value}, for a cause that trying again cannot cure")
    if strategy == "never":
        return GiveUp(f"it {history.phase.value}, and its restart strategy is never")
    if _is_first_start(history):
        if history.failed_starts > start_retries:
            return GiveUp(_never_came_up(history))
        return Again(_delay(policy, history, history.failed_starts - 1, jitter))
    if exhausted:
        return GiveUp(_exhausted(policy, history, spent))
    return Again(_delay(policy, history, spent, jitter))


def _delay(policy: Restart, history: History, doublings: int, jitter: float) -> float:
    longest = DEFAULT_MAX_DELAY_S if policy.max_delay is None else policy.max_delay
    first = DEFAULT_INITIAL_DELAY_S if policy.initial_delay is None else policy.initial_delay
    delay = 0.0 if policy.strategy == "immediate" else _doubled(first, doublings, longest)
    delay *= 1 - JITTER_SHARE * jitter
    beyond = history.fruitless - FREE_FRUITLESS
    if policy.max_retries is None and beyond > 0:
        delay = max(delay, FLOOR_S, _doubled(FLOOR_S, beyond - 1, longest))
    return delay


def _doubled(first: float, times: int, longest: float) -> float:
    return min(first * 2.0 ** min(times, MAX_DOUBLINGS), longest)


def _remembered(policy: Restart, history: History, now: float) -> tuple[float, ...]:
    """The attempts that can still matter: inside the window, and no more than can be counted."""
    if policy.window is None:
        return ()
    keep = MAX_DOUBLINGS if policy.max_retries is None else policy.max_retries
    inside = tuple(at for at in history.attempts if at > now - policy.window)
    return inside[max(0, len(inside) - keep) :]


def _is_first_start(history: History) -> bool:
    return history.phase is Phase.STARTING and not history.been_ready


def _strategy(policy: Restart) -> str:
    strategy = policy.strategy or "never"
    if strategy not in ("never", "immediate", "exponential", "on-demand"):
        raise ValueError(f"unknown restart strategy {strategy!r}")
    return strategy


def _forgiver(policy: Restart) -> str:
    forgiver = policy.forgiven_by or ("uptime" if policy.window is None else "")
    if forgiver not in ("uptime", "call", ""):
        raise ValueError(f"unknown forgiven_by {forgiver!r}")
    return forgiver


def _never_came_up(history: History) -> str:
    if history.failed_starts == 1:
        return "it never got ready, and a first start is not repeated"
    return f"it never got ready in {history.failed_starts} starts"


_SINCE: Final = {
    "uptime": f"since it was last ready for {SUSTAINED_UPTIME_S:g} s",
    "call": "since it last served a call",
}


def _exhausted(policy: Restart, history: History, spent: int) -> str:
    what = f"it {history.phase.value}, and "
    if policy.max_retries == 0:
        return f"{what}no restart is allowed (max_retries = 0)"
    if policy.window is not None:
        span = f"in the last {policy.window:g} s"
    else:
        span = _SINCE[_forgiver(policy)]
    times = "1 restart" if policy.max_retries == 1 else f"all {policy.max_retries} restarts"
    was = "was" if policy.max_retries == 1 else "were"
    return f"{what}{times} allowed {span} {was} used ({spent} of {policy.max_retries})"
