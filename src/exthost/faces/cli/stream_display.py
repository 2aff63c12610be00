"""Shows the events of a stream on stderr as they arrive: text with its control characters escaped,
progress as a bar.

On a terminal a progress bar is one line that is redrawn. Otherwise a line is written when a task
begins, at each tenth of it, and when it ends, so that a log stays readable. A dialect (the protocol
that an extension speaks) may have a function that renders its events. Otherwise the repr of each
event is shown.
"""

import shutil
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from exthost.dialects.streams import ProgressBar
from exthost.faces.cli.common import escape_controls, one_line
from exthost.faces.cli.text_width import truncate

_BAR_WIDTH = 24


class StreamDisplay:
    """Shows events within a `with` block. `render` is the dialect's function, or None. It returns
    a progress bar or a text for an event, and None for an event that is not shown."""

    def __init__(self, render: Callable[[Any], ProgressBar | str | None] | None) -> None:
        self._render = render
        self._bars: dict[str, ProgressBar] = {}
        self._tenths: dict[str, int] = {}  # by task: the tenth (0 to 10) of the last printed line
        self._is_terminal = sys.stderr.isatty()
        self._bar_line = ""  # the progress bar in the last line of the terminal, if any
        self._has_partial_line = False  # the last text did not end with a newline

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._has_partial_line or self._bar_line:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def show(self, event: Any) -> None:
        """Show one event."""
        text = self._render(event) if self._render is not None else f"{event!r}\n"
        if isinstance(text, ProgressBar):
            self._show_progress(text)
        elif text:
            self._write_text(escape_controls(text))
        sys.stderr.flush()

    def _write_text(self, text: str) -> None:
        self._erase_bar()
        # No newline is added, because a model sends a line in several pieces.
        sys.stderr.write(text)
        self._has_partial_line = not text.endswith("\n")

    def _show_progress(self, progress: ProgressBar) -> None:
        """Show a progress event: redraw its bar, or on another output print a line."""
        is_new = progress.id not in self._bars
        # An event has only the fields that changed. The other fields keep their previous values.
        previous = self._bars.get(progress.id, ProgressBar(progress.id, progress.id))
        bar = ProgressBar(
            progress.id,
            progress.label or previous.label,
            previous.current if progress.current is None else progress.current,
            previous.total if progress.total is None else progress.total,
            progress.message if progress.done else progress.message or previous.message,
            progress.done,
        )
        self._bars[progress.id] = bar
        if self._is_terminal:
            self._draw(bar)
        else:
            self._print_step(bar, is_new=is_new)

    def _draw(self, bar: ProgressBar) -> None:
        self._start_line()
        if bar.done:
            sys.stderr.write(f"{_bar_text(bar)}\n")
            return
        # A bar of more than one line could not be erased. In the last column the cursor may wrap.
        self._bar_line = truncate(_bar_text(bar), shutil.get_terminal_size().columns - 1)
        sys.stderr.write(self._bar_line)

    def _print_step(self, bar: ProgressBar, *, is_new: bool) -> None:
        tenth = int(_fraction(bar) * 10)
        # Without a total there are no tenths, so each step is printed.
        if is_new or bar.done or tenth != self._tenths.get(bar.id, 0) or not bar.total:
            self._tenths[bar.id] = tenth
            self._start_line()
            sys.stderr.write(f"{_bar_text(bar)}\n")

    def _erase_bar(self) -> None:
        if self._bar_line:
            sys.stderr.write("\r\x1b[K")
            self._bar_line = ""

    def _start_line(self) -> None:
        """Erase the bar, or end a partial line, so that output begins at an empty line."""
        self._erase_bar()
        if self._has_partial_line:
            sys.stderr.write("\n")
            self._has_partial_line = False


def _fraction(bar: ProgressBar) -> float:
    if not bar.total or bar.current is None:
        return 0.0
    try:
        return min(1.0, max(0.0, bar.current / bar.total))
    except OverflowError:  # an integer of hundreds of digits
        return float(bar.current >= bar.total)


def _bar_text(bar: ProgressBar) -> str:
    label = one_line(bar.label)
    message = f"  {one_line(bar.message)}" if bar.message else ""
    if bar.done:
        return f"{label}: {'failed' if bar.message else 'done'}{message}"
    if not bar.total or bar.current is None:
        return f"{label} …{message}"
    filled_width = int(_fraction(bar) * _BAR_WIDTH)
    bar_characters = "#" * filled_width + "-" * (_BAR_WIDTH - filled_width)
    return f"{label} [{bar_characters}] {_fraction(bar):4.0%}{message}"
