"""Colours are for terminals that want them."""

import io

import pytest

from exthost.faces.cli.colour import paint


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> None:
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
