"""Remembers the last states and calls of each extension, for the web page of a host.

`History` subscribes to the event bus. For each extension it keeps the last changes of state, the
last calls, and the number of calls in each of the last intervals (`points` of a sparkline). Failed
calls have a separate list, so that successful calls do not displace them. All lists are
bounded, and extensions that were removed from the host are forgotten.
"""

import time
from collections import deque
from typing import Any, NamedTuple

from exthost.events import CallEnded, StateChanged
from exthost.host.host import Host

# The number of points of a sparkline, and the length of the interval of each point.
POINT_COUNT = 60
POINT_SECONDS = 2.0

# How many changes of state, and how many calls, are kept for each extension.
MAX_MOVES = 40
MAX_CALLS = 30

# The reason of a change of state is cut, because it may be a long text of the extension.
REASON_CHARACTERS = 300


class EndedCall(NamedTuple):
    """A call that ended. `number` counts the calls of all extensions, `method` is the method that
    was called, and `outcome` is the outcome, such as "result" or "timeout". `seconds` is how long
    the call took, and `ended` is when it ended, in seconds since 1970."""

    number: int
    method: str
    outcome: str
    seconds: float
    ended: float


class StateChange(NamedTuple):
    """A change of an extension's state. `time` is in seconds since 1970, `state` is the new state,
    and `reason` is the reason of the change, "" if there is none."""

    time: float
    state: str
    reason: str


class ExtensionHistory:
    """The last states and calls of one extension. `moves` are the changes of state, `calls` are the
    calls that ended, and `failed` are the calls that failed."""

    __slots__ = ("_counts", "_point", "calls", "failed", "moves")

    def __init__(self) -> None:
        self.moves: deque[StateChange] = deque(maxlen=MAX_MOVES)
        self.calls: deque[EndedCall] = deque(maxlen=MAX_CALLS)
        self.failed: deque[EndedCall] = deque(maxlen=MAX_CALLS)
        self._point = 0  # the number of the newest point in `_counts`
        self._counts: deque[tuple[int, int]] = deque(maxlen=POINT_COUNT)  # (calls, failures)

    def add(self, call: EndedCall, point: int) -> None:
        """Add a call that ended in the interval of this point."""
        self.calls.append(call)
        is_failed = call.outcome != "result"
        if is_failed:
            self.failed.append(call)
        self._advance(point)
        calls, failures = self._counts[-1]
        self._counts[-1] = calls + 1, failures + is_failed

    def points(self, point: int) -> list[tuple[int, int]]:
        """Return the numbers of calls and failures of each point up to `point`, the newest last.
        Return an empty list if there were no calls."""
        if self._counts:
            self._advance(point)
            if not any(calls for calls, _ in self._counts):
                self._counts.clear()
        return list(self._counts)

    def _advance(self, point: int) -> None:
        """Add empty points until `point` is the newest."""
        new_count = POINT_COUNT if not self._counts else min(POINT_COUNT, point - self._point)
        # If the system clock was set back, the number is negative, and nothing is added.
        self._counts.extend([(0, 0)] * new_count)
        self._point = max(point, self._point)


class History:
    """The last states and calls of every extension of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._extensions: dict[str, ExtensionHistory] = {}
        self._number = 0
        self._unsubscribes = (
            host.events.subscribe(StateChanged, self._on_state_changed),
            host.events.subscribe(CallEnded, self._on_call_ended),
        )

    def close(self) -> None:
        """End the subscriptions."""
        for unsubscribe in self._unsubscribes:
            unsubscribe()

    def find(self, extension: str) -> ExtensionHistory:
        """Return the history of an extension, which is empty if nothing has happened."""
        history = self._extensions.get(extension)
        if history is None:
            # Removed extensions are deleted only if they are many, so that not every new extension
            # causes a search for them.
            if len(self._extensions) > 2 * len(self._host) + 16:
                self.forget_removed()
            history = self._extensions[extension] = ExtensionHistory()
        return history

    def forget_removed(self) -> None:
        """Forget the extensions that the host no longer has."""
        for name in [name for name in self._extensions if name not in self._host]:
            del self._extensions[name]

    def _on_state_changed(self, change: StateChanged) -> None:
        reason = change.reason[:REASON_CHARACTERS]
        self.find(change.extension).moves.append(StateChange(time.time(), change.after, reason))

    def _on_call_ended(self, ended: CallEnded) -> None:
        self._number += 1
        now = time.time()
        call = EndedCall(self._number, ended.method, ended.outcome, ended.seconds, now)
        self.find(ended.extension).add(call, point_number(now))


def point_number(now: float) -> int:
    """Return the number of the point for this time, in seconds since 1970."""
    return int(now / POINT_SECONDS)


def as_rows(values: "deque[Any]") -> list[dict[str, Any]]:
    """Return named tuples as data, the newest first."""
    return [value._asdict() for value in reversed(values)]
