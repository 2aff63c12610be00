"""The restart policy: decides whether and when an extension is started again after a process ended.

Pure: reads no clock and makes no random number; the caller passes `at`, `now` (seconds of any one
monotonic clock) and `jitter` (a number in [0, 1)). Knows no processes and no dialects. The settings
are a `spec.Restart`; what happened before is a `RestartHistory`, which `RestartTracker` keeps.
Raises only ValueError, for an unknown value of a setting.

    history = history.started(at)            a process is about to be spawned
    history = history.ready(at)              its handshake is done
    history = history.served()               it answered a call (the handshake is not a call)
    history = history.ended(policy, at)      it ended, or could not be spawned
    decision, history = decide(policy, history, now=…, jitter=…)
    history = history.restart_requested()    everything but `restarts` is reset

When the end of a process opens the breaker, the process of the next probe is the retry, which the
breaker delays. A probe that replaces a process which still runs uses no retry. A retry counts as
used when the process is started, not when `decide` grants it.

**Two budgets.** A budget is a number of retries. A *first start* is a start of an extension that
has not been ready since it was loaded or since a restart was requested. A failed first start is
repeated at most `start_retries` times, because one clear error is better than a loop. Once the
extension has been ready, `max_retries` limits all further starts, after crashes and after failed
restarts. It counts the retries within the sliding `window` or, without a window, since the last
reset. `max_retries` None means no limit. Permanent causes are never retried. With the strategy
"on-demand" nothing is retried automatically: the next call causes the next start, and
`max_retries`, if set, limits these starts, first ones included.

**Reset.** `forgiven_by` says when the used retries are forgotten. "uptime": when a process ends
that was ready for 60 s. "call": when a process ends that answered a call. If it is not set: with a
`window` never, because retries leave the window by themselves; without a window as with "uptime". A
handshake alone resets nothing.

**Delays.** Strategy "exponential": `initial_delay`, doubled with each retry, at most `max_delay`.
Jitter shortens the delay by up to 20 %, so `max_delay` is never exceeded. "immediate": no delay.

**The minimum delay.** A policy without a limit must not loop at full speed when each process
completes its handshake and dies. A process is fruitless if it neither answered a call nor was ready
for 60 s. Three fruitless processes in a row are restarted without a minimum delay. After the fourth
the restart waits at least 0.1 s. This minimum is doubled after each further one, up to `max_delay`
(30 s if not set); the first 0.1 s applies even if `max_delay` is smaller. Policies with a limit
need no minimum, because the limit ends the loop.

**Memory.** `attempts` has at most `max_retries` + 1 times (65 without a limit, 1 without a window),
however long the host runs.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from exthost.extension.lifecycle import Event
from exthost.model.spec import Restart

# Long enough that no process that fails soon after its start reaches it (docs/lifecycle.md).
SUSTAINED_UPTIME_S: Final = 60.0
# For settings that neither the config nor the dialect sets.
DEFAULT_INITIAL_DELAY_S: Final = 1.0
DEFAULT_MAX_DELAY_S: Final = 30.0
# Enough to separate the restarts of extensions that ended together. Jitter only shortens a delay,
# so that max_delay is never exceeded.
JITTER_SHARE: Final = 0.2
# A process is fruitless if it neither answered a call nor was ready for SUSTAINED_UPTIME_S. This
# many fruitless processes in a row are restarted without the minimum delay, because "immediate"
# means no delay after single failures.
FREE_FRUITLESS: Final = 3
MIN_DELAY_S: Final = 0.1
# A delay doubled 64 times exceeds every max_delay, and a float does not overflow.
MAX_DOUBLINGS: Final = 64


class ProcessPhase(Enum):
    """The phase that the present (or the last) process reached. The values are parts of messages to
    users."""

    NOT_STARTED = "never started"
    STARTING = "was never ready"
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
class RestartHistory:
    """The history of one extension, as the policy needs it. The module's docstring shows its use.

    attempts       when retries were used, newest last; `decide` removes times outside the window
    used           retries used since the last reset
    failed_starts  first starts in a row that did not get ready
    fruitless      processes in a row that ended without an answered call or sustained uptime
    crashes        processes that were ready and then ended by themselves, since a restart was last
                   requested
    restarts       retries used since the extension was loaded; never reset
    phase          the phase that the present or last process reached
    ready_at       when that process became ready; None if it did not
    has_served     whether that process answered a call
    has_been_ready whether any process was ready since a restart was last requested
    granted        the budget that the next start uses: "start" for first starts, "retry"
                   for `max_retries`, "" for none
    give_up_reason why the extension was given up, until a restart is requested; "" if it was not
    """

    attempts: tuple[float, ...] = ()
    used: int = 0
    failed_starts: int = 0
    fruitless: int = 0
    crashes: int = 0
    restarts: int = 0
    phase: ProcessPhase = ProcessPhase.NOT_STARTED
    ready_at: float | None = None
    has_served: bool = False
    has_been_ready: bool = False
    granted: Literal["", "start", "retry"] = ""
    give_up_reason: str = ""

    def started(self, at: float) -> "RestartHistory":
        """Return the history after the decision to spawn a process, for whatever reason."""
        is_retry = self.granted == "retry"
        return replace(
            self,
            attempts=(*self.attempts, at) if is_retry else self.attempts,
            used=self.used + is_retry,
            restarts=self.restarts + (self.granted != ""),
            phase=ProcessPhase.STARTING,
            ready_at=None,
            has_served=False,
            granted="",
        )

    def ready(self, at: float) -> "RestartHistory":
        """Return the history after a handshake, which resets nothing."""
        return replace(
            self, phase=ProcessPhase.SERVING, ready_at=at, has_been_ready=True, failed_starts=0
        )

    def for_start(self) -> "RestartHistory":
        """Return the history for a process of a pool that did not become ready. Another one, which
        was started at the same time, may have."""
        return replace(self, phase=ProcessPhase.STARTING, ready_at=None, has_served=False)

    def for_process(self, ready_at: float, *, has_served: bool) -> "RestartHistory":
        """Return the history for the process of a pool that became ready at this time."""
        return replace(
            self,
            phase=ProcessPhase.SERVING,
            ready_at=ready_at,
            has_been_ready=True,
            has_served=has_served,
        )

    def served(self) -> "RestartHistory":
        """Return the history after a reply to a call. Only a process's first reply changes it."""
        return self if self.has_served else replace(self, has_served=True)

    def ended(self, policy: Restart, at: float, *, by_host: bool = False) -> "RestartHistory":
        """Return the history after the end of a process. `by_host`: the host ended it, without a
        fault of the process (it was idle, or could take no other call)."""
        was_sustained = self.ready_at is not None and at - self.ready_at >= SUSTAINED_UPTIME_S
        resets_retries = {"uptime": was_sustained, "call": self.has_served, "": False}[
            _check_forgiven_by(policy)
        ]
        first_start_failed = _is_first_start(self) and not by_host
        fruitless = 0 if was_sustained or self.has_served else self.fruitless + (not by_host)
        return replace(
            self,
            attempts=() if resets_retries else self.attempts,
            used=0 if resets_retries else self.used,
            failed_starts=self.failed_starts + first_start_failed,
            fruitless=fruitless,
            crashes=self.crashes + (self.phase is ProcessPhase.SERVING and not by_host),
        )

    def restart_requested(self) -> "RestartHistory":
        """Return the history after a requested restart: everything but `restarts` is reset."""
        return RestartHistory(restarts=self.restarts)


