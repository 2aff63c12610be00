"""Tests that diagnostics go to the caller's function, and that a screen is written whole."""

import os

from exthost.config.discovery.report import Diagnostic
from exthost.faces.cli.diagnostic_lines import print_diagnostics
from exthost.faces.cli.terminal import Terminal

DIAGNOSTIC = Diagnostic(
    level="warning", path="a.toml", message="it is odd", help="change it", line=3
)


def test_diagnostics_are_printed_by_the_function_of_the_caller() -> None:
    lines: list[str] = []
    print_diagnostics([DIAGNOSTIC], with_help=True, print_line=lines.append)
    assert lines == ["warning: a.toml:3: it is odd", "  fix: change it"]


def test_a_whole_screen_is_written() -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    terminal = Terminal.__new__(Terminal)  # without a terminal
    terminal._out_fd = write_end
    try:
        terminal.draw(["first", "second"])
        text = os.read(read_end, 1000).decode()
    finally:
        os.close(read_end)
        os.close(write_end)
    assert "first" in text and "second" in text
