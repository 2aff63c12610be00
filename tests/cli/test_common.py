"""What the command line prints of an extension cannot control a terminal."""

import json

import pytest

from exthost.cli.common import show_json


def test_json_escapes_what_a_terminal_obeys_and_stays_the_same_json(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    value = {"a": "\x9b31m \x9d \x7f \u202e \u2066", "b": "käse \x1b"}
    show_json(value)
    printed = capfdbinary.readouterr().out.decode()
    assert json.loads(printed) == value and "käse" in printed
    assert printed.rstrip("\n").isprintable()
