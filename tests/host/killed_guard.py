"""A guard that is killed again and again while calls are made, for tests: no call may pass it."""

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.extensions.synaps_tree import plugin

TOOL = "ext_tools_echo"

# One caller begins this many calls a second, and there are this many callers.
CALLS_A_SECOND = 5
CALLERS = 10

# The limit of every wait.
SECONDS = 150


class Pace:
    """When one caller is to begin its next call. Time that a call took is not waited for again; a
    caller that is late begins at once, and does not make up for what it missed."""

    def __init__(self) -> None:
        self._next = time.monotonic()

    def pause(self) -> float:
        """Return how many seconds remain until the next call."""
        now = time.monotonic()
        self._next = max(self._next + 1 / CALLS_A_SECOND, now)
        return self._next - now


class Killed:
    """A folder with tools, and with a guard that blocks all of them; and how the calls ended.

    Calls are counted by the code of their error, or as "passed".
    """

    def __init__(self, folder: Path) -> None:
        self._heard = folder / "heard"
        self._pids = folder / "pids"
        self.folder = folder / "plugins"
        self.ends: Counter[str] = Counter()
        self.is_over = threading.Event()
        plugin(self.folder / "tools", {"heard": str(self._heard)})
        block = {"action": "block", "reason": "never"}
        plugin(
            self.folder / "guard",
            {"hooks": {"before_tool_call": block}, "pids": str(self._pids)},
            hooks=[{"hook": "before_tool_call"}],
        )

    def document(self, **guard: Any) -> dict[str, Any]:
        """The config. The guard runs without a namespace, so that the pids it tells are ours."""
        restart = {"strategy": "immediate", "max_retries": "unlimited"}
        guard = {"lifetime": "plain", "restart": restart, "limits": {"call": "20s"}, **guard}
        return {
            "discovery": {"search_paths": [str(self.folder)]},
            "overrides": {"guard": guard},
        }

    def kill(self, times: int) -> None:
        """Kill the guard this many times: mostly after it has judged a call, and sometimes as soon
        as it is there. Then wait until it has judged one more.

        The first time it has judged: a first start that fails is not repeated."""
        try:
            for kill in range(times):
                if kill % 3 != 2:
                    self._wait_until_it_judges()
                pid = self._next_pid(kill)
                os.kill(pid, signal.SIGKILL)
            self._next_pid(times)
            self._wait_until_it_judges()
        finally:
            self.is_over.set()

    def _next_pid(self, lives: int) -> int:
        """Return the pid of the process that came after so many others."""
        wait_until(lambda: len(self._all_pids()) > lives)
        return self._all_pids()[lives]

    def _all_pids(self) -> list[int]:
        text = self._pids.read_text() if self._pids.exists() else ""
        return [int(line) for line in text.split("\n")[:-1]]

    def _wait_until_it_judges(self) -> None:
        before = self.ends["X0332"]
        wait_until(lambda: self.ends["X0332"] > before)

    def settle(self, times: int) -> None:
        """Check that no call passed, that each was judged or refused, and that no tool got one."""
        assert set(self.ends) <= {"X0332", "X0333"}, self.ends
        assert self.ends["X0332"] > times / 2
        assert len(self._all_pids()) > times
        received = self._heard.read_text()
        assert '"initialize"' in received and "tool.call" not in received


def wait_until(happened: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)