def decide(
    policy: Restart,
    history: RestartHistory,
    *,
    now: float,
    jitter: float,
    is_permanent: bool = False,
    start_retries: int = 0,
) -> tuple[Decision, RestartHistory]:
    """Return what to do about the last end in `history`, and the history after that decision.

    `is_permanent`: the cause cannot go away by itself (no such file, or a wrong version, …).
    `start_retries`: how often a first start is repeated.
    """
    if history.give_up_reason:
        return GiveUp(history.give_up_reason), history
    history = replace(history, attempts=_prune_attempts(policy, history, now))
    decision = _decide(policy, history, jitter, is_permanent, start_retries)
    if isinstance(decision, GiveUp):
        return decision, replace(history, give_up_reason=decision.reason, granted="")
    is_first = _is_first_start(history) and isinstance(decision, Again)
    return decision, replace(history, granted="start" if is_first else "retry")


def _decide(
    policy: Restart, history: RestartHistory, jitter: float, is_permanent: bool, start_retries: int
) -> Decision:
    """Return the decision without the bookkeeping of `decide`."""
    strategy = _check_strategy(policy)
    used = history.used if policy.window is None else len(history.attempts)
    is_exhausted = policy.max_retries is not None and used >= policy.max_retries
    if strategy == "on-demand":
        return GiveUp(_exhausted_reason(policy, history, used)) if is_exhausted else OnDemand()
    if is_permanent:
        return GiveUp(f"it {history.phase.value}, for a cause that trying again cannot cure")
    if strategy == "never":
        return GiveUp(f"it {history.phase.value}, and its restart strategy is never")
    if _is_first_start(history):
        if history.failed_starts > start_retries:
            return GiveUp(_never_ready_reason(history))
        return Again(_compute_delay(policy, history, history.failed_starts - 1, jitter))
    if is_exhausted:
        return GiveUp(_exhausted_reason(policy, history, used))
    return Again(_compute_delay(policy, history, used, jitter))


