"""The live table of `exthost run`: the state of each extension, with the output of extensions above
it.

This is the only module that imports rich. The table is drawn at most five times a second. If
extensions write more lines than a person can read, only the last lines are shown and the dropped
lines are counted; the log files have every line.
"""

import asyncio
import time
from collections import deque
from typing import IO, Any, cast

from rich.console import Console
from rich.live import Live
from rich.text import Text

from exthost.events import Exited, LogLine, ManifestChanged, ProcessLost, StateChanged
from exthost.faces.cli.common import escape_controls, escape_message
from exthost.faces.cli.event_lines import event_line
from exthost.faces.cli.key_reader import KeyReader
from exthost.faces.cli.live_controls import LiveControls, ReadLog
from exthost.faces.cli.nonblocking_writer import STDERR, NonblockingWriter
from exthost.faces.cli.text_width import truncate
from exthost.faces.cli.top_layout import arrange
from exthost.faces.cli.top_rates import Rates
from exthost.host.control.measurements import Measurements
from exthost.host.control.status_report import StatusReport, local_pids
from exthost.host.host import Host

# The minimum time between two frames, and the time after which a frame is drawn without an event.
BUSY_SECONDS = 0.2
IDLE_SECONDS = 1.0

# The maximum number of lines of extensions in one frame. rich takes about 0.1 ms for each line, and
# no person reads faster.
MAX_LINES = 40

# The colours of rows, by the health of the extension.
_COLOURS = {
    "degraded": "yellow",
    "starting": "yellow",
    "restarting": "yellow",
    "suspended": "red",
    "failed": "red",
    "refused": "red",
}


class LiveTable:
    """The table, shown until it is closed. It must be created on the event loop. With `has_keys` it
    reads keys from stdin. `read_log` returns the log lines that the key `l` shows."""

    def __init__(
        self, host: Host, report: StatusReport, read_log: ReadLog, *, has_keys: bool = True
    ) -> None:
        self._report = report
        self._measurements = Measurements(host.events)
        self._rates = Rates()
        self._rows: list[dict[str, Any]] = []
        self._measure_time = 0.0
        self._loop = asyncio.get_running_loop()
        self._extension_lines: deque[str] = deque(maxlen=MAX_LINES)
        self._dropped_lines = 0
        self._host_lines: list[str] = []  # messages of the host itself: few, and never dropped
        self._last_draw_time = 0.0
        self._next_draw_time = 0.0
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
        self._keys = KeyReader(self._controls.handle_key) if has_keys else None
        host.events.subscribe(StateChanged, lambda _: self._draw_soon())
        host.events.subscribe(
            (Exited, ProcessLost, ManifestChanged, LogLine),
            lambda event: self._show_line(event_line(event)),
        )
        self._draw()

    def say(self, text: str) -> None:
        self._host_lines.append(escape_message(text))
        self._draw_soon()

    def _show_line(self, text: str) -> None:
        """Show a line above the table. If a frame already has MAX_LINES, the oldest line is dropped
        and counted."""
        if len(self._extension_lines) == MAX_LINES:
            self._dropped_lines += 1
        self._extension_lines.append(escape_message(text))  # a full deque drops its first item
        self._draw_soon()

    def close(self) -> None:
        """Print the remaining lines, and remove the table."""
        if self._keys is not None:
            self._keys.close()
        self._controls.close()
        self._cancel_timer()
        self._measurements.close()
        self._print_lines()
        self._live.stop()
        self._writer.close()

    def _draw_soon(self) -> None:
        """Draw the table after an event, unless it is already to be drawn that soon."""
        draw_time = self._last_draw_time + BUSY_SECONDS
        if self._timer is None or self._next_draw_time > draw_time:
            self._draw_at(draw_time)

    def _draw(self) -> None:
        self._last_draw_time = self._loop.time()
        self._cancel_timer()
        self._print_lines()
        self._live.update(self._render_table(), refresh=True)
        self._draw_at(self._last_draw_time + IDLE_SECONDS)

    def _draw_at(self, draw_time: float) -> None:
        self._cancel_timer()
        # Stored, because the timers of uvloop do not always have the method `when`.
        self._next_draw_time = draw_time
        self._timer = self._loop.call_at(draw_time, self._draw)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _print_lines(self) -> None:
        lines = [*self._extension_lines, *self._host_lines]
        if self._dropped_lines:
            noun = "line" if self._dropped_lines == 1 else "lines"
            lines.insert(0, f"… {self._dropped_lines:,} more {noun}: exthost logs NAME")
        self._extension_lines.clear()
        self._host_lines.clear()
        self._dropped_lines = 0
        if lines:
            # As Text, so that rich does not interpret the output of an extension as markup.
            self._live.console.print(Text("\n".join(lines)))

    def _render_table(self) -> Text:
        """Return the table and the line below it, coloured by the health of the extensions."""
        now = time.monotonic()
        if now - self._measure_time >= IDLE_SECONDS or not self._rows:
            self._measure_time = now
            self._measurements.keep_measuring()
            measured = [
                row | self._measurements.measure(row["id"], local_pids(row))
                for row in self._report.rows()
            ]
            self._rows = self._rates.add(measured, now)
        # Measurements may be up to IDLE_SECONDS old; the state of each extension is current.
        measured_rows = {row["id"]: row for row in self._rows}
        all_rows = [measured_rows.get(row["id"], {}) | row for row in self._report.rows()]
        controls = self._controls
        controls.rows = all_rows
        rows = controls.selection.filter_rows(all_rows)
        selected = controls.selection.find_index(rows)
        size = self._live.console.size
        has_keys = self._keys is not None and self._keys.is_reading
        # Two lines of the terminal stay free, and one is for the footer about keys.
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
            text.append(f"\n{truncate(footer, size.width)}", style="dim")
        return text
