"""Counts and publishes how the calls of an extension ended, and delivers results to callers.

Each accepted call ends in exactly one outcome: result, error, timeout, cancelled or gone (its
process ended). A result that its dialect marks as an error counts as an error, like an error reply.
Calls that the host makes for itself (`internal`) are neither counted nor published.

Every reply passes through `CallOutcomes.complete`, so it avoids objects and function calls, and
does nothing for subscribers that do not exist.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from exthost.errors import CallFailed, ExthostError
from exthost.events import Bus, CallEnded, CallStarted
from exthost.session.awaitable_call import AwaitableCall, WakeBatch
from exthost.session.call import Call
from exthost.session.effects import Completions
from exthost.tool_result import ResultReader, ToolResult, tool_error

_log = logging.getLogger("exthost.events")

# Every outcome of a call except a result.
UNSUCCESSFUL_OUTCOMES = ("error", "timeout", "cancelled", "gone")
# Shared by all extensions whose calls all had results, to save memory. It stays empty.
_NONE_UNSUCCESSFUL: Counter[str] = Counter()

# For counting on threads other than the loop's: callers of the blocking API read replies on their
# own threads (`session/blocking_reader.py`).
_THREAD_LOCK = threading.Lock()

# Makes an event from a tuple of its fields. Events are named tuples, and this takes half the time
# that calling the class of the event takes.
_new_event: Callable[..., Any] = tuple.__new__

# The outcomes of errors, by the name of the class; every other class is an "error".
_OUTCOMES = {
    "CallTimeout": "timeout",
    "ExtensionGone": "gone",
    "BreakerOpen": "gone",  # the call waited for a process, and none became ready
}


class CallOutcomes:
    """The counts of one extension.

    unsuccessful     the numbers of calls that ended without a result, by outcome
    error_replies    the number of calls whose reply was an error, or a result that is marked as an
                     error; `unsuccessful["error"]` includes them
    on_result        called for each result; not None only while the circuit breaker is half-open,
                     that is while it lets single calls through to find out if they succeed
    on_error_result  called for each result that is marked as an error; not None only if the breaker
                     counts error replies as failures
    """

    __slots__ = (
        "_bus",
        "_extension",
        "_is_error",
        "_listeners",
        "_now",
        "_reader",
        "_results",
        "_thread_results",
        "_wakes",
        "error_replies",
        "on_error_result",
        "on_result",
        "unsuccessful",
    )

    def __init__(
        self, extension: str, bus: Bus, now: Callable[[], float], wakes: WakeBatch
    ) -> None:
        """`now` is the loop's clock. `wakes` wakes the tasks that await calls, all that ended in
        one iteration of the loop together."""
        self._extension = extension
        self._bus = bus
        self._listeners = bus.listeners  # empty most of the time, so this is the cheapest test
        self._now = now
        self._wakes = wakes
        self._results = 0  # counted on the loop's thread
        self._thread_results = 0  # counted on other threads
        self.unsuccessful = _NONE_UNSUCCESSFUL
        self.error_replies = 0
        self._reader: ResultReader | None = None
        self._is_error: Callable[[Any], bool] | None = None  # None: no result is an error
        self.on_result: Callable[[], None] | None = None
        # If this is set, `on_result` is not called for a result that is marked as an error.
        self.on_error_result: Callable[[ExthostError], None] | None = None

    @property
    def results(self) -> int:
        """The number of calls that ended with a result."""
        return self._results + self._thread_results

    def read_results_with(self, reader: ResultReader) -> None:
        """Use the dialect's reader to recognise the results that are marked as errors."""
        self._reader = reader
        self._is_error = reader.is_error

    def publish_started(self, call: Call) -> None:
        """Publish that a call was accepted, if that was not done before: a call may end while it is
        submitted."""
        if not call.is_start_unpublished or (type(call) is not AwaitableCall and call.internal):
            return
        call.is_start_unpublished = False
        event = _new_event(
            CallStarted, (self._extension, call.method, call.context, id(call), call.tool)
        )
        for listener in self._listeners.get(CallStarted, ()):
            try:
                listener(event)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # a subscriber must not harm the call
                _log.exception("a listener for CallStarted failed")

    def complete(self, completions: Completions, *, is_replaced: bool = False) -> None:
        """Count and deliver results. `is_replaced`: their process was replaced by another, so the
        breaker ignores them."""
        # The two lists are made only if they are needed, which is rare.
        ended_before: list[Call] | tuple[()] = ()
        results = 0
        is_error = self._is_error
        error_results: Completions | tuple[()] = ()
        wakes = self._wakes
        is_first = not wakes.ended  # `wake` is scheduled once, for the first call of a batch
        for call, value in completions:
            if call.ended:
                # A stream whose consumer left or fell behind: its end was published then.
                ended_before = [*ended_before, call]
                continue
            call.ended = True
            if is_error is not None and is_error(value):
                call.has_error_result = True  # first: another thread may read it after `deliver`
            if type(call) is AwaitableCall:  # inlined `deliver`: nearly every call has this type
                call.value = value
                wakes.ended.append(call)
                results += 1
            else:
                call.deliver(value)
                if call.internal:
                    continue
                results += 1
            if call.has_error_result:
                error_results = [*error_results, (call, value)]
        if is_first and wakes.ended and not wakes.is_held:
            wakes.schedule()
        self._results += results
        if error_results:
            results -= self._count_failed(error_results, is_replaced=is_replaced)
        if self._listeners and CallEnded in self._listeners:
            if ended_before:
                completions = [pair for pair in completions if pair[0] not in ended_before]
            self._publish_results(completions)
        if self.on_result is not None and not is_replaced:
            # Results only: if the breaker counts error replies, `on_error_result` got the others.
            for _ in range(results):
                # The callback sets `on_result` to None when it closes the breaker.
                if self.on_result is not None:
                    self.on_result()

    def may_complete_on_thread(self, value: Any) -> bool:
        """Return whether a call that ends with this value can be completed on the thread of its
        caller: the result is not marked as an error, nothing subscribes to `CallEnded`, and the
        breaker is not half-open. Anything else is work for the loop's thread."""
        if CallEnded in self._listeners or self.on_result is not None:
            return False
        return self._is_error is None or not self._is_error(value)

    def complete_on_thread(self, call: Call) -> None:
        """Count the result of a call on the thread of its caller, which has the result already."""
        with _THREAD_LOCK:
            # Both happen, or neither: Python runs signal handlers, which may raise
            # KeyboardInterrupt, between function calls, and neither line calls a function.
            self._thread_results += 1
            call.ended = True

    def _count_failed(self, error_results: Completions, *, is_replaced: bool) -> int:
        """Move results that are marked as errors from the results to the errors. Return how many of
        them the breaker counts as failures."""
        self._results -= len(error_results)
        self.error_replies += len(error_results)
        self._add_unsuccessful("error", len(error_results))
        if self.on_error_result is None or is_replaced:
            return 0
        for call, value in error_results:
            self.on_error_result(self._tool_error(call, value))
        return len(error_results)

    def _tool_error(self, call: Call, value: Any) -> ExthostError:
        assert self._reader is not None
        error: ExthostError
        try:
            error = tool_error(
                ToolResult(value, self._reader), call.method, extension=self._extension
            )
        except ExthostError as problem:  # the text of the result cannot be read
            error = problem
        if call.session is not None:
            call.session.diagnostics.hide_in_error(error)
        return error

    def _publish_results(self, completions: Completions) -> None:
        """Publish an event for each call that has ended with a result."""
        now = self._now()
        listeners = self._listeners.get(CallEnded, ())
        extension = self._extension
        for call, _ in completions:
            if type(call) is AwaitableCall or not call.internal:
                if call.is_start_unpublished:
                    self.publish_started(call)
                event = _new_event(
                    CallEnded,
                    (
                        extension,
                        call.method,
                        "error" if call.has_error_result else "result",
                        now - call.started_at,
                        call.context,
                        id(call),
                        call.trace_number,
                        call.tool,
                    ),
                )
                for listener in listeners:
                    try:
                        listener(event)
                    except (KeyboardInterrupt, SystemExit):
                        raise
                    except BaseException:  # a subscriber must not harm the call
                        _log.exception("a listener for CallEnded failed")

    def reject(self, call: Call, error: ExthostError) -> None:
        """End a call with an error: deliver it to the caller, count and publish it."""
        if isinstance(error, CallFailed) and not call.internal:
            self.error_replies += 1
        call.reject(error)
        self.record_unsuccessful(call, _OUTCOMES.get(type(error).__name__, "error"))

    def record_unsuccessful(self, call: Call, outcome: str) -> None:
        """Count and publish a call that ended without a result."""
        if call.internal:
            return
        self._add_unsuccessful(outcome, 1)
        if CallEnded in self._listeners:
            if call.is_start_unpublished:
                self.publish_started(call)
            seconds = self._now() - call.started_at
            self._bus.publish(
                CallEnded(
                    self._extension,
                    call.method,
                    outcome,
                    seconds,
                    call.context,
                    id(call),
                    call.trace_number,
                    call.tool,
                )
            )

    def _add_unsuccessful(self, outcome: str, count: int) -> None:
        if self.unsuccessful is _NONE_UNSUCCESSFUL:
            self.unsuccessful = Counter()
        self.unsuccessful[outcome] += count