def _compute_delay(
    policy: Restart, history: RestartHistory, doublings: int, jitter: float
) -> float:
    """Return the delay before the next start, in seconds. The initial delay is doubled `doublings`
    times."""
    max_delay = DEFAULT_MAX_DELAY_S if policy.max_delay is None else policy.max_delay
    initial = DEFAULT_INITIAL_DELAY_S if policy.initial_delay is None else policy.initial_delay
    delay = 0.0 if policy.strategy == "immediate" else _double(initial, doublings, max_delay)
    delay *= 1 - JITTER_SHARE * jitter
    excess = history.fruitless - FREE_FRUITLESS
    if policy.max_retries is None and excess > 0:
        delay = max(delay, MIN_DELAY_S, _double(MIN_DELAY_S, excess - 1, max_delay))
    return delay


def _double(delay: float, times: int, max_delay: float) -> float:
    return min(delay * 2.0 ** min(times, MAX_DOUBLINGS), max_delay)


def _prune_attempts(policy: Restart, history: RestartHistory, now: float) -> tuple[float, ...]:
    """Return the attempts that still count: inside the window, up to the limit."""
    if policy.window is None:
        return ()
    # Without a limit, the number of attempts only determines how often the delay is doubled.
    max_attempts = MAX_DOUBLINGS if policy.max_retries is None else policy.max_retries
    in_window = tuple(at for at in history.attempts if at > now - policy.window)
    return in_window[max(0, len(in_window) - max_attempts) :]


def _is_first_start(history: RestartHistory) -> bool:
    """Return whether the present or last process is a first start, and has not become ready."""
    return history.phase is ProcessPhase.STARTING and not history.has_been_ready


def _check_strategy(policy: Restart) -> str:
    strategy = policy.strategy or "never"
    if strategy not in ("never", "immediate", "exponential", "on-demand"):
        raise ValueError(f"unknown restart strategy {strategy!r}")
    return strategy


def _check_forgiven_by(policy: Restart) -> str:
    """Return what resets the used retries: "uptime", "call", or "" for nothing."""
    forgiven_by = policy.forgiven_by or ("uptime" if policy.window is None else "")
    if forgiven_by not in ("uptime", "call", ""):
        raise ValueError(f"unknown forgiven_by {forgiven_by!r}")
    return forgiven_by


def _never_ready_reason(history: RestartHistory) -> str:
    if history.failed_starts == 1:
        return "it was never ready, and a first start is not repeated"
    return f"it was not ready after any of {history.failed_starts} starts"


_SINCE: Final = {
    "uptime": f"since it was last ready for {SUSTAINED_UPTIME_S:g} s",
    "call": "since it last served a call",
}


def _exhausted_reason(policy: Restart, history: RestartHistory, used: int) -> str:
    beginning = f"it {history.phase.value}, and "
    if policy.max_retries == 0:
        return f"{beginning}no restart is allowed (max_retries = 0)"
    if policy.window is not None:
        span = f"in the last {policy.window:g} s"
    else:
        span = _SINCE[_check_forgiven_by(policy)]
    restarts = "1 restart" if policy.max_retries == 1 else f"all {policy.max_retries} restarts"
    verb = "was" if policy.max_retries == 1 else "were"
    return f"{beginning}{restarts} allowed {span} {verb} used ({used} of {policy.max_retries})"
