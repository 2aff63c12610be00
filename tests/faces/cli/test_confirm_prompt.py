"""Tests of the question of `exthost call` on the terminal: may this call be made?

It is asked if a hook of an extension or a rule of the config requires the agreement of a person;
`--yes` answers yes. The tests use a pseudoterminal. With `--standalone` the verb makes the call
itself, otherwise it uses the running host; the question must be the same.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exthost.extension.confirmation import Confirmation
from exthost.faces.cli import confirm_prompt
from tests.extensions.synaps_tree import write_plugin
from tests.faces.cli.cli_process import EXTHOST, run_exthost, shared_host
from tests.faces.cli.test_signals import terminal
from tests.faces.gateway.gateway_process import write_config

TOOL = "ext_tools_echo"
# The text of the question, which the extension chooses: it must not control the terminal.
QUESTION = "delete\n\x1b[2Jeverything?"


def write_guarded_config(folder: Path) -> Path:
    """Write a config with a tool, and with a hook that asks before each call of a tool."""
    write_plugin(folder / "plugins" / "tools", {"heard": str(folder / "received")})
    confirm = {"hooks": {"before_tool_call": {"action": "confirm", "message": QUESTION}}}
    write_plugin(folder / "plugins" / "guard", confirm, hooks=[{"hook": "before_tool_call"}])
    write_config(folder, {"discovery": {"search_paths": [str(folder / "plugins")]}})
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a running host with a guarded tool."""
    folder = write_guarded_config(tmp_path_factory.mktemp("guarded"))
    with shared_host(folder):
        yield folder


def count_calls(folder: Path) -> int:
    """Return how often the tool has been called."""
    received = folder / "received"
    return received.read_text().count("tool.call") if received.exists() else 0


STANDALONE = ("--standalone",)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("options", "key", "is_yes"),
    [
        ((), b"y\n", True),
        ((), b"\n", False),
        (STANDALONE, b"y\n", True),
        (STANDALONE, b"\x04", False),
    ],
)
def test_the_person_at_the_terminal_decides(
    folder: Path, options: tuple[str, ...], key: bytes, is_yes: bool
) -> None:
    before = count_calls(folder)
    with terminal(folder, (*EXTHOST, "call", TOOL, "a=1", *options), "--json") as screen:
        screen.wait_for("[y/N]")
        assert count_calls(folder) == before
        screen.press(key)
        code = screen.end()
        output = screen.output.decode().replace("\r\n", "\n")
    assert f"[guard] asks: delete\n  | \\x1b[2Jeverything?\ntool: {TOOL}\n" in output
    assert 'arguments: {"a": 1}' in output
    assert count_calls(folder) == before + is_yes
    if is_yes:
        assert code == 0 and '{"a": 1}' in output.rpartition("[y/N]")[2]
    else:
        assert code != 0 and "X0332" in output and "not confirmed" in output


@pytest.mark.more
def test_no_answer_within_the_timeout_is_a_no(folder: Path) -> None:
    before = count_calls(folder)
    arguments = (*EXTHOST, "call", TOOL, "a=1", "--timeout", "5s")
    with terminal(folder, arguments, "--json") as screen:
        code = screen.end()
        output = screen.output.decode()
    assert code != 0 and "X0354" in output and "no answer arrived within" in output
    assert count_calls(folder) == before


@pytest.mark.parametrize("options", [(), STANDALONE])
def test_without_a_terminal_no_question_is_asked_and_yes_agrees(
    folder: Path, options: tuple[str, ...]
) -> None:
    before = count_calls(folder)
    without_yes = run_exthost(folder, "call", TOOL, "a=1", "--json", *options)
    error = json.loads(without_yes.stdout)["error"]
    assert (without_yes.returncode != 0, error["code"]) == (True, "X0354")
    assert "--yes" in error["help"] and count_calls(folder) == before
    with_yes = run_exthost(folder, "call", TOOL, "a=1", "--json", "--yes", *options)
    assert (with_yes.returncode, json.loads(with_yes.stdout)) == (0, {"a": 1})
    assert "[guard] asks: delete" in with_yes.stderr and "--yes" in with_yes.stderr
    assert count_calls(folder) == before + 1


def test_input_before_the_question_is_not_an_answer(folder: Path) -> None:
    with terminal(folder, (*EXTHOST, "call", TOOL, "a=1"), "--json") as screen:
        screen.press(b"y\n")
        screen.wait_for("[y/N]")
        screen.press(b"n\n")
        assert screen.end() != 0
        assert b"not confirmed" in screen.output


def test_the_terminal_is_asked_even_if_stdin_is_a_pipe(folder: Path) -> None:
    command = f"echo '{{\"a\": 5}}' | {' '.join(EXTHOST)} call {TOOL} --json --args -"
    with terminal(folder, ("/bin/sh", "-c"), command) as screen:
        screen.wait_for("[y/N]")
        screen.press(b"YES\n")
        assert screen.end() == 0
        assert b'{"a": 5}' in screen.output.rpartition(b"[y/N]")[2]


@pytest.mark.more
@pytest.mark.parametrize(("way", "key"), [((), b"y\n"), (STANDALONE, b"n\n")])
def test_a_rule_asks_the_person_at_the_terminal(
    tmp_path: Path, way: tuple[str, ...], key: bytes
) -> None:
    write_plugin(tmp_path / "plugins" / "tools", {"heard": str(tmp_path / "received")})
    rule = {"tools": "tools:*", "do": "ask", "reason": "look first"}
    discovery = {"search_paths": [str(tmp_path / "plugins")]}
    write_config(tmp_path, {"discovery": discovery, "rules": [rule]})
    with (
        shared_host(tmp_path),
        terminal(tmp_path, (*EXTHOST, "call", TOOL, "a=1", *way), "--json") as screen,
    ):
        screen.wait_for("[y/N]")
        assert count_calls(tmp_path) == 0
        screen.press(key)
        code = screen.end()
        shown = screen.output.decode()
    assert "rule 1 of the config: look first" in shown and 'arguments: {"a": 1}' in shown
    is_yes = key == b"y\n"
    assert count_calls(tmp_path) == is_yes and (code == 0) == is_yes
    assert ("X1842" in shown) != is_yes


def test_the_question_counts_the_arguments_it_leaves_out() -> None:
    event = {"tool_name": "t\u202e", "arguments": {"text": "x" * 10_000}}
    text = confirm_prompt.question_text(Confirmation("guard", "sure?", "before_tool_call", event))
    assert len(text) < 5000 and "and 6,012 more characters that are not shown" in text
    assert "\u202e" not in text and "tool: t\\u202e" in text


@pytest.mark.more
def test_no_question_is_asked_without_a_controlling_terminal(folder: Path) -> None:
    # stderr is a terminal, but /dev/tty cannot be opened in a new session: nobody can answer.
    primary, secondary = os.openpty()
    try:
        result = subprocess.run(
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
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "X0354" and "/dev/tty cannot be opened" in error["message"]
