"""Tests of `StreamDisplay`, which shows the events of a streamed reply while they arrive.

On a terminal, a progress bar replaces the previous one; in a log, each is a line. Events belong to
a dialect, which has a function that turns them into text or progress bars: here that of synaps.
"""

import io
import sys

import pytest

from exthost.dialects.streams import ProgressBar
from exthost.dialects.synaps.stream_events import render_event
from exthost.dialects.synaps.types import CommandOutput, TaskDone, TaskStart, TaskUpdate, Text
from exthost.faces.cli.stream_display import StreamDisplay
from exthost.faces.cli.text_width import text_width


class Terminal(io.StringIO):
    """A stream in memory that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


# A task with two steps, an output in between, and the text of a model in two pieces.
EVENTS = (
    TaskStart("a", "Load"),
    TaskUpdate("a", 1, 4),
    CommandOutput("text", "half-way"),
    TaskUpdate("a", 4, 4, "nearly"),
    TaskDone("a"),
    Text("word "),
    Text("by word"),
)


def show_events(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, *events: object) -> str:
    """Show the events on this stream; return what was written to it."""
    monkeypatch.setattr(sys, "stderr", stderr)
    with StreamDisplay(render_event) as display:
        for event in events:
            display.show(event)
    return stderr.getvalue()


def test_a_progress_bar_on_a_terminal_replaces_the_previous_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clear_line = "\r\x1b[K"
    assert show_events(monkeypatch, Terminal(), *EVENTS) == (
        f"Load …{clear_line}Load [######------------------]  25%{clear_line}half-way\n"
        f"Load [########################] 100%  nearly{clear_line}Load: done\nword by word\n"
    )


@pytest.mark.parametrize("stderr", [Terminal(), io.StringIO()], ids=["terminal", "log"])
def test_no_event_controls_the_terminal(
    monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO
) -> None:
    evil = "\x1b]0;owned\x07\x9b2J"
    events = (
        TaskStart("a", f"Load{evil}\nforged: done"),
        TaskUpdate("a", 1, 4, f"a{evil}\nb"),
        CommandOutput("text", f"one{evil}\ntwo"),
        Text(evil),
        TaskDone("a", f"no{evil}\nforged"),
    )
    output = show_events(monkeypatch, stderr, *events).replace("\r\x1b[K", "")
    assert "".join(output.split("\n")).isprintable()
    assert "\nforged" not in output and "two\n" in output


def test_a_progress_bar_is_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    events = (TaskStart("a", "設定" * 30), TaskUpdate("a", 10**400, 3), TaskUpdate("a", 1, 1e300))
    shown = show_events(monkeypatch, Terminal(), *events).rstrip("\n").split("\r\x1b[K")
    assert len(shown) == 3 and all(30 < text_width(line) < 40 for line in shown)


def test_each_step_is_a_line_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    assert show_events(monkeypatch, io.StringIO(), *EVENTS).splitlines() == [
        "Load …",
        "Load [######------------------]  25%",
        "half-way",
        "Load [########################] 100%  nearly",
        "Load: done",
        "word by word",
    ]


def test_a_log_has_a_line_for_every_10_percent_of_many_small_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [TaskUpdate("a", n, 1000) for n in range(1001)]
    lines = show_events(monkeypatch, io.StringIO(), TaskStart("a", "Load"), *events).splitlines()
    assert len(lines) == 1 + 10 and lines[-1].endswith("100%")  # the start, and every 10 percent


def test_a_task_without_a_label_has_a_line_for_every_10_percent_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [TaskUpdate("a", n, 1000) for n in range(1001)]
    # One line for each 10 percent, from 0 to 100.
    assert len(show_events(monkeypatch, io.StringIO(), *events).splitlines()) == 11


def test_a_failed_task_shows_its_reason_and_impossible_numbers_are_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = (TaskUpdate("b", 5, 0), TaskUpdate("b", 9, 3), TaskUpdate("b", -1, 3))
    lines = show_events(monkeypatch, io.StringIO(), *events, TaskDone("b", "no")).splitlines()
    assert lines[-1] == "b: failed  no" and lines[1].endswith("100%")


def test_without_a_renderer_an_event_is_shown_by_its_repr(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with StreamDisplay(None) as display:
        display.show(ProgressBar("a"))
    assert "Bar(id='a'" in stderr.getvalue()
