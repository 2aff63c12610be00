"""Tests of `exthost top`, a table of the extensions of a host that is drawn each second.

First come tests of the table (`arrange`, `table_lines`) at several widths and with 200 extensions,
then tests of the verb with a host, in a pseudoterminal. Other modules use `row`.
"""

import json
import os
import re
import signal
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exthost.faces.cli.common import Args
from exthost.faces.cli.key_reader import split_keys
from exthost.faces.cli.text_width import text_width, truncate
from exthost.faces.cli.top import _LiveTop
from exthost.faces.cli.top_layout import HEADER, arrange, order_rows, table_lines
from exthost.faces.cli.top_rates import Rates
from tests.extensions.harness import hostile_command as hostile_command
from tests.faces.cli.cli_process import (
    EXTHOST,
    extension,
    run_exthost,
    run_json,
    shared_host,
    write_config,
)
from tests.faces.cli.test_signals import terminal


def row(id: str, state: str = "ready", **more: Any) -> dict[str, Any]:
    """Return the status of one extension, as a host reports it."""
    row: dict[str, Any] = {
        "id": id,
        "dialect": "morphir",
        "state": state,
        "health": "running",
        "calls": 0,
        "in_flight": 0,
        "waiting": 0,
        "restarts": 0,
        "breaker": "closed",
        "last_error": None,
    }
    return row | more


# A row with long values in every column.
LONG_ROW = row(
    "a-rather-long-name-of-an-extension-that-somebody-chose",
    "backoff",
    failed=12_345,
    in_flight=120,
    restarts=12,
    breaker="half-open",
    rate=12345.6,
    p50_ms=0.25,
    p99_ms=123456.0,
    cpu_percent=199.7,
    memory_bytes=3 * 2**30,
    last_error={"message": "it ended: \x1b[31mexited with 9\nand more", "time": 0},
)


