"""The live table of `run`, drawn with rich: the state of each extension, and their output above it.

This is the only module that imports rich. The table is drawn a few times a second at most. If there
are more lines than a person can read, some are shown and the others are counted; the log has all.
"""

import asyncio
import time
from collections import deque
from typing import IO, Any, cast

from rich.console import Console
from rich.live import Live
from rich.text import Text

from exthost.cli.common import escape_controls
from exthost.cli.event_lines import event_line
from exthost.cli.live_controls import LiveControls, ReadLog
from exthost.cli.live_keys import LiveKeys
from exthost.cli.nonblocking_writer import STDERR, NonblockingWriter
from exthost.cli.top_layout import arrange
from exthost.cli.top_rates import Rates
from exthost.control.measurements import Measurements
from exthost.control.status_report import StatusReport, local_pids
from exthost.events import Exited, LogLine, ManifestChanged, StateChanged
from exthost.host.host import Host

# The time between two drawings: after an event, and without one.
BUSY_SECONDS = 0.2
IDLE_SECONDS = 1.0

# Lines of extensions in one drawing. rich takes about 0.1 ms for one, and nobody reads faster.
MOST_LINES = 40

_COLOURS = {
    "degraded": "yellow",
    "starting": "yellow",
    "restarting": "yellow",
    "suspended": "red",
    "failed": "red",
    "refused": "red",
}


class LiveTable:
    """The table, for as long as it is not closed. Must be made on the loop."""

    def __init__(
        self, host: Host, report: StatusReport, read_log: ReadLog, *, has_keys: bool = True
    ) -> None:
        self._report = report
        self._measurements = Measurements(host.events)
        self._rates = Rates()
        self._rows: list[dict[str, Any]] = []
        self._measured_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._extension_lines: deque[str] = deque(maxlen=MOST_LINES)
        self._dropped_lines = 0
        self._own_lines: list[str] = []  # of the host: few, and never dropped
        self._drawn_at = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._writer = NonblockingWriter(STDERR)
        self._live = Live(
            console=Console(file=cast(IO[str], self._writer)),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()
        self._controls = LiveControls(host, read_log, self._show_line, self._draw_soon)
        self._keys = LiveKeys(self._controls.press) if has_keys else None
        host.events.subscribe(StateChanged, lambda _: self._draw_soon())
        host.events.subscribe(
            (Exited, ManifestChanged, LogLine), lambda event: self._show_line(event_line(event))
        )
        self._draw()

    def say(self, text: str) -> None:
        self._own_lines.append(escape_controls(text))
        self._draw_soon()

    def _show_line(self, text: str) -> None:
        """Show a line above the table. If there are more than a person can read, only count it."""
        self._dropped_lines += len(self._extension_lines) == MOST_LINES
        self._extension_lines.append(escape_controls(text))
        self._draw_soon()

    def close(self) -> None:
        """Print the remaining lines, and remove the table."""
        if self._keys is not None:
            self._keys.close()
        self._controls.close()
        self._forget_timer()
        self._measurements.close()
        self._say_lines()
        self._live.stop()
        self._writer.close()

    def _draw_soon(self) -> None:
        due = self._drawn_at + BUSY_SECONDS
        if self._timer is None or self._due > due:
            self._draw_at(due)

    def _draw(self) -> None:
        self._drawn_at = self._loop.time()
        self._forget_timer()
        self._say_lines()
        self._live.update(self._table(), refresh=True)
        self._draw_at(self._drawn_at + IDLE_SECONDS)

    def _draw_at(self, due: float) -> None:
        self._forget_timer()
        self._due = due  # uvloop's timers do not always have `when`
        self._timer = self._loop.call_at(due, self._draw)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say_lines(self) -> None:
        lines = [*self._extension_lines, *self._own_lines]
        if self._dropped_lines:
            lines.insert(0, f"… {self._dropped_lines:,} more lines: exthost logs NAME")
        self._extension_lines.clear()
        self._own_lines.clear()
        self._dropped_lines = 0
        if lines:
            # As Text, so that rich does not read the output of a child as markup.
            self._live.console.print(Text("\n".join(lines)))

    def _table(self) -> Text:
        now = time.monotonic()
        if now - self._measured_at >= IDLE_SECONDS or not self._rows:
            self._measured_at = now
            self._measurements.keep_measuring()
            measured = [
                row | self._measurements.measure(row["id"], local_pids(row))
                for row in self._report.rows()
            ]
            self._rows = self._rates.add(measured, now)
        # Measurements are up to a second old; everything else is current.
        known = {row["id"]: row for row in self._rows}
        all_rows = [known.get(row["id"], {}) | row for row in self._report.rows()]
        controls = self._controls
        controls.rows = all_rows
        rows = controls.selection.shown(all_rows)
        selected = controls.selection.index(rows)
        size = self._live.console.size
        has_keys = self._keys is not None and self._keys.are_read
        table = arrange(rows, size.width, max(3, size.height - 2 - has_keys), selected)
        text = Text(table.lines[0], style="bold", no_wrap=True, overflow="crop")
        for index, line in enumerate(table.lines[1:]):
            health = table.rows[index]["health"] if index < len(table.rows) else ""
            style = _COLOURS.get(health, "not bold")
            is_selected = has_keys and index + 1 == table.selected and bool(rows)
            text.append("\n")
            text.append(line, style=f"{style} reverse" if is_selected else style)
        if has_keys:
            footer = escape_controls(" ".join(controls.footer().split()))
            text.append(f"\n{footer[: size.width]}", style="dim")
        return text
