"""Applies the circuit breaker of one extension to its call queue. A breaker refuses calls for a
while after too many failures in a row, and then lets single calls through as probes.

Keeps the state machine (`breaker.Circuit`) and reports failures to it. When the breaker opens,
`reject_calls` closes the extension's call queue. When the open time is over, the supervisor reopens
the queue, and starts a process for the next call, which is the probe: its outcome decides whether
the breaker closes or opens again.

The call queue reports only failures here. Whether calls succeeded since the last failure is read
from the queue's counts of outcomes, so a call that succeeds costs nothing. Only while the breaker
is half-open is every result reported.
"""

from collections.abc import Callable

from exthost.errors import NO_EVIDENCE, BreakerOpen, CallFailed, ExthostError
from exthost.extension.breaker import BreakerPhase, Circuit, is_breaker_failure
from exthost.extension.call_queue import CallQueue
from exthost.model.spec import Breaker


class QueueBreaker:
    """The breaker of one extension. Without settings no failure is counted, and the breaker stays
    closed.

    circuit     the present state of the breaker
    last_error  the failure that was counted last; None if no failure was counted
    name        the breaker's name in errors
    """

    __slots__ = (
        "_on_open",
        "_queue",
        "_replies_at_last_failure",
        "_settings",
        "circuit",
        "last_error",
        "name",
    )

    def __init__(
        self,
        settings: Breaker | None,
        queue: CallQueue,
        on_open: Callable[[], None],
        name: str = "the breaker",
    ) -> None:
        """`on_open` is called synchronously when a failing call opens the breaker, before the
        caller gets the error."""
        self.name = name
        self._settings = settings
        self._queue = queue
        self._on_open = on_open
        self._replies_at_last_failure = 0
        self.circuit = Circuit()
        self.last_error: ExthostError | None = None
        if settings is not None:
            queue.on_failure = self._on_failure
            if settings.count_error_replies:
                queue.outcomes.on_error_result = self._on_failure

    @property
    def phase(self) -> BreakerPhase:
        return self.circuit.phase

    @property
    def is_open(self) -> bool:
        return self.circuit.phase is BreakerPhase.OPEN

    @property
    def is_half_open(self) -> bool:
        return self.circuit.phase is BreakerPhase.HALF_OPEN

    def may_probe(self) -> bool:
        """Return whether the breaker is open and its time is over, so that a probe may be sent."""
        return self.is_open and self.circuit.seconds_until_probe(self._queue.now()) == 0

    def count_crash(self, error: ExthostError) -> bool:
        """Count the end of a process with calls in flight as one failure, however many calls it
        had. Return whether this opened the breaker; the caller then changes the extension's
        state."""
        self._reset_after_replies()
        return self._count_failure(error)

    def _on_failure(self, error: ExthostError) -> None:
        """Handle a call that failed while its process lives."""
        settings = self._settings
        assert settings is not None
        if is_breaker_failure(settings, error):
            self._reset_after_replies()
            if self._count_failure(error):
                self._on_open()
        elif isinstance(error, CallFailed) and self.is_half_open:
            # The process is able to reply, even if with an error, so the probe has succeeded.
            self._on_probe_reply()

    def _count_failure(self, error: ExthostError) -> bool:
        """Count a failure. Return whether it opened the breaker."""
        if self._settings is None:
            return False
        was_open = self.is_open
        self.last_error = error
        self.circuit = self.circuit.after_failure(self._settings, self._queue.now())
        return self.is_open and not was_open

    def _reset_after_replies(self) -> None:
        """Reset the count of failures in a row if a call succeeded since the last failure. While
        the breaker is half-open, `_on_probe_reply` counts each result at once."""
        queue, settings = self._queue, self._settings
        if settings is not None and not self.is_half_open:
            replies = queue.outcomes.results + (
                0 if settings.count_error_replies else queue.outcomes.error_replies
            )
            if replies > self._replies_at_last_failure:
                self.circuit = self.circuit.after_success(settings)
            self._replies_at_last_failure = replies

    def _on_probe_reply(self) -> None:
        """Count the reply to a probe as a success."""
        assert self._settings is not None
        self.circuit = self.circuit.after_success(self._settings)
        if self.circuit.phase is BreakerPhase.CLOSED:
            self._stop_probing()

    def probe(self) -> None:
        """Become half-open: one call at a time is sent, to a process that the supervisor starts
        now."""
        self.circuit = self.circuit.after_open_time()
        self._queue.set_concurrency(1)
        self._queue.outcomes.on_result = self._on_probe_reply

    def reset(self) -> None:
        """Close the breaker and forget every failure: a restart was requested."""
        self.circuit = Circuit()
        self._stop_probing()

    def _stop_probing(self) -> None:
        self._queue.outcomes.on_result = None
        self._queue.set_concurrency(None)  # as many calls at a time as configured

    def reject_calls(self) -> None:
        """Fail every waiting and every new call, until the supervisor reopens the queue."""
        # The queue is closed first, because `_stop_probing` sends waiting calls if it is open.
        self._queue.close(self.open_error)
        self._stop_probing()

    def open_error(self, method: str) -> BreakerOpen:
        """Return the error for a call that is not sent because the breaker is open."""
        cause = self.last_error
        seconds_left = self.circuit.seconds_until_probe(self._queue.now())
        last_failure = f"; the last of them: {cause.message}" if cause is not None else ""
        error = BreakerOpen(
            "X1170",
            f"{method} was not sent: {self.name} is open, after too many failures in a row"
            f"{last_failure}",
            extension=self._queue.extension,
            help=f"a new process is tried by the first call after {seconds_left:.1f} s; "
            "restart() tries at once",
            evidence=cause.evidence if cause is not None else NO_EVIDENCE,
        )
        error.seconds_left = seconds_left
        return error
