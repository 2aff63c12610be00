"""Helpers for tests: a guard that is killed again and again while calls are made.

A guard is an extension whose hook decides about tool calls. This one blocks every call, and no call
may reach the tool while its process is dead either.

The test starts CALLERS callers, which call TOOL and count the outcomes in `killed.outcomes` until
`killed.is_over` is set. Meanwhile `killed.kill(times)` kills the guard. At the end,
`killed.check_outcomes(times)` checks that no call reached the tool.
"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.extensions.synaps_tree import write_plugin

TOOL = "ext_tools_echo"

# The error codes of a call that the guard blocked, and of a call that was refused because the guard
# did not answer.
BLOCKED, NOT_ANSWERED = "X0332", "X0333"

# Each caller begins this many calls per second, and there are CALLERS of them.
CALLS_PER_SECOND = 5
CALLERS = 10

# The limit of each wait, generous for a busy machine.
MAX_SECONDS = 150


class CallSchedule:
    """The times at which one caller begins its calls: a fixed number per second, however long the
    calls take. A caller that is late begins the next call at once, and does not make up for missed
    calls."""

    def __init__(self) -> None:
        self._next = time.monotonic()

    def seconds_until_next(self) -> float:
        """Plan the next call, and return the seconds until then."""
        now = time.monotonic()
        self._next = max(self._next + 1 / CALLS_PER_SECOND, now)
        return self._next - now


class KilledGuard:
    """A folder with tools and a guard that blocks all of them, and the outcomes of the calls.

    Calls are counted by the code of their error, or as "passed".
    """

    def __init__(self, folder: Path) -> None:
        self._received = folder / "heard"  # the tools write the messages to it
        self._pids = folder / "pids"  # the guard adds its pid to it when it starts
        self.folder = folder / "plugins"
        self.outcomes: Counter[str] = Counter()
        self.is_over = threading.Event()
        write_plugin(self.folder / "tools", {"heard": str(self._received)})
        block = {"action": "block", "reason": "never"}
        write_plugin(
            self.folder / "guard",
            {"hooks": {"before_tool_call": block}, "pids": str(self._pids)},
            hooks=[{"hook": "before_tool_call"}],
        )

    def document(self, **guard: Any) -> dict[str, Any]:
        """Return the config. The guard has no PID namespace, so this process knows its pids."""
        restart = {"strategy": "immediate", "max_retries": "unlimited"}
        guard = {"lifetime": "plain", "restart": restart, "limits": {"call": "20s"}, **guard}
        return {
            "discovery": {"search_paths": [str(self.folder)]},
            "overrides": {"guard": guard},
        }

    def kill(self, times: int) -> None:
        """Kill the guard this many times: two of three times after it has blocked a call, otherwise
        as soon as its process exists. Then wait until it has blocked another call.

        It has blocked a call before the first kill, because a failed first start is not repeated.
        """
        try:
            for kill in range(times):
                if kill % 3 != 2:
                    self._wait_until_it_blocks()
                pid = self._next_pid(kill)
                os.kill(pid, signal.SIGKILL)
            self._next_pid(times)
            self._wait_until_it_blocks()
        finally:
            self.is_over.set()

    def _next_pid(self, earlier: int) -> int:
        """Wait for the next process, and return its pid. `earlier` processes were before it."""
        wait_until(lambda: len(self._all_pids()) > earlier)
        return self._all_pids()[earlier]

    def _all_pids(self) -> list[int]:
        text = self._pids.read_text() if self._pids.exists() else ""
        return [int(line) for line in text.split("\n")[:-1]]

    def _wait_until_it_blocks(self) -> None:
        before = self.outcomes[BLOCKED]
        wait_until(lambda: self.outcomes[BLOCKED] > before)

    def check_outcomes(self, times: int) -> None:
        """Check that each call was blocked or refused, and that no tool received a call."""
        assert set(self.outcomes) <= {BLOCKED, NOT_ANSWERED}, self.outcomes
        assert self.outcomes[BLOCKED] > times / 2  # it blocked a call before two of three kills
        assert len(self._all_pids()) > times
        messages = self._received.read_text()
        assert '"initialize"' in messages and "tool.call" not in messages


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + MAX_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.002)
