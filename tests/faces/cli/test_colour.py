"""Tests of `paint`: text is coloured on terminals only, and not if NO_COLOR or TERM=dumb is set."""

import io

import pytest

from exthost.faces.cli.colour import paint


class Terminal(io.StringIO):
    """A stream in memory that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def colours_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment of a terminal with colours."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_gets_colours_and_a_pipe_does_not() -> None:
    assert paint("error:", "error", Terminal()) == "\x1b[1;31merror:\x1b[0m"
    assert paint("error:", "error", io.StringIO()) == "error:"
    assert paint("error:", "unknown", Terminal()) == "error:"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_turned_off(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert paint("error:", "error", Terminal()) == "error:"
