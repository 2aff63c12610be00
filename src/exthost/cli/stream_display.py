"""Shows the events of a stream on stderr as they come: text unchanged, progress as a bar.

On a terminal a bar is one line that is redrawn. Elsewhere a line is written when a task begins, at
each tenth, and when it ends, so that a log stays readable. An event that the dialect does not
render is shown by its repr.
"""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from exthost.dialects.streams import ProgressBar

_WIDTH = 24


class StreamDisplay:
    """Shows events while it is entered."""

    def __init__(self, show: Callable[[Any], ProgressBar | str | None] | None) -> None:
        self._show = show
        self._bars: dict[str, ProgressBar] = {}
        self._tenths: dict[str, int] = {}
        self._live = sys.stderr.isatty()
        self._line = ""  # what stands in the terminal's last line
        self._open = False  # text was written that did not end its line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._open or self._line:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def show(self, event: Any) -> None:
        """Show one event."""
        text = self._show(event) if self._show is not None else f"{event!r}\n"
        if isinstance(text, ProgressBar):
            self._progress(text)
        elif text:
            self._text(text)
        sys.stderr.flush()

    def _text(self, text: str) -> None:
        self._erase()
        # A model sends pieces of a line, a command whole lines: both are written unchanged.
        sys.stderr.write(text)
        self._open = not text.endswith("\n")

    def _progress(self, progress: ProgressBar) -> None:
        before = self._bars.get(progress.id, ProgressBar(progress.id, progress.id))
        bar = ProgressBar(
            progress.id,
            progress.label or before.label,
            before.current if progress.current is None else progress.current,
            before.total if progress.total is None else progress.total,
            progress.message if progress.done else progress.message or before.message,
            progress.done,
        )
        self._bars[progress.id] = bar
        if self._live:
            self._draw(bar)
        else:
            self._note(bar, is_new=before.label == progress.id and not before.done)

    def _draw(self, bar: ProgressBar) -> None:
        self._clear()
        if bar.done:
            sys.stderr.write(f"{_bar(bar)}\n")
            return
        self._line = _bar(bar)
        sys.stderr.write(self._line)

    def _note(self, bar: ProgressBar, *, is_new: bool) -> None:
        tenth = int(_share(bar) * 10)
        if is_new or bar.done or tenth != self._tenths.get(bar.id, 0) or not bar.total:
            self._tenths[bar.id] = tenth
            self._clear()
            sys.stderr.write(f"{_bar(bar)}\n")

    def _erase(self) -> None:
        if self._line:
            sys.stderr.write("\r\x1b[K")
            self._line = ""

    def _clear(self) -> None:
        """Move to the start of an empty line."""
        self._erase()
        if self._open:
            sys.stderr.write("\n")
            self._open = False


def _share(bar: ProgressBar) -> float:
    if not bar.total or bar.current is None:
        return 0.0
    return min(1.0, max(0.0, bar.current / bar.total))


def _bar(bar: ProgressBar) -> str:
    message = f"  {bar.message}" if bar.message else ""
    if bar.done:
        return f"{bar.label}: {'failed' if bar.message else 'done'}{message}"
    if not bar.total or bar.current is None:
        return f"{bar.label} …{message}"
    full = int(_share(bar) * _WIDTH)
    drawn = "#" * full + "-" * (_WIDTH - full)
    return f"{bar.label} [{drawn}] {_share(bar):4.0%}{message}"
