"""Tests of the live display of `exthost top`, with a fake terminal and a fake host.

The display is a table with a row for each extension. Its last lines are a detail of the selected
row and a line of keys. `test_top.py` tests the table itself, and the verb in a real terminal.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from exthost.faces.cli.top import HELP, _LiveTop
from tests.faces.cli.test_top import row


class Screen:
    """A fake terminal: it keeps the lines that were drawn last."""

    def __init__(self, width: int = 100, height: int = 12) -> None:
        self._size = width, height
        self.lines: list[str] = []
        self.selected = -1

    def size(self) -> tuple[int, int]:
        return self._size

    def draw(self, lines: list[str], selected: int = -1) -> None:
        self.lines, self.selected = lines, selected


class Display:
    """A live display of a host with these extensions.

    `verbs` are the verbs that keys have sent to the host or run.
    """

    def __init__(self, *rows: dict[str, Any], clients: int = 0) -> None:
        self.screen = Screen()
        reply = {"host": {"pid": 7}, "clients": [{}] * clients, "extensions": list(rows)}
        client: Any = SimpleNamespace(ask=lambda *_, **__: reply)
        screen: Any = self.screen
        self.top = _LiveTop(SimpleNamespace(config=None), client, screen)  # type: ignore[arg-type]
        self.verbs: list[tuple[Any, str]] = []
        self.top._send_verb = lambda *call: self.verbs.append(call)  # type: ignore[method-assign]
        self.top._run_verb = lambda *call: self.verbs.append(call)  # type: ignore[method-assign]
        self.top._take_sample(1.0)
        self.top._draw()

    def press(self, *keys: str) -> list[str]:
        """Press keys, and return the lines of the screen."""
        for key in keys:
            assert self.top._handle_key(key)
        self.top._draw()
        return self.screen.lines


def test_the_headline_names_troubles_and_clients_only_if_there_are_any() -> None:
    quiet, busy = Display(row("a"), row("b")), Display(row("a", "failed"), row("b"), clients=3)
    assert quiet.screen.lines[0] == "exthost top · process 7 · 2 extensions"
    assert busy.screen.lines[0].endswith("2 extensions · 1 in trouble · 3 clients")
    assert all(len(display.screen.lines) == 12 for display in (quiet, busy))


def test_a_pattern_filters_the_rows_and_is_shown() -> None:
    display = Display(row("one"), row("two"))
    *_, detail, _ = lines = display.press("/", "t", "w")
    assert detail == "/tw" and "1 of 2 extensions" in lines[0]
    assert display.press("enter")[-2] == "/tw"


def test_the_last_error_of_the_selected_extension_is_shown() -> None:
    display = Display(row("a", last_error={"message": "it ended\nat once", "time": 0}), row("b"))
    assert display.screen.lines[-2] == "a: it ended at once" and display.screen.selected == 2
    assert display.press("down")[-2] == "" and display.screen.selected == 3
    assert Display().screen.selected == -1


def test_any_key_leaves_the_help() -> None:
    display = Display(row("a"))
    lines = display.press("?")
    assert lines[: len(HELP)] == list(HELP)[:12] and len(lines) == 12
    assert display.press("q")[0].startswith("exthost top")
    assert display.press("/", "?")[-2] == "/?"


def test_keys_send_verbs_for_the_selected_extension() -> None:
    display = Display(row("a"))
    display.press("r", "s", "l", "t")
    expected = [("restart", "a"), ("stop", "a"), (["logs", "-f"], "a"), (["trace"], "a")]
    assert display.verbs == expected
    empty = Display()
    empty.press("r", "s", "l", "t", "x")
    assert empty.verbs == []


def test_a_note_stays_while_a_filter_is_typed_and_goes_when_the_selection_moves() -> None:
    display = Display(row("a"), row("b"))
    display.top._note = "a: restart …"
    assert display.press("/", "escape")[-2] == "a: restart …"
    assert display.press("down")[-2] == ""


@pytest.mark.parametrize("key", ["q", ""])
def test_a_key_leaves_the_display(key: str) -> None:
    assert not Display(row("a")).top._handle_key(key)


def test_ctrl_c_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt):
        Display(row("a")).top._handle_key("ctrl-c")
