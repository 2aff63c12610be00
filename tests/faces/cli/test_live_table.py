"""Tests of the keys of the table that `exthost run` shows in a terminal.

The table has a row for each extension. Arrows move the selection, `/` starts a filter, `r` and `s`
restart and stop the selected extension, `t` and `l` show its messages and its log.
"""

import asyncio
import errno
import termios
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exthost.faces.cli.live_controls import LiveControls
from exthost.faces.cli.table_selection import TableSelection
from tests.extensions.harness import hostile_command as hostile_command
from tests.faces.cli.cli_process import extension, run_exthost, run_json, write_config
from tests.faces.cli.test_signals import CTRL_C, terminal
from tests.faces.cli.test_top import row


def test_keys_move_the_selection_and_type_a_filter() -> None:
    rows = [row("a"), row("b", "failed"), row("c")]
    # `handle_key` returns False for a key that does not concern selection or filter.
    selection = TableSelection()
    # Failed extensions are the first rows: b, a, c.
    assert selection.find_index(selection.filter_rows(rows)) == 0 and selection.id == "b"
    assert selection.handle_key("down", rows) and selection.id == "a"
    assert not selection.handle_key("r", rows)
    for key in ("/", "c", "x", "backspace"):
        assert selection.handle_key(key, rows)
    filtered = selection.filter_rows(rows)
    assert [item["id"] for item in filtered] == ["c"] and selection.find_index(filtered) == 0
    # The filter is still being typed.
    assert selection.handle_key("r", rows) and selection.pattern == "cr"
    assert selection.handle_key("enter", rows) and not selection.handle_key("q", rows)
    assert selection.handle_key("escape", rows) and len(selection.filter_rows(rows)) == 3
    assert selection.handle_key("page-down", rows) and selection.id == "c"
    assert selection.handle_key("up", []) and selection.find_index([]) == 0


@pytest.mark.more
def test_keys_of_the_table_restart_and_stop_an_extension_and_show_its_messages_and_log(
    tmp_path: Path,
) -> None:
    bad = extension("zz-bad", "no-such-program")
    write_config(tmp_path, extension("one", *hostile_command()), bad)
    with terminal(tmp_path, COLUMNS="80", LINES="24") as screen:
        screen.wait_for("r restart")
        screen.wait_for("1 of 2 extensions ready")
        before = run_json(tmp_path, "status", "one")["extensions"][0]["pids"]
        screen.press(b"/one")
        screen.wait_for("/one")
        screen.press(b"\r\x1b")  # Enter ends the filter, and Escape deletes it
        screen.wait_for("r restart")
        screen.press(b"r")
        screen.wait_for("one: restart: ready")
        assert run_json(tmp_path, "status", "one")["extensions"][0]["pids"] != before
        screen.press(b"t")
        screen.wait_for("the messages of one, until")
        run_exthost(tmp_path, "call", "one", "echo", "--method", "--args", '["seen"]')
        screen.wait_for('["seen"]')
        screen.press(b"t")
        screen.wait_for("no longer shown")
        screen.press(b"l")
        screen.wait_for("the log of one, the last")
        screen.press(b"s")
        screen.wait_for("one: stop: stopped")
        assert not termios.tcgetattr(screen.fd)[3] & termios.ECHO
        screen.press(CTRL_C)
        screen.wait_for("stopping")
        assert screen.end() == 130
        assert termios.tcgetattr(screen.fd)[3] & termios.ECHO  # the terminal echoes keys again


async def test_a_log_that_cannot_be_read_is_reported_above_the_table() -> None:
    def read_log(name: str, count: int) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied")

    host: Any = {"one": SimpleNamespace(id="one")}
    lines: list[str] = []
    controls = LiveControls(host, read_log, lines.append, lambda: None)
    controls.selection.id = "one"
    controls.handle_key("l")
    await asyncio.gather(*controls._tasks)
    assert lines == ["the log of one cannot be read: Permission denied"]
