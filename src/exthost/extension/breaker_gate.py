"""Applies the breaker: counts the failures of calls, and opens and closes their queue.

Connects the pure table (`breaker`) with the supervisor, which changes the state of the extension.
Only failures are reported here. The counts of the queue show how many calls succeeded in between,
so a call that succeeds costs nothing. Only while probes are sent is every result reported.
"""

from collections.abc import Callable

from exthost.errors import NO_EVIDENCE, BreakerOpen, CallFailed, ExthostError
from exthost.extension.breaker import Circuit, Phase, is_breaker_failure
from exthost.extension.call_queue import CallQueue
from exthost.spec import Breaker


class BreakerGate:
    """The breaker of one extension. Does nothing without settings."""

    __slots__ = ("_answered", "_on_open", "_queue", "_settings", "circuit", "last_error", "name")

    def __init__(
        self,
        settings: Breaker | None,
        queue: CallQueue,
        on_open: Callable[[], None],
        name: str = "the breaker",
    ) -> None:
        """`on_open` is called in the step in which failing calls open the breaker, before their
        callers see the errors. `name` is its name in errors and in the log."""
        self.name = name
        self._settings = settings
        self._queue = queue
        self._on_open = on_open
        self._answered = 0
        self.circuit = Circuit()
        self.last_error: ExthostError | None = None
        if settings is not None:
            queue.on_failure = self._on_failure
            if settings.count_error_replies:
                queue.outcomes.on_error_result = self._on_failure

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
        """Whether the breaker is open and its time has passed."""
        return self.is_open and self.circuit.seconds_until_probe(self._queue.now()) == 0

    def count_crash(self, error: ExthostError) -> bool:
        """Count a process that ended with calls in flight as one failure, however many they were.
        Return whether this opened the breaker; the caller then changes the extension's state."""
        self._count_answers()
        return self._count_failure(error)

    def _on_failure(self, error: ExthostError) -> None:
        settings = self._settings
        assert settings is not None
        if is_breaker_failure(settings, error):
            self._count_answers()
            if self._count_failure(error):
                self._on_open()
        elif isinstance(error, CallFailed) and self.is_half_open:
            self._on_answer()

    def _count_failure(self, error: ExthostError) -> bool:
        if self._settings is None:
            return False
        was_open = self.is_open
        self.last_error = error
        self.circuit = self.circuit.failed(self._settings, self._queue.now())
        return self.is_open and not was_open

    def _count_answers(self) -> None:
        """Reset the count of failures if a call succeeded since the last one."""
        queue, settings = self._queue, self._settings
        if settings is not None and not self.is_half_open:
            answered = queue.outcomes.results + (
                0 if settings.count_error_replies else queue.outcomes.error_replies
            )
            if answered > self._answered:
                self.circuit = self.circuit.succeeded(settings)
            self._answered = answered

    def _on_answer(self) -> None:
        assert self._settings is not None
        self.circuit = self.circuit.succeeded(self._settings)
        if self.circuit.phase is Phase.CLOSED:
            self._stop_probing()

    def probe(self) -> None:
        """Let one call at a time through, to a process that is yet to start."""
        self.circuit = self.circuit.probing()
        self._queue.set_concurrency(1)
        self._queue.outcomes.on_answer = self._on_answer

    def reset(self) -> None:
        """Close the breaker and forget every failure: a restart was requested."""
        self.circuit = Circuit()
        self._stop_probing()

    def _stop_probing(self) -> None:
        self._queue.outcomes.on_answer = None
        self._queue.set_concurrency(None)

    def reject_calls(self) -> None:
        """Fail every call, until the breaker's time is over."""
        self._queue.close(self.open_error)  # first: no call that waits is let through
        self._stop_probing()

    def open_error(self, method: str) -> BreakerOpen:
        """Return the error for a call that is not sent now."""
        cause = self.last_error
        seconds_left = self.circuit.seconds_until_probe(self._queue.now())
        last = f"; the last of them: {cause.message}" if cause is not None else ""
        error = BreakerOpen(
            "X1170",
            f"{method} was not sent: {self.name} is open, after too many failures in a row{last}",
            extension=self._queue.extension,
            help=f"a fresh process is tried by the first call after {seconds_left:.1f} s; "
            "restart() tries at once",
            evidence=cause.evidence if cause is not None else NO_EVIDENCE,
        )
        error.seconds_left = seconds_left
        return error
