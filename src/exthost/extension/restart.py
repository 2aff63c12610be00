"""The restart policy: decides what to do after the end of a process, from its history and the time.

Pure: reads no clock and makes no random number; the caller passes `at`, `now` (seconds of any one
monotonic clock) and `jitter` (a number in [0, 1)). Knows no processes and no dialects. The settings
are a `spec.Restart`, the past is a `History`, which `RestartTracker` keeps. Raises only
ValueError, for an unknown word in the settings.

    history = history.started(at)            a process is about to be spawned
    history = history.ready(at)              its handshake is done
    history = history.served()               it answered a call (the handshake is not a call)
    history = history.ended(policy, at)      it ended, or could not be spawned
    decision, history = decide(policy, history, now=…, jitter=…)
    history = history.asked_again()          a restart was requested: all but the totals is reset

An end without a `decide` (the breaker opened) uses no retry, and neither does the start after it. A
retry is used when the process is started, not when it is granted.

**Budgets.** There are two. A *first start* (never ready since the load or a requested restart) is
repeated only as often as `start_retries` says, because one clear error is better than a loop. After
it has been ready, `max_retries` counts every further start, after a crash and after a restart that
failed: within the sliding `window`, or, without one, since the last reset. `max_retries` None means
no limit. Permanent causes are never retried. With "on-demand" nothing is retried automatically: the
next use causes the next start, and `max_retries`, if set, counts these starts, first ones included.

**Reset.** `forgiven_by` "uptime": after the process was ready for 60 s; "call": after it served a
call; None: "uptime", or, with a `window`, only by the passing of time. Never by a handshake alone.

**Delays.** exponential: initial_delay, doubled with each retry, at most max_delay; jitter takes off
up to 20 %, so the delay is never above max_delay and never below 80 % of it. immediate: no delay.

**The floor.** A policy without a limit must not spin when a child completes its handshake and dies:
after three processes in a row that neither served a call nor were ready for 60 s, each further one
waits at least 0.1 s, doubled up to max_delay (30 s if not set; the 0.1 s applies even above a
smaller max_delay). Policies with a limit need no floor: the limit ends them.

**Memory.** A History has at most max_retries + 1 times (65 without a limit, one without a window),
however long the host runs.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from exthost.extension.lifecycle import Event
from exthost.spec import Restart

# Long enough that no child that fails soon after its start reaches it (docs/lifecycle.md).
SUSTAINED_UPTIME_S: Final = 60.0
# For settings that neither the config nor the dialect sets.
DEFAULT_INITIAL_DELAY_S: Final = 1.0
DEFAULT_MAX_DELAY_S: Final = 30.0
# Enough to separate the restarts of extensions that ended together. Jitter only shortens a delay,
# so that max_delay is never exceeded.
JITTER_SHARE: Final = 0.2
# "immediate" means no delay for single failures; only a series of them is slowed down.
FREE_FRUITLESS: Final = 3
FLOOR_S: Final = 0.1
# 2**64 of any sensible unit is beyond any max_delay, and floats do not overflow there.
MAX_DOUBLINGS: Final = 64


class Phase(Enum):
    """The progress of the present (or the last) process."""

    NOT_STARTED = "never started"
    STARTING = "never got ready"
    SERVING = "crashed while serving"


class Again(NamedTuple):
    """Start the extension again after `delay` seconds."""

    delay: float


class OnDemand(NamedTuple):
    """Start the extension again at its next use."""


class GiveUp(NamedTuple):
    """Do not start the extension again until a restart is requested."""

    reason: str


Decision: TypeAlias = Again | OnDemand | GiveUp

_EVENTS: Final[dict[type, Event]] = {
    Again: Event.WILL_RETRY,
    OnDemand: Event.REST,
    GiveUp: Event.GAVE_UP,
}


def lifecycle_event_for(decision: Decision) -> Event:
    """Return the life-cycle event of a decision."""
    return _EVENTS[type(decision)]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The history of one extension, as the policy needs it. The module's docstring shows its use.

    attempts       when retries were used, newest last; pruned by `decide`
    used           retries used since the last reset
    failed_starts  first starts in a row that never got ready
    fruitless      processes in a row that ended without a served call or sustained uptime
    crashes        processes that were ready and then ended by themselves, since the last request
    restarts       retries used since the extension was loaded; never reset
    granted        the budget that the next start counts against
    final          why the extension was given up, until a restart is requested
    """

    attempts: tuple[float, ...] = ()
    used: int = 0
    failed_starts: int = 0
    fruitless: int = 0
    crashes: int = 0
    restarts: int = 0
    phase: Phase = Phase.NOT_STARTED
    ready_at: float | None = None
    has_served: bool = False
    been_ready: bool = False
    granted: Literal["", "start", "retry"] = ""
    final: str = ""

    def started(self, at: float) -> "History":
        """Return the history before a spawn: first, again, on demand, or as a probe."""
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
        """Return the history after a handshake, which resets nothing."""
        return replace(self, phase=Phase.SERVING, ready_at=at, been_ready=True, failed_starts=0)

    def of(self, ready_at: float, *, has_served: bool) -> "History":
        """Return the history as seen by one process of several, which got ready at this time."""
        return replace(
            self, phase=Phase.SERVING, ready_at=ready_at, been_ready=True, has_served=has_served
        )

    def served(self) -> "History":
        """Return the history after a served call. Only the first call of a process changes it."""
        return self if self.has_served else replace(self, has_served=True)

    def ended(self, policy: Restart, at: float, *, by_us: bool = False) -> "History":
        """Return the history after the end of a process. `by_us`: the host ended it, without a
        fault of the process (it was idle, or replaced by a probe)."""
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
        """Return the history after a requested restart: all but the total `restarts` is reset."""
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
    """Return what to do about the last end in `history`, and the history after that decision.

    `permanent`: the cause cannot go away by itself (no such file, not executable, wrong version).
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
    """Return the attempts that still count: inside the window, and no more than the limit."""
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
