"""The breaker at work: what it hears of the calls, and what it does to their queue.

Between the pure table (`breaker`) and the owner, who moves the extension by it. Hears of failures
only: how many calls were answered in between it reads off the queue's counts, so a call that goes
well costs nothing here. Only while probes are let through is it told of each answer.
"""

from collections.abc import Callable

from exthost.errors import NOTHING, BreakerOpen, CallFailed, ExthostError
from exthost.extension.breaker import Circuit, Phase, counts
from exthost.model import Breaker
from exthost.extension.call_queue import CallQueue


class Guard:
    """The breaker of one extension; does nothing where it has no settings."""

    __slots__ = ("_answered", "_queue", "_ring", "_settings", "circuit", "last")

    def __init__(self, settings: Breaker | None, queue: CallQueue, ring: Callable[[], None]) -> None:
        self._settings = settings
        self._queue = queue
        self._ring = ring
        self._answered = 0
        self.circuit = Circuit()
        self.last: ExthostError | None = None
        if settings is not None:
            queue.on_trouble = self._on_trouble

    @property
    def phase(self) -> Phase:
        return self.circuit.phase

    @property
    def is_open(self) -> bool:
        return self.circuit.phase is Phase.OPEN

    @property
    def is_half_open(self) -> bool:
        return self.circuit.phase is Phase.HALF_OPEN

    def may_probe(self) -> bool:
        """Whether it is open, and its time is over."""
        return self.is_open and self.circuit.left(self._queue.now()) == 0

    def crashed(self, error: ExthostError) -> None:
        """A process ended and took calls with it: one failure, however many they were."""
        self._count_answers()
        self._fail(error)

    def _on_trouble(self, error: ExthostError) -> None:
        settings = self._settings
        assert settings is not None
        if counts(settings, error):
            self._count_answers()
            self._fail(error)
        elif isinstance(error, CallFailed) and self.is_half_open:
            self._on_answer()

    def _fail(self, error: ExthostError) -> None:
        if self._settings is not None:
            self.last = error
            self.circuit = self.circuit.failed(self._settings, self._queue.now())
            if self.is_open:
                self.shut()  # in this very step: the place that became free is nobody's
                self._ring()

    def _count_answers(self) -> None:
        """Failures are in a row only if nothing was answered in between."""
        queue, settings = self._queue, self._settings
        if settings is not None and not self.is_half_open:
            answered = queue.accounting.results + (0 if settings.count_error_replies else queue.accounting.refusals)
            if answered > self._answered:
                self.circuit = self.circuit.succeeded(settings)
            self._answered = answered

    def _on_answer(self) -> None:
        assert self._settings is not None
        self.circuit = self.circuit.succeeded(self._settings)
        if self.circuit.phase is Phase.CLOSED:
            self._stand_aside()

    def probe(self) -> None:
        """Let one call at a time through, to a process that is yet to come."""
        self.circuit = self.circuit.probing()
        self._queue.set_concurrency(1)
        self._queue.accounting.on_answer = self._on_answer

    def reset(self) -> None:
        """Somebody asked again: nothing is held against it."""
        self.circuit = Circuit()
        self._stand_aside()

    def _stand_aside(self) -> None:
        self._queue.accounting.on_answer = None
        self._queue.set_concurrency(None)

    def shut(self) -> None:
        """Send every call away, until its time is over."""
        self._queue.close(self.refusal)  # first: nobody who waits is let through
        self._stand_aside()

    def refusal(self, method: str) -> BreakerOpen:
        """Why a call is not sent now."""
        cause = self.last
        left = self.circuit.left(self._queue.now())
        last = f"; the last of them: {cause.message}" if cause is not None else ""
        error = BreakerOpen(
            "X1170",
            f"{method} was not sent: too many failures in a row{last}",
            extension=self._queue.extension,
            help=f"a fresh process is tried by the first call after {left:.1f} s; "
            "restart() tries at once",
            evidence=cause.evidence if cause is not None else NOTHING,
        )
        error.seconds_left = left
        return error
