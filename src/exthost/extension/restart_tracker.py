"""Keeps the restart history of one extension, and applies the restart policy to it.

The policy decides whether and when a new process is started after one has ended. The policy itself
(`restart.py`) is pure; this module supplies the clock and a random number. The supervisor and
`Recovery` report every start, handshake and end here; `decide_next` then returns the decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from exthost.errors import HandshakeFailed, SpawnFailed
from exthost.extension.restart import RestartHistory, decide

if TYPE_CHECKING:
    from exthost.errors import ExthostError
    from exthost.extension.restart import Decision
    from exthost.model.spec import Restart


class Retry(NamedTuple):
    """A start that follows the end of a process.

    attempt       its number, from 1
    max_attempts  the largest number that the policy allows; None without a limit
    delay         the seconds from the end of the process to the start
    """

    attempt: int
    max_attempts: int | None
    delay: float

    def __str__(self) -> str:
        limit = "" if self.max_attempts is None else f" of {self.max_attempts}"
        return f"restart {self.attempt}{limit} in {self.delay:.2g} s"


class RestartTracker:
    """The restart history of one extension.

    crashes  how many processes were ready and then ended by themselves since the extension was
             loaded. Failed starts, and ends that the host caused, do not count. It is never reset;
             `has_crashed` is reset by a requested restart.
    """

    __slots__ = ("_history", "_now", "_policy", "crashes")

    def __init__(self, policy: Restart, now: Callable[[], float]) -> None:
        self._policy = policy
        self._now = now
        self._history = RestartHistory()
        self.crashes = 0

    @property
    def restarts(self) -> int:
        """The number of restarts since the extension was loaded."""
        return self._history.restarts

    @property
    def has_crashed(self) -> bool:
        """Whether a process crashed since a restart was last requested."""
        return self._history.crashes > 0

    @property
    def has_been_ready(self) -> bool:
        """Whether any process was ready since a restart was last requested."""
        return self._history.has_been_ready

    @property
    def is_automatic(self) -> bool:
        """Whether the policy starts a process again by itself after one has ended."""
        return self._policy.strategy in ("immediate", "exponential")

    def started(self) -> None:
        """Record that a process is about to be spawned."""
        self._history = self._history.started(self._now())

    def ready(self) -> None:
        """Record that a process finished its handshake."""
        self._history = self._history.ready(self._now())

    def start_failed(self, *, is_unplaced: bool = False) -> None:
        """Record that a process did not get ready. `is_unplaced`: the cluster had no place for it,
        so the failure does not count."""
        history = self._history.for_start()
        self._history = history.ended(self._policy, self._now(), by_host=is_unplaced)

    def process_ended(self, ready_at: float, *, has_served: bool, by_host: bool) -> None:
        """Record that a process has ended that had become ready at the time `ready_at`.
        `has_served`: it answered a call. `by_host`: the host ended it, without a fault of the
        process."""
        history = self._history.for_process(ready_at, has_served=has_served)
        self._history = history.ended(self._policy, self._now(), by_host=by_host)
        self.crashes += not by_host

    def idle_ended(self) -> None:
        """Record that the host ended the last process because it was idle."""
        self._history = self._history.ended(self._policy, self._now(), by_host=True)

    def forget_failures(self) -> None:
        """Reset everything but `crashes` and `restarts`, because a restart was requested."""
        self._history = self._history.restart_requested()

    def plan_retry(self, delay: float) -> Retry:
        """Return the retry that `decide_next` has just granted, after this delay in seconds."""
        history, policy = self._history, self._policy
        # The new retry is not in the history yet: it counts as used when its process is started.
        used = history.used if policy.window is None else len(history.attempts)
        return Retry(used + 1, policy.max_retries, delay)

    def decide_next(self, error: ExthostError) -> Decision:
        """Return what to do about the end that was reported last, which `error` describes."""
        import random  # most hosts never need it

        is_permanent = isinstance(error, SpawnFailed | HandshakeFailed) and error.permanent
        decision, self._history = decide(
            self._policy,
            self._history,
            now=self._now(),
            jitter=random.random(),
            is_permanent=is_permanent,
        )
        return decision
