"""New extensions: found by a search, and named neither by the config nor by the lock.

`[trust] new` says whether they are started. Without that setting they are started if there is no
lock, and refused if there is one.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from exthost.config.discovery.configfile import read_config
from exthost.faces.cli.first_use import say_lock
from tests.extensions.nexo_tree import write_plugin
from tests.faces.cli.cli_process import run_inside

REFUSED = 4  # the exit code for an extension that is not started


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the extension `weather`, which a search finds. `configure` writes the
    config."""
    write_plugin(tmp_path / "found" / "weather", "weather")
    return tmp_path


def configure(root: Path, text: str = "") -> None:
    """Write a config that finds the extension `weather`, with this text at its end."""
    search = '[discovery]\nsearch_paths = ["found"]\n'
    (root / "exthost.toml").write_text(search + text)


def start_error_code(root: Path) -> str:
    """Start the extension; return the code of its error, or "" if it was started."""
    result = run_inside("inspect", "weather", "--json", cwd=root)
    return "" if result.returncode == 0 else str(json.loads(result.stdout)["error"]["code"])


def test_without_a_lock_a_new_extension_is_started(root: Path) -> None:
    configure(root)
    assert start_error_code(root) == ""


def test_with_a_lock_a_new_extension_is_refused_until_it_is_locked(root: Path) -> None:
    configure(root)
    (root / "exthost.lock").write_text("version = 1\n")
    assert start_error_code(root) == "X1825"
    result = run_inside("lock", "weather", cwd=root)
    assert result.returncode == 0, result.stderr
    assert start_error_code(root) == ""
    assert "package = " in (root / "exthost.lock").read_text()


@pytest.mark.parametrize(
    "naming",
    [
        "[overrides.weather]\nstart = 'lazy'\n",
        'allowlist = ["weather"]\n',  # a key of [discovery]
    ],
    ids=["overrides", "allowlist"],
)
def test_an_extension_that_the_config_names_is_not_new(root: Path, naming: str) -> None:
    configure(root, naming + '[trust]\nnew = "refuse"\n')
    assert start_error_code(root) == ""


def test_refuse_and_allow_apply_with_and_without_a_lock(root: Path) -> None:
    configure(root, '[trust]\nnew = "refuse"\n')
    assert start_error_code(root) == "X1825"
    configure(root, '[trust]\nnew = "allow"\n')
    (root / "exthost.lock").write_text("version = 1\n")
    assert start_error_code(root) == ""


def test_with_a_lock_that_cannot_be_read_nothing_new_is_started(root: Path) -> None:
    configure(root, '[trust]\nlock = "warn"\n')
    (root / "exthost.lock").write_text("<<<<<<< ours\n")
    assert start_error_code(root) == "X1825"


def test_with_an_enforced_lock_that_is_missing_nothing_new_is_started(root: Path) -> None:
    configure(root, '[trust]\nlock = "enforce"\n')
    assert start_error_code(root) == "X1825"


class Person:
    """Answers the questions at the terminal. `answers` are the next answers: True is yes, None is
    no answer. `questions` is the number of questions so far, and `before_answer` is called before
    each answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[bool | None] = []
        self.before_answer: Callable[[], object] = lambda: None
        self.questions = 0
        monkeypatch.setattr("exthost.faces.cli.first_use.ask_on_terminal", self._answer)

    def _answer(self, question: str) -> bool | None:
        self.questions += 1
        self.before_answer()
        return self.answers.pop(0)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(monkeypatch)


def test_ask_starts_a_new_extension_after_a_yes_and_remembers_it(
    root: Path, person: Person
) -> None:
    configure(root, '[trust]\nnew = "ask"\n')
    for answer, exit_code in ((None, REFUSED), (False, REFUSED), (True, 0)):
        person.answers = [answer]
        result = run_inside("inspect", "weather", cwd=root)
        assert result.returncode == exit_code, result.stderr
    assert person.questions == 3
    assert run_inside("inspect", "weather", cwd=root).returncode == 0
    assert "refused" not in run_inside("list", cwd=root).stdout
    assert person.questions == 3, "after a yes there is no further question"


def test_ask_describes_an_extension_and_asks_again_after_a_change(
    root: Path, person: Person
) -> None:
    configure(root, '[trust]\nnew = "ask"\n')
    person.answers = [True, False]
    assert run_inside("inspect", "weather", cwd=root).returncode == 0
    manifest = root / "found" / "weather" / "plugin.toml"
    manifest.write_text(manifest.read_text() + "# another package\n")
    result = run_inside("inspect", "weather", cwd=root)
    assert result.returncode == REFUSED and person.questions == 2
    for part in ("plugin.toml", "no sandbox", "runs: "):
        assert part in result.stderr


def test_a_yes_is_not_for_what_changed_after_the_question(root: Path, person: Person) -> None:
    configure(root, '[trust]\nnew = "ask"\n')
    manifest = root / "found" / "weather" / "plugin.toml"
    shown = manifest.read_text()
    person.answers = [True, False]
    person.before_answer = lambda: manifest.write_text(shown + "# another package\n")
    result = run_inside("inspect", "weather", cwd=root)
    assert result.returncode == REFUSED and "changed after it was shown" in result.stderr
    person.before_answer = lambda: None
    assert run_inside("inspect", "weather", cwd=root).returncode == REFUSED
    assert person.questions == 2


def test_without_a_terminal_ask_refuses(root: Path) -> None:
    configure(root, '[trust]\nnew = "ask"\n')
    result = run_inside("inspect", "weather", cwd=root)
    assert result.returncode == REFUSED
    assert "not a terminal" in result.stderr and "X1825" in result.stderr


def test_a_host_says_at_its_start_how_the_lock_applies(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(root)
    say_lock(read_config(root / "exthost.toml"))
    assert capsys.readouterr().err == ""
    (root / "exthost.lock").write_text("version = 1\n[extensions.weather]\n")
    say_lock(read_config(root / "exthost.toml"))
    assert capsys.readouterr().err == "exthost.lock is enforced: 1 record\n"
    configure(root, '[trust]\nlock = "warn"\n')
    say_lock(read_config(root / "exthost.toml"))
    assert "differences reported" in capsys.readouterr().err
