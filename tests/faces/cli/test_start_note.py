"""Tests of `start_note`, which prints "starting NAME …" on a terminal if a start takes long."""

import asyncio
import sys
from io import StringIO

import pytest

from exthost.faces.cli.start_note import start_note
from tests.extensions.harness import wait_until


class Terminal(StringIO):
    """A stream in memory that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


async def test_a_start_that_takes_long_is_announced_once_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with start_note("weather", seconds=0.0):
        await wait_until(lambda: terminal.getvalue() != "")
        for _ in range(5):
            await asyncio.sleep(0)
    assert terminal.getvalue() == "starting weather …\n"


async def test_a_quick_start_and_a_pipe_get_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, pipe = Terminal(), StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    with start_note("weather", seconds=3600.0):
        await asyncio.sleep(0)
    monkeypatch.setattr(sys, "stderr", pipe)
    with start_note("weather", seconds=0.0):
        for _ in range(5):
            await asyncio.sleep(0)
    assert (terminal.getvalue(), pipe.getvalue()) == ("", "")
