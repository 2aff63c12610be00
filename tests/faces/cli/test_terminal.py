"""Tests of `Terminal`, with which `exthost top` draws lines on a terminal and reads keys."""

import os
import pty
import sys
import tty
from collections.abc import Iterator

import pytest

from exthost.faces.cli.terminal import Terminal


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Terminal, int]]:
    """A terminal, and the descriptor of its other end, which the test closes."""
    outer, inner = pty.openpty()
    tty.setraw(inner)
    with os.fdopen(inner, "r+b", buffering=0) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        monkeypatch.setattr(sys, "stdout", stream)
        yield Terminal(), outer
        monkeypatch.undo()


def test_lines_are_drawn_and_one_is_highlighted(terminal: tuple[Terminal, int]) -> None:
    screen, outer = terminal
    screen.draw(["first", "second"], highlighted=1)
    drawn = os.read(outer, 4096).decode()
    assert "first" in drawn and "\x1b[7msecond\x1b[0m" in drawn
    os.close(outer)


def test_keys_are_read_and_no_key_is_returned_in_time(terminal: tuple[Terminal, int]) -> None:
    screen, outer = terminal
    assert screen.read_keys(0) == []
    os.write(outer, b"q")
    assert screen.read_keys(10) == ["q"]
    os.close(outer)
    assert screen.read_keys(10) == [""], "the terminal was closed"
