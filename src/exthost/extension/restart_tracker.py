"""What the restart policy remembers of one extension, and what it decides.

Joins the pure policy (`restart`) with a clock, a random number and the two counts that never go
back. The supervisor reports every start, handshake and end here, and asks what to do next.
"""

import random
from collections.abc import Callable

from exthost.errors import ExthostError, HandshakeFailed, SpawnFailed
from exthost.extension.restart import Decision, History, decide
from exthost.model import Restart


class RestartTracker:
    """The restart history of one extension. `crashes` counts in all its life, and is never
    reset; `has_crashed` is forgotten when a restart is requested."""

    __slots__ = ("_history", "_now", "_policy", "crashes")

    def __init__(self, policy: Restart, now: Callable[[], float]) -> None:
        self._policy = policy
        self._now = now
        self._history = History()
        self.crashes = 0

    @property
    def restarts(self) -> int:
        """How many restarts were spent in all its life."""
        return self._history.restarts

    @property
    def has_crashed(self) -> bool:
        """Whether a process crashed since a restart was last requested."""
        return self._history.crashes > 0

    def started(self) -> None:
        """A process is about to be spawned."""
        self._history = self._history.started(self._now())

    def ready(self) -> None:
        """A process finished its handshake."""
        self._history = self._history.ready(self._now())

    def start_failed(self) -> None:
        """A process did not get ready."""
        self._history = self._history.ended(self._policy, self._now())

    def worker_ended(self, ready_at: float, *, has_served: bool, by_us: bool) -> None:
        """A process that served ended by itself. `by_us`: it retired, for no fault of its own."""
        history = self._history.of(ready_at, has_served=has_served)
        self._history = history.ended(self._policy, self._now(), by_us=by_us)
        self.crashes += not by_us

    def idle_ended(self) -> None:
        """The last process was ended because it was idle."""
        self._history = self._history.ended(self._policy, self._now(), by_us=True)

    def forgive(self) -> None:
        """A restart was requested: forget everything but the counts."""
        self._history = self._history.asked_again()

    def decide(self, error: ExthostError) -> Decision:
        """Decide what to do about the end that was last reported, which `error` describes."""
        permanent = isinstance(error, SpawnFailed | HandshakeFailed) and error.permanent
        decision, self._history = decide(
            self._policy,
            self._history,
            now=self._now(),
            jitter=random.random(),
            permanent=permanent,
        )
        return decision
