"""What the keys of `run`'s table do: restart, stop, the log, the messages, select and filter."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exthost.cli.table_selection import TableSelection
from exthost.cli.traffic_lines import traffic_line
from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.host.host import Host
from exthost.trace.record import TraceRecord

__all__ = ["KEYS", "LiveControls"]

KEYS = "↑↓ select · r restart · s stop · l log · t traffic · / filter · Ctrl-C end"

# Lines of a log that `l` shows.
LOG_LINES = 20

ReadLog = Callable[[str, int], list[str]]
"""Returns the last lines of an extension's log."""


class LiveControls:
    """The keys of one table. `tell` shows a line above it, `redraw` draws it again soon."""

    def __init__(
        self,
        host: Host,
        read_log: ReadLog,
        tell: Callable[[str], None],
        redraw: Callable[[], None],
    ) -> None:
        self._host = host
        self._read_log = read_log
        self._tell = tell
        self._redraw = redraw
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop_traffic: Callable[[], None] | None = None
        self._traced = ""
        self.rows: Sequence[Mapping[str, Any]] = ()
        self.selection = TableSelection()
        self.note = ""

    def close(self) -> None:
        """Show no more messages, and stop waiting for requests in progress."""
        self._end_traffic()
        for task in self._tasks:
            task.cancel()

    def press(self, key: str) -> None:
        """Do what a key means."""
        selected = self.selection.id
        if self.selection.handle(key, self.rows):
            self.note = ""
        elif key in ("r", "s", "l") and selected in self._host:
            work = {"r": self._restart, "s": self._stop, "l": self._show_log}[key]
            task = asyncio.get_running_loop().create_task(work(self._host[selected]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif key == "t" and (selected in self._host or self._traced):
            self._switch_traffic(selected)
        self._redraw()

    def footer(self) -> str:
        """Return the line below the table."""
        if self.selection.is_typing or self.selection.pattern:
            return f"/{self.selection.pattern}"
        return self.note or KEYS

    async def _restart(self, extension: Extension) -> None:
        await self._run_and_note(extension, "restart", extension.restart)

    async def _stop(self, extension: Extension) -> None:
        await self._run_and_note(extension, "stop", extension.drain)

    async def _run_and_note(self, extension: Extension, verb: str, work: Callable[[], Any]) -> None:
        self.note = f"{extension.id}: {verb} …"
        try:
            await work()
            self.note = f"{extension.id}: {verb}: {extension.state}"
        except ExthostError as error:
            self.note = f"{extension.id}: {verb}: {error.message} [{error.code}]"
        self._redraw()

    async def _show_log(self, extension: Extension) -> None:
        lines = await asyncio.to_thread(self._read_log, extension.id, LOG_LINES)
        self._tell(f"── the log of {extension.id}, the last {len(lines)} lines")
        for line in lines:
            self._tell(line)

    def _switch_traffic(self, selected: str) -> None:
        before = self._traced
        self._end_traffic()
        if before:
            self._tell(f"── the messages of {before} are no longer shown")
        if selected != before and selected in self._host:
            self._traced = selected
            self._tell(f"── the messages of {selected}, until t is pressed again")
            self._stop_traffic = self._host.traffic.subscribe(self._show_record, selected)

    def _show_record(self, record: TraceRecord) -> None:
        self._tell(traffic_line(record))

    def _end_traffic(self) -> None:
        stop, self._stop_traffic, self._traced = self._stop_traffic, None, ""
        if stop is not None:
            stop()
