"""How a verb finds the extension that its arguments name. Nothing is started here."""

import shlex
from pathlib import Path
from unittest import mock

import pytest

from exthost.faces.cli import doctor
from tests.faces.cli.cli_process import run_inside

TARGETED = [("call", "named", "x"), ("inspect", "named"), ("check", "named"), ("dev", "named")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
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


@pytest.mark.parametrize("words", [*TARGETED, ("tools", "named")])
def test_another_dialect_than_that_of_the_config_is_refused(
    words: tuple[str, ...], folder: Path
) -> None:
    done = run_inside(*words, "--dialect", "mcp", cwd=folder)
    assert done.returncode == 2
    assert "--dialect mcp, but named speaks nexo by" in done.stderr
    assert "exthost.toml" in done.stderr and 'dialect = "mcp"' in done.stderr


def test_the_default_dialect_is_called_the_default(folder: Path) -> None:
    done = run_inside("inspect", "unnamed", "--dialect", "mcp", cwd=folder)
    assert done.returncode == 2
    assert "unnamed speaks morphir by default" in done.stderr


def test_the_dialect_of_the_config_may_be_repeated(folder: Path) -> None:
    done = run_inside("tools", "named", "--dialect", "nexo", cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [*TARGETED, ("call", "x"), ("check", "--", "true")])
def test_a_dialect_that_does_not_exist_is_a_mistake_of_usage(
    words: tuple[str, ...], folder: Path
) -> None:
    done = run_inside(words[0], "--dialect", "mpc", *words[1:], cwd=folder)
    assert done.returncode == 2
    assert "mpc" in done.stderr and "did you mean" in done.stderr


@pytest.mark.parametrize("words", [("call", "shout"), ("tools",)])
def test_a_dialect_without_a_command_or_target_is_refused(
    words: tuple[str, ...], folder: Path
) -> None:
    done = run_inside(*words, "--dialect", "mcp", cwd=folder)
    assert done.returncode == 2
    assert "--dialect mcp does not apply to the extensions of a config" in done.stderr


@pytest.mark.parametrize("verb", ["info", "doctor"])
def test_verbs_without_the_option_find_an_extension_as_well(verb: str, folder: Path) -> None:
    done = run_inside(verb, "named", cwd=folder)
    assert "named" in done.stdout + done.stderr and "Traceback" not in done.stderr


# A name that a shell would split, and would run a part of.
ODD_NAME = "a b $(touch c)"


@pytest.mark.parametrize("words", [("inspect", ODD_NAME), ("doctor", ODD_NAME)])
def test_advice_to_switch_an_extension_on_can_be_pasted(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "exthost.toml").write_text(
        f"[[extensions]]\nname = '{ODD_NAME}'\nenabled = false\n"
        "source = { type = 'process', command = 'true' }\n"
    )
    done = run_inside(*words, cwd=tmp_path)
    assert _advised_words(done.stderr, "exthost enable")[2:] == [ODD_NAME]


def test_advice_to_name_a_config_can_be_pasted(tmp_path: Path) -> None:
    folder = tmp_path / ODD_NAME
    folder.mkdir()
    (folder / "exthost.toml").write_text("")
    listed = run_inside("list", folder / "exthost.toml", cwd=tmp_path)
    assert _advised_words(listed.stderr, "--config")[1:] == [str(folder / "exthost.toml")]
    (folder / "exthost.toml").write_text(
        "".join(
            f"[[extensions]]\nname = '{name}'\nsource = {{ type = 'process', command = 'true' }}\n"
            for name in ("one", "two")
        )
    )
    inspected = run_inside("inspect", folder, cwd=tmp_path)
    assert _advised_words(inspected.stderr, "--config")[1:] == [str(folder / "exthost.toml")]


def test_the_advice_of_doctor_for_a_running_host_can_be_pasted(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").write_text(
        f"[[extensions]]\nname = '{ODD_NAME}'\nsource = {{ type = 'process', command = 'true' }}\n"
    )
    states = {ODD_NAME: {"state": "failed", "reason": "it ended"}}
    with mock.patch.object(doctor, "fetch_running_states", return_value=states):
        done = run_inside("doctor", cwd=tmp_path)
    assert _advised_words(done.stdout, "exthost logs")[2] == ODD_NAME
    assert _advised_words(done.stdout, "exthost restart")[2] == ODD_NAME


def _advised_words(output: str, start: str) -> list[str]:
    """Return the words of the command in the output, as a shell reads them."""
    line = next(line for line in output.splitlines() if start in line)
    return shlex.split(line[line.index(start) :])
