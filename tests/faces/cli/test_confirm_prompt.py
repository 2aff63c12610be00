"""`exthost call` asks on the terminal if a hook requests a person; `--yes` agrees.

The terminal is a real one (a pty), and so is the host beside it.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exthost.extension.confirmation import Confirmation
from exthost.faces.cli import confirm_prompt
from tests.extensions.synaps_tree import plugin
from tests.faces.cli.cli_process import EXTHOST, exthost, shared_host
from tests.faces.cli.test_signals import terminal
from tests.faces.gateway.gateway_process import write_config

TOOL = "ext_tools_echo"
QUESTION = "delete\n\x1b[2Jeverything?"


def guarded(folder: Path) -> Path:
    plugin(folder / "plugins" / "tools", {"heard": str(folder / "heard")})
    confirm = {"hooks": {"before_tool_call": {"action": "confirm", "message": QUESTION}}}
    plugin(folder / "plugins" / "guard", confirm, hooks=[{"hook": "before_tool_call"}])
    write_config(folder, {"discovery": {"search_paths": [str(folder / "plugins")]}})
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = guarded(tmp_path_factory.mktemp("guarded"))
    with shared_host(folder):
        yield folder


def count_calls(folder: Path) -> int:
    received = folder / "heard"
    return received.read_text().count("tool.call") if received.exists() else 0


STANDALONE = ("--standalone",)


@pytest.mark.parametrize(
    ("way", "key", "is_yes"),
    [
        ((), b"y\n", True),
        ((), b"\n", False),
        (STANDALONE, b"y\n", True),
        (STANDALONE, b"\x04", False),
    ],
)
def test_the_person_at_the_terminal_decides(
    folder: Path, way: tuple[str, ...], key: bytes, is_yes: bool
) -> None:
    before = count_calls(folder)
    with terminal(folder, (*EXTHOST, "call", TOOL, "a=1", *way), "--json") as screen:
        screen.until("[y/N]")
        assert count_calls(folder) == before
        screen.press(key)
        code = screen.end()
        shown = screen.shown.decode().replace("\r\n", "\n")
    assert f"[guard] asks: delete\n  | \\x1b[2Jeverything?\ntool: {TOOL}\n" in shown
    assert 'arguments: {"a": 1}' in shown
    assert count_calls(folder) == before + is_yes
    if is_yes:
        assert code == 0 and '{"a": 1}' in shown.rpartition("[y/N]")[2]
    else:
        assert code != 0 and "X0332" in shown and "not confirmed" in shown


@pytest.mark.more
def test_no_answer_in_time_is_a_no(folder: Path) -> None:
    before = count_calls(folder)
    words = (*EXTHOST, "call", TOOL, "a=1", "--timeout", "5s")
    with terminal(folder, words, "--json") as screen:
        code = screen.end()
        shown = screen.shown.decode()
    assert code != 0 and "X0354" in shown and "no answer came within" in shown
    assert count_calls(folder) == before


@pytest.mark.parametrize("way", [(), STANDALONE])
def test_without_a_terminal_no_question_is_asked_and_yes_agrees(
    folder: Path, way: tuple[str, ...]
) -> None:
    before = count_calls(folder)
    refused = exthost(folder, "call", TOOL, "a=1", "--json", *way)
    error = json.loads(refused.stdout)["error"]
    assert (refused.returncode != 0, error["code"]) == (True, "X0354")
    assert "--yes" in error["help"] and count_calls(folder) == before
    agreed = exthost(folder, "call", TOOL, "a=1", "--json", "--yes", *way)
    assert (agreed.returncode, json.loads(agreed.stdout)) == (0, {"a": 1})
    assert "[guard] asks: delete" in agreed.stderr and "--yes" in agreed.stderr
    assert count_calls(folder) == before + 1


def test_input_typed_before_the_question_is_not_an_answer(folder: Path) -> None:
    with terminal(folder, (*EXTHOST, "call", TOOL, "a=1"), "--json") as screen:
        screen.press(b"y\n")
        screen.until("[y/N]")
        screen.press(b"n\n")
        assert screen.end() != 0
        assert b"not confirmed" in screen.shown


def test_stdin_may_be_a_pipe(folder: Path) -> None:
    command = f"echo '{{\"a\": 5}}' | {' '.join(EXTHOST)} call {TOOL} --json --args -"
    with terminal(folder, ("/bin/sh", "-c"), command) as screen:
        screen.until("[y/N]")
        screen.press(b"YES\n")
        assert screen.end() == 0
        assert b'{"a": 5}' in screen.shown.rpartition(b"[y/N]")[2]


@pytest.mark.more
@pytest.mark.parametrize(("way", "key"), [((), b"y\n"), (STANDALONE, b"n\n")])
def test_a_rule_asks_the_person_at_the_terminal(
    tmp_path: Path, way: tuple[str, ...], key: bytes
) -> None:
    plugin(tmp_path / "plugins" / "tools", {"heard": str(tmp_path / "heard")})
    rule = {"tools": "tools:*", "do": "ask", "reason": "look first"}
    discovery = {"search_paths": [str(tmp_path / "plugins")]}
    write_config(tmp_path, {"discovery": discovery, "rules": [rule]})
    with (
        shared_host(tmp_path),
        terminal(tmp_path, (*EXTHOST, "call", TOOL, "a=1", *way), "--json") as screen,
    ):
        screen.until("[y/N]")
        assert count_calls(tmp_path) == 0
        screen.press(key)
        code = screen.end()
        shown = screen.shown.decode()
    assert "rule 1 of the config: look first" in shown and 'arguments: {"a": 1}' in shown
    is_yes = key == b"y\n"
    assert count_calls(tmp_path) == is_yes and (code == 0) == is_yes
    assert ("X1842" in shown) != is_yes


def test_the_question_counts_the_arguments_it_leaves_out() -> None:
    event = {"tool_name": "t\u202e", "arguments": {"text": "x" * 10_000}}
    text = confirm_prompt.question_text(Confirmation("guard", "sure?", "before_tool_call", event))
    assert len(text) < 5000 and "and 6,012 more characters that are not shown" in text
    assert "\u202e" not in text and "tool: t\\u202e" in text


def test_no_question_is_asked_without_a_controlling_terminal(folder: Path) -> None:
    """stderr is a terminal, but /dev/tty cannot be opened: nobody can answer."""
    primary, secondary = os.openpty()
    try:
        done = subprocess.run(
            [*EXTHOST, "call", TOOL, "a=1", "--json"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=secondary,
            start_new_session=True,
            timeout=150,
            check=False,
        )
    finally:
        os.close(primary)
        os.close(secondary)
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "X0354" and "/dev/tty cannot be opened" in error["message"]
