"""Samples the state of all extensions, and sends the rows that changed to every open page.

A row describes one extension in the table of the web page: its state, its rate of calls, its
memory. All pages share one sampler, which runs only while a page is open. A page gets the rows that
changed since its last update, however long it took to read that update. So nothing is queued for a
slow page; it gets fewer updates.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from exthost.events import StateChanged
from exthost.extension.extension import Extension
from exthost.faces.web.history import POINT_SECONDS, History, point_number
from exthost.faces.web.resource_usage import ResourceUsage
from exthost.host.control.status_report import StatusReport, local_pids
from exthost.host.host import Host

# The time between samples, which is longer if there are more than MANY_EXTENSIONS.
TICK_SECONDS = 0.4
MANY_EXTENSIONS = 200
MANY_TICK_SECONDS = 1.0

# The maximum number of removed extensions that are remembered, so that pages delete their rows.
MAX_REMOVED = 200

# After a change of state a sample is taken this much later, to include other changes.
MOVE_SECONDS = 0.05

# The rate of calls is computed from this many points of the history.
_RATE_POINTS = 5


class RowSampler:
    """The rows by extension, each with the number of the sample in which it changed last."""

    def __init__(
        self,
        host: Host,
        report: StatusReport,
        history: History,
        list_clients: Callable[[], list[dict[str, Any]]] = list,
    ) -> None:
        self._host = host
        self._list_clients = list_clients
        self._report = report
        self._history = history
        self._usage = ResourceUsage()
        self._rows: dict[str, tuple[int, dict[str, Any]]] = {}
        # Removed extensions, each with the number of the sample in which it was missing first.
        self._removed: dict[str, int] = {}
        self._sample = 0  # the number of the last sample
        self._watchers = 0  # how many pages are open
        self._next_sample = asyncio.Event()
        self._state_change = asyncio.Event()
        self._unsubscribe = host.events.subscribe(StateChanged, lambda _: self._state_change.set())
        self._task: asyncio.Task[None] | None = None

    async def follow(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield updates for one page: first all rows, then the changed rows. Runs until it is
        closed."""
        self._watchers += 1
        try:
            if self._task is None:
                self._take_sample()
                self._task = asyncio.get_running_loop().create_task(self._run())
            last_seen, clients = -1, self._list_clients()
            while True:
                if last_seen < self._sample:
                    changes = self._changes(last_seen)
                    is_first, last_seen = last_seen < 0, self._sample
                    has_other_clients = clients != changes["clients"]
                    clients = changes["clients"]
                    if is_first or changes["rows"] or changes["removed"] or has_other_clients:
                        yield changes
                await self._next_sample.wait()
        finally:
            self._watchers -= 1
            if self._watchers == 0:
                await self._stop()

    async def close(self) -> None:
        """Stop sampling, and end the subscription."""
        self._unsubscribe()
        await self._stop()

    async def _stop(self) -> None:
        task, self._task = self._task, None
        self._usage.clear()
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _changes(self, last_seen: int) -> dict[str, Any]:
        """Return an update for a page whose last update was of the sample `last_seen` (-1: none).
        The first update has the order of all rows."""
        return {
            "rows": [row for number, row in self._rows.values() if number > last_seen],
            "removed": [name for name, number in self._removed.items() if number > last_seen],
            "order": list(self._rows) if last_seen < 0 else None,
            "clients": self._list_clients(),
            "time": round(time.time(), 3),
        }

    async def _run(self) -> None:
        """Take a sample again and again, sooner after a change of state."""
        while True:
            has_many = len(self._host) > MANY_EXTENSIONS
            try:
                async with asyncio.timeout(MANY_TICK_SECONDS if has_many else TICK_SECONDS):
                    await self._state_change.wait()
                await asyncio.sleep(TICK_SECONDS if has_many else MOVE_SECONDS)
            except TimeoutError:
                pass
            self._state_change.clear()
            self._take_sample()
            # Wake the pages that wait now. Those that wait later wait for the next event.
            event, self._next_sample = self._next_sample, asyncio.Event()
            event.set()

    def _take_sample(self) -> None:
        """Compute all rows, and note which of them have changed since the last sample."""
        number, rows = self._sample + 1, {}
        point = point_number(time.time())
        for extension in self._host.extensions:
            row = self._row(extension, point)
            previous = self._rows.get(extension.id)
            # An unchanged row keeps the number of the sample in which it changed last.
            changed_in = number if previous is None or previous[1] != row else previous[0]
            rows[extension.id] = (changed_in, row)
        for name in self._rows.keys() - rows.keys():
            self._removed[name] = number
        for name in self._removed.keys() & rows.keys():
            del self._removed[name]
        while len(self._removed) > MAX_REMOVED:  # forget the oldest
            del self._removed[next(iter(self._removed))]
        self._rows, self._sample = rows, number

    def _row(self, extension: Extension, point: int) -> dict[str, Any]:
        row = self._report.row(extension)
        del row["uptime"]  # it would make every row differ in every sample
        history = self._history.find(extension.id)
        points = history.points(point)
        recent = points[-_RATE_POINTS - 1 : -1]  # without the newest, whose interval is not over
        row["points"] = points
        row["rate"] = round(sum(calls for calls, _ in recent) / _RATE_POINTS / POINT_SECONDS, 1)
        row["since"] = history.moves[-1].time if history.moves else None
        node_usage = extension.internals.node_usage
        row |= self._usage.measure(extension.id, local_pids(row), node_usage, time.monotonic())
        return row
