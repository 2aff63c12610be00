"""Facts about paths of this machine, from which `exthost learn` decides what it may propose.

A path that looks like a secret, or a file that only its owner can read, is never proposed as a
grant, nor is a file of another project, such as another repository of git.
"""

from pathlib import Path

import pytest

from exthost.launch.path_facts import MachinePaths

FACTS = MachinePaths()


@pytest.mark.parametrize(
    ("path", "description"),
    [
        ("/home/a/.SSH/config", "an SSH key or its settings"),
        ("/home/a/.gnupg", "a keyring"),
        ("/home/a/.config/chromium/x", "a profile of a browser"),
        ("/home/a/.aws/x", "credentials"),
        ("/srv/app/password.txt", "its name is that of a secret"),
        ("/usr", "a folder with files of many programs"),
        ("/srv/app/data", ""),
    ],
)
def test_a_secret_is_described_by_its_path(path: str, description: str) -> None:
    assert FACTS.secret(path) == description


def test_a_file_that_only_its_owner_reads_is_hidden(tmp_path: Path) -> None:
    own, shared = tmp_path / "own.txt", tmp_path / "shared.txt"
    for path, mode in ((own, 0o600), (shared, 0o644)):
        path.touch()
        path.chmod(mode)
    assert FACTS.hidden(str(own)) == str(own) and FACTS.hidden(str(shared)) == ""
    assert FACTS.hidden(str(tmp_path / ".vault" / "x")) == str(tmp_path / ".vault")


def test_the_files_of_a_repository_are_harmless(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").touch()
    (tmp_path / "data").mkdir()
    assert FACTS.secret_inside(str(tmp_path)) == ""
    (tmp_path / ".env").touch()
    assert FACTS.secret_inside(str(tmp_path)) == ".env"
    assert FACTS.secret_inside(str(tmp_path / "missing")) == ""


def test_the_project_of_a_path_is_the_nearest_folder_with_a_file_that_marks_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "home" / "project"
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert FACTS.project(str(inner)) == ""
    (tmp_path / "home" / ".git").mkdir()  # a home folder is not a project
    assert FACTS.project(str(inner)) == ""
    (project / "go.mod").touch()
    assert FACTS.project(str(inner)) == str(project) == FACTS.project(str(project))
