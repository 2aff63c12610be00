"""Handles the keys of the live table of `exthost run`: restart, stop, log, messages, selection,
filter."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.faces.cli.common import plural
from exthost.faces.cli.table_selection import TableSelection
from exthost.faces.cli.traffic_lines import traffic_line
from exthost.host.host import Host
from exthost.session.trace.record import TraceRecord

KEYS = "↑↓ select · r restart · s stop · l log · t traffic · / filter · Ctrl-C end"

# The number of log lines that the key `l` shows.
LOG_LINES = 20

ReadLog = Callable[[str, int], list[str]]
"""Called with the id of an extension and a number of lines. Returns the last lines of its log."""


class LiveControls:
    """Handles the keys of one live table.

    `read_log` returns the last lines of an extension's log. `show_line` shows a line above the
    table, and `redraw` schedules drawing the table again. `rows` are the rows of the table, which
    sets them each time it is drawn. `selection` is the selected row and the filter. `note` is the
    outcome of the last key, shown below the table.
    """

    def __init__(
        self,
        host: Host,
        read_log: ReadLog,
        show_line: Callable[[str], None],
        redraw: Callable[[], None],
    ) -> None:
        self._host = host
        self._read_log = read_log
        self._show_line = show_line
        self._redraw = redraw
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsubscribe_traffic: Callable[[], None] | None = None
        self._traffic_extension = ""  # whose messages are shown; "" for none
        self.rows: Sequence[Mapping[str, Any]] = ()
        self.selection = TableSelection()
        self.note = ""

    def close(self) -> None:
        """Show no more messages, and cancel the actions in progress."""
        self._end_traffic()
        for task in self._tasks:
            task.cancel()

    def handle_key(self, key: str) -> None:
        """Handle a key. A key without a meaning is ignored."""
        selected = self.selection.id
        if self.selection.handle_key(key, self.rows):
            self.note = ""
        elif key in ("r", "s", "l") and selected in self._host:
            action = {"r": self._restart, "s": self._stop, "l": self._show_log}[key]
            task = asyncio.get_running_loop().create_task(action(self._host[selected]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif key == "t" and (selected in self._host or self._traffic_extension):
            self._toggle_traffic(selected)
        self._redraw()

    def footer(self) -> str:
        """Return the line below the table: the filter, the last note, or the list of keys."""
        if self.selection.is_typing or self.selection.pattern:
            return f"/{self.selection.pattern}"
        return self.note or KEYS

    async def _restart(self, extension: Extension) -> None:
        await self._run_action(extension, "restart", extension.restart)

    async def _stop(self, extension: Extension) -> None:
        await self._run_action(extension, "stop", extension.drain)

    async def _run_action(self, extension: Extension, verb: str, action: Callable[[], Any]) -> None:
        """Run an action, and show its outcome below the table."""
        self.note = f"{extension.id}: {verb} …"
        try:
            await action()
            self.note = f"{extension.id}: {verb}: {extension.state}"
        except ExthostError as error:
            self.note = f"{extension.id}: {verb}: {error.message} [{error.code}]"
        self._redraw()

    async def _show_log(self, extension: Extension) -> None:
        try:
            lines = await asyncio.to_thread(self._read_log, extension.id, LOG_LINES)
        except OSError as error:
            self._show_line(f"the log of {extension.id} cannot be read: {error.strerror}")
            return
        self._show_line(f"── the log of {extension.id}, the last {plural(len(lines), 'line')}")
        for line in lines:
            self._show_line(line)

    def _toggle_traffic(self, selected: str) -> None:
        """Show the messages of the selected extension. If they are shown already, stop that."""
        previous = self._traffic_extension
        self._end_traffic()
        if previous:
            self._show_line(f"── the messages of {previous} are no longer shown")
        if selected != previous and selected in self._host:
            self._traffic_extension = selected
            self._show_line(f"── the messages of {selected}, until t is pressed again")
            self._unsubscribe_traffic = self._host.traffic.subscribe(self._show_record, selected)

    def _show_record(self, record: TraceRecord) -> None:
        self._show_line(traffic_line(record))

    def _end_traffic(self) -> None:
        unsubscribe, self._unsubscribe_traffic = self._unsubscribe_traffic, None
        self._traffic_extension = ""
        if unsubscribe is not None:
            unsubscribe()