@pytest.mark.parametrize("width", [40, 80, 120, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    rows = [LONG_ROW, row("b"), *(row(f"extension-{number}") for number in range(200))]
    for height in (5, 24, 400):
        table = arrange(rows, width, height, 100)
        assert max(map(len, table.lines)) <= width and len(table.lines) <= height
        assert not any("\x1b" in line or "\n" in line for line in table.lines)


def test_all_columns_fit_in_80_characters() -> None:
    header, line = table_lines([LONG_ROW], 80)
    assert header.split() == [word for title in HEADER for word in title.split()]
    cells = line.split()
    expected = ["backoff", "12,346", "0.2ms", "123s", "12k", "120", "12", "half", "200", "3G"]
    assert cells[1:11] == expected
    assert cells[11].startswith("it")  # the last error, "it ended: …"


def test_no_number_is_cut() -> None:
    """A number without its last digits would be read as a smaller number."""
    busy = row("a", failed=999_999, in_flight=1024, restarts=123_456, cpu_percent=1600.0)
    [_, line] = table_lines([busy], 80)
    assert line.split()[5:10] == ["999k", "1k", ".1M", "-", "1600"]
    [_, line] = table_lines([row("a", failed=12_345_678, in_flight=99_999, restarts=7)], 80)
    assert line.split()[5:8] == ["12M", "99k", "7"]


def test_wide_characters_keep_the_columns_and_the_width() -> None:
    rows = [row("a", nodes={"東京": 1}), row("b", nodes={"node-7": 1})]
    error = {"message": "設定が見つかりません" * 20, "time": 0}
    header, first, second = table_lines([rows[0] | {"last_error": error}, rows[1]], 120)
    column = header.index("NODE")
    assert first[column : column + 12] == f"東京{' ' * 8} 設"[:12]
    assert second[column : column + 7] == "node-7 "
    assert text_width(first) <= 120


class FakeTerminal:
    """A terminal of 60 columns that keeps the lines of the last screen."""

    lines: list[str]

    def size(self) -> tuple[int, int]:
        return 60, 10

    def draw(self, lines: list[str], highlighted: int = -1) -> None:
        self.lines = lines


def test_the_screen_of_top_fits_wide_characters_and_counts_in_the_singular() -> None:
    terminal: Any = FakeTerminal()
    client: Any = FakeClient()
    top = _LiveTop(Args(), client, terminal)
    top._take_sample(0.0)
    top._draw()
    headline, *_, detail, _ = terminal.lines
    text = "exthost top · process 7 · 1 extension · 1 in trouble · 1 client"
    assert headline == truncate(text, 60)
    assert detail.startswith("a: 設定") and all(text_width(line) <= 60 for line in terminal.lines)


class FakeClient:
    """A host with one extension, whose last error is longer than a line."""

    def ask(self, request: Any, timeout: float) -> dict[str, Any]:
        error = {"message": "設定が見つかりません" * 20, "time": 0}
        rows = [row("a", "failed", last_error=error)]
        return {"host": {"pid": 7}, "clients": [{}], "extensions": rows}


def test_a_narrow_terminal_has_fewer_columns() -> None:
    failed = row("a", "failed", memory_bytes=3 * 2**20, last_error={"message": "it"})
    header, line = table_lines([failed], 64)
    titles = ["ID", "STATE", "CALLS/S", "ERR", "FLY", "RST", "CPU%", "MEM", "LAST", "ERROR"]
    assert header.split() == titles
    assert line.split()[-2:] == ["3M", "it"]


def test_failed_extensions_come_first_and_a_pattern_filters_the_rows() -> None:
    rows = [row("a"), row("b", "failed"), row("c", "open"), row("d", "refused"), row("e")]
    assert [item["id"] for item in order_rows(rows)] == ["b", "d", "c", "a", "e"]
    assert [item["id"] for item in order_rows(rows, "FAIL")] == ["b"]
    assert order_rows(rows, "nothing") == [] and len(table_lines([], 80)) == 1


def test_rows_are_sorted_by_the_chosen_column() -> None:
    rows = [row("b", rate=1.0, uptime=9.0), row("a", "failed", rate=5.0), row("c", rate=None)]
    assert [item["id"] for item in order_rows(rows, "", "id")] == ["a", "b", "c"]
    assert [item["id"] for item in order_rows(rows, "", "calls/s")] == ["a", "b", "c"]
    assert [item["id"] for item in order_rows(rows, "", "uptime")] == ["b", "a", "c"]


def test_a_wide_terminal_shows_pid_and_uptime() -> None:
    header, line = table_lines([row("a", pids=[11, 4242], uptime=7500.0)], 120)
    assert line[header.index("PID") - 4 :].split()[:2] == ["4242", "2h5m"]
    assert "PID" not in table_lines([row("a")], 80)[0]


def test_processes_on_other_nodes_add_a_column_with_their_node() -> None:
    rows = [row("a", nodes={"node-7": 2}), row("b", nodes={"node-7": 1, "node-8": 1}), row("c")]
    header, *lines = table_lines(rows, 120)
    column = header.index("NODE")
    assert [line[column : column + 12].rstrip() for line in lines] == ["node-7", "2 nodes", "-"]
    assert "NODE" not in table_lines([row("c")], 120)[0]


def test_a_config_with_a_lock_has_a_column_for_it() -> None:
    rows = [
        row("a", lock="locked"),
        row("b", lock="quarantined"),
        row("c", "refused", lock="changed"),
    ]
    header, *lines = table_lines(rows, 120)
    column = header.index("LOCK")
    assert [line[column:].split()[0] for line in lines] == ["locked", "quarantined", "changed"]
    assert all(len(line) <= 80 for line in table_lines(rows, 80))
    assert "LOCK" not in table_lines([row("a", lock="")], 120)[0]


def test_the_selected_row_of_two_hundred_is_always_shown() -> None:
    rows = [row(f"e{number}") for number in range(200)]
    for selected in (0, 1, 100, 198, 199):
        table = arrange(rows, 80, 20, selected)
        assert table.lines[table.selected].split()[0] == f"e{selected}"
        above, below = map(int, re.findall(r"\d+", table.lines[-1]))
        assert above + below + len(table.rows) == 200


def test_rates_are_computed_between_two_samples() -> None:
    rates = Rates()
    [first] = rates.add([row("a", calls=5, cpu_seconds=1.0)], 10.0)
    assert first["rate"] is None and first["cpu_percent"] is None
    [second] = rates.add([row("a", calls=25, cpu_seconds=1.5)], 12.0)
    assert (second["rate"], second["cpu_percent"]) == (10.0, 25.0)
    # A new process has less CPU time.
    [third] = rates.add([row("a", calls=25, cpu_seconds=0.1)], 13.0)
    assert (third["rate"], third["cpu_percent"]) == (0.0, 0.0)


def test_key_presses_are_split_from_terminal_input() -> None:
    assert list(split_keys("r\x1b[A\x1b[6~/é\x7f\r")) == [
        *("r", "up", "page-down", "/", "é", "backspace", "enter"),
    ]
    assert list(split_keys("\x1b[15~q\x1b")) == ["q", "escape"]


# -- with a running host -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a running host with three extensions, one of which fails."""
    folder = tmp_path_factory.mktemp("top")
    bad = extension("zz-bad", "no-such-program")
    write_config(folder, extension("one", *hostile_command()), extension("two"), bad)
    with shared_host(folder):
        yield folder


def test_without_a_terminal_the_table_is_printed_once(folder: Path) -> None:
    result = run_exthost(folder, "top")
    header, first, *_ = result.stdout.splitlines()
    assert result.returncode == 0 and header.startswith("ID") and first.startswith("zz-bad")
    rows = {item["id"]: item for item in run_json(folder, "top")["extensions"]}
    assert rows["one"]["memory_bytes"] > 0 and rows["one"]["rate"] is not None
    assert rows["zz-bad"]["state"] == "failed" and json.dumps(rows)


@pytest.mark.more
def test_keys_select_filter_restart_stop_and_quit(folder: Path) -> None:
    before = run_json(folder, "status", "one")["extensions"][0]["pids"]
    with terminal(folder, EXTHOST, "top", COLUMNS="80", LINES="24") as screen:
        screen.wait_for("3 extensions · 1 in trouble")
        # The error of the selected extension, which is the failed one.
        screen.wait_for("there is no program 'no-such-program'")
        screen.press(b"/one")
        screen.wait_for("1 of 3 extensions")
        screen.press(b"\r")
        screen.press(b"r")
        screen.press(b"\x1b")
        screen.wait_for("one: restart: ready")
        screen.press(b"s")
        screen.wait_for("one: stop: stopped")
        screen.press(b"l")
        screen.wait_for("q comes back")
        screen.wait_for("exthost stopped")  # a line of the log
        screen.press(b"q")
        screen.wait_for("3 extensions")
        screen.press(b"t")
        screen.wait_for("trace one: q comes back")
        screen.wait_for("messages of one")  # the trace has begun
        run_exthost(folder, "call", "two", "shout", "text=unseen")
        run_exthost(folder, "start", "one")
        screen.wait_for("process")  # a message about the new process
        screen.press(b"\x1b")
        screen.wait_for("3 extensions")
        screen.press(b"?")
        screen.wait_for("Any key comes back")
        screen.press(b"x")
        screen.wait_for("3 extensions")
        screen.press(b"o")
        screen.wait_for("by id")
        screen.press(b"q")
        assert screen.end() == 0
    output = screen.output.decode()
    # The alternate screen was entered (1049h) and left again (1049l).
    assert output.rindex("\x1b[?1049l") > output.rindex("\x1b[?1049h")
    assert run_json(folder, "status", "one")["extensions"][0]["pids"] != before
    # The table fits the screen; the log between two tables has lines of any length.
    drawings = re.findall(r"\x1b\[\?1049h(.*?)\x1b\[\?1049l", output, re.DOTALL)
    drawn = "\n".join(drawings).replace("\x1b[H", "\n")
    lines = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", drawn).splitlines()
    assert "unseen" not in output  # a message of another extension
    # The table is shown at the start, after the log and after the trace.
    assert len(drawings) == 3 and max(map(len, lines)) <= 80, lines


def is_raw(fd: int) -> bool:
    """Return whether the terminal is in raw mode: no line editing, signals or echo."""
    local_modes: int = termios.tcgetattr(fd)[3]
    return not local_modes & (termios.ICANON | termios.ISIG | termios.ECHO)


@pytest.mark.more
@pytest.mark.parametrize(
    ("end", "code"), [("q", 0), ("key", 130), ("SIGINT", 130), ("SIGTERM", 143)]
)
def test_top_restores_the_terminal_however_it_ends(end: str, code: int, folder: Path) -> None:
    with terminal(folder, EXTHOST, "top", COLUMNS="80", LINES="24") as screen:
        screen.wait_for("3 extensions")
        assert is_raw(screen.fd)
        if end.startswith("SIG"):
            os.kill(screen.pid, signal.Signals[end])
        else:
            screen.press(b"q" if end == "q" else b"\x03")
        assert screen.end() == code
        assert not is_raw(screen.fd)
    assert screen.output.endswith(b"\x1b[?25h\x1b[?1049l")  # nothing is printed after the screen


@pytest.mark.more
def test_top_without_a_running_host_is_an_error(tmp_path: Path) -> None:
    assert run_exthost(tmp_path, "top").returncode == 2
