"""Events of a stream before a person: bars on a terminal, lines in a log."""

import io
import sys

import pytest

from exthost.dialects.streams import ProgressBar
from exthost.dialects.synaps.stream_events import render_event
from exthost.dialects.synaps.types import CommandOutput, TaskDone, TaskStart, TaskUpdate, Text
from exthost.faces.cli.stream_display import StreamDisplay


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


EVENTS = (
    TaskStart("a", "Load"),
    TaskUpdate("a", 1, 4),
    CommandOutput("text", "half-way"),
    TaskUpdate("a", 4, 4, "nearly"),
    TaskDone("a"),
    Text("word "),
    Text("by word"),
)


def watched(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, *events: object) -> str:
    monkeypatch.setattr(sys, "stderr", stderr)
    with StreamDisplay(render_event) as display:
        for event in events:
            display.show(event)
    return stderr.getvalue()


def test_on_a_terminal_a_bar_is_drawn_over_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    wipe = "\r\x1b[K"
    assert watched(monkeypatch, Terminal(), *EVENTS) == (
        f"Load …{wipe}Load [######------------------]  25%{wipe}half-way\n"
        f"Load [########################] 100%  nearly{wipe}Load: done\nword by word\n"
    )


def test_in_a_log_each_step_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(monkeypatch, io.StringIO(), *EVENTS).splitlines() == [
        "Load …",
        "Load [######------------------]  25%",
        "half-way",
        "Load [########################] 100%  nearly",
        "Load: done",
        "word by word",
    ]


def test_many_small_steps_are_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [TaskUpdate("a", n, 1000) for n in range(1001)]
    lines = watched(monkeypatch, io.StringIO(), TaskStart("a", "Load"), *events).splitlines()
    assert len(lines) == 11 and lines[-1].endswith("100%")


def test_many_steps_of_a_task_without_a_label_are_few_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [TaskUpdate("a", n, 1000) for n in range(1001)]
    assert len(watched(monkeypatch, io.StringIO(), *events).splitlines()) == 11


def test_a_task_that_failed_says_why_and_odd_numbers_do_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = (TaskUpdate("b", 5, 0), TaskUpdate("b", 9, 3), TaskUpdate("b", -1, 3))
    lines = watched(monkeypatch, io.StringIO(), *events, TaskDone("b", "no")).splitlines()
    assert lines[-1] == "b: failed  no" and lines[1].endswith("100%")


def test_without_words_of_the_dialect_an_event_is_shown_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with StreamDisplay(None) as display:
        display.show(ProgressBar("a"))
    assert "Bar(id='a'" in stderr.getvalue()
