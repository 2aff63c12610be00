"""Tests of how a verb finds the extension that its arguments name.

An extension is a name in the config, a path, or a command after `--`. `--dialect` names the
protocol that it speaks. The tests also check the commands that errors suggest. They start no
extension.
"""

import shlex
from pathlib import Path
from unittest import mock

import pytest

from exthost.faces.cli import doctor
from tests.faces.cli.cli_process import run_inside

# Verbs with an extension as their target.
TARGETED = [("call", "named", "x"), ("inspect", "named"), ("check", "named"), ("dev", "named")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A config with two extensions, one of which names its dialect."""
    (tmp_path / "exthost.toml").write_text(
        """
        [[extensions]]
        name = "named"
        dialect = "nexo"
        source = { type = "process", command = "no-such-program" }

        [[extensions]]
        name = "unnamed"
        source = { type = "process", command = "no-such-program" }
        """
    )
    return tmp_path


@pytest.mark.parametrize("arguments", [*TARGETED, ("tools", "named")])
def test_a_dialect_that_contradicts_the_config_is_refused(
    arguments: tuple[str, ...], folder: Path
) -> None:
    result = run_inside(*arguments, "--dialect", "mcp", cwd=folder)
    assert result.returncode == 2
    assert "--dialect mcp, but named speaks nexo by" in result.stderr
    assert "exthost.toml" in result.stderr and 'dialect = "mcp"' in result.stderr


def test_the_default_dialect_is_called_the_default(folder: Path) -> None:
    result = run_inside("inspect", "unnamed", "--dialect", "mcp", cwd=folder)
    assert result.returncode == 2
    assert "unnamed speaks morphir by default" in result.stderr


def test_the_dialect_of_the_config_may_be_repeated(folder: Path) -> None:
    result = run_inside("tools", "named", "--dialect", "nexo", cwd=folder)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("arguments", [*TARGETED, ("call", "x"), ("check", "--", "true")])
def test_an_unknown_dialect_is_a_usage_error(arguments: tuple[str, ...], folder: Path) -> None:
    result = run_inside(arguments[0], "--dialect", "mpc", *arguments[1:], cwd=folder)
    assert result.returncode == 2
    assert "mpc" in result.stderr and "did you mean" in result.stderr


@pytest.mark.parametrize("arguments", [("call", "shout"), ("tools",)])
def test_a_dialect_without_a_command_or_target_is_refused(
    arguments: tuple[str, ...], folder: Path
) -> None:
    result = run_inside(*arguments, "--dialect", "mcp", cwd=folder)
    assert result.returncode == 2
    assert "--dialect mcp does not apply to the extensions of a config" in result.stderr


@pytest.mark.parametrize("verb", ["info", "doctor"])
def test_verbs_without_the_option_find_an_extension_as_well(verb: str, folder: Path) -> None:
    result = run_inside(verb, "named", cwd=folder)
    # The command of the extension, which an error about an unknown name would not have.
    assert "no-such-program" in result.stdout, result.stderr


# A name that a shell would split, and that contains a command that a shell would run.
ODD_NAME = "a b $(touch c)"


@pytest.mark.parametrize("arguments", [("inspect", ODD_NAME), ("doctor", ODD_NAME)])
def test_the_suggested_enable_command_is_quoted_for_the_shell(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "exthost.toml").write_text(
        f"[[extensions]]\nname = '{ODD_NAME}'\nenabled = false\n"
        "source = { type = 'process', command = 'true' }\n"
    )
    result = run_inside(*arguments, cwd=tmp_path)
    assert _suggested_command(result.stderr, "exthost enable")[2:] == [ODD_NAME]


def test_the_suggested_config_option_is_quoted_for_the_shell(tmp_path: Path) -> None:
    folder = tmp_path / ODD_NAME
    folder.mkdir()
    (folder / "exthost.toml").write_text("")
    result = run_inside("list", folder / "exthost.toml", cwd=tmp_path)
    assert _suggested_command(result.stderr, "--config")[1:] == [str(folder / "exthost.toml")]
    (folder / "exthost.toml").write_text(
        "".join(
            f"[[extensions]]\nname = '{name}'\nsource = {{ type = 'process', command = 'true' }}\n"
            for name in ("one", "two")
        )
    )
    result = run_inside("inspect", folder, cwd=tmp_path)
    assert _suggested_command(result.stderr, "--config")[1:] == [str(folder / "exthost.toml")]


def test_the_commands_that_doctor_suggests_are_quoted_for_the_shell(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").write_text(
        f"[[extensions]]\nname = '{ODD_NAME}'\nsource = {{ type = 'process', command = 'true' }}\n"
    )
    states = {ODD_NAME: {"state": "failed", "reason": "it ended"}}
    with mock.patch.object(doctor, "fetch_running_states", return_value=states):
        result = run_inside("doctor", cwd=tmp_path)
    assert _suggested_command(result.stdout, "exthost logs")[2] == ODD_NAME
    assert _suggested_command(result.stdout, "exthost restart")[2] == ODD_NAME


def _suggested_command(output: str, start: str) -> list[str]:
    """Return the suggested command that begins with `start`, split as in a shell."""
    line = next(line for line in output.splitlines() if start in line)
    return shlex.split(line[line.index(start) :])


def test_an_argument_that_is_too_long_for_a_path_is_no_error(tmp_path: Path) -> None:
    command = ("--", "python3", "-c", "x=1;" * 2000)
    result = run_inside("inspect", "--dialect", "roder", *command, cwd=tmp_path)
    assert result.returncode == 5 and "File name too long" not in result.stderr
