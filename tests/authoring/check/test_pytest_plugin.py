"""Checks as tests: the fixture, and a test for each rule."""

import subprocess
import sys
from pathlib import Path

import pytest

from exthost.authoring.check.pytest_plugin import find_folder
from tests.authoring.check.test_planted_faults import BAD

RUN_SECONDS = 150.0


def run_pytest(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    plugins = ["-p", "no:cacheprovider", "-p", "exthost.authoring.check.pytest_plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )


@pytest.mark.more
def test_the_fixture_fails_with_the_report_and_options_make_a_test_of_each_rule(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-S", "-E", str(BAD), "morphir"]
    (tmp_path / "test_it.py").write_text(
        "def test_good(exthost_check):\n"
        f"    assert exthost_check({[*command, 'none']}, dialect='morphir').ok\n"
        "def test_bad(exthost_check):\n"
        f"    exthost_check({[*command, 'refuses']}, dialect='morphir')\n"
    )
    (tmp_path / "ext").mkdir()
    words = ", ".join(f'"{word}"' for word in [*command[1:], "refuses"])
    (tmp_path / "ext" / "exthost.toml").write_text(
        f'[[extensions]]\nname = "bad"\ndialect = "morphir"\n'
        f'source = {{type = "process", command = "{sys.executable}", args = [{words}]}}\n'
    )
    done = run_pytest(tmp_path, "--exthost-check", "ext", "test_it.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "refused to initialize: no" in done.stdout
    assert "fix:" in done.stdout
    assert "2 failed, 3 passed" in done.stdout, done.stdout


def test_a_path_without_an_extension_is_an_error_of_usage(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    done = run_pytest(tmp_path, "--exthost-check", "nowhere", "test_it.py")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
    assert "--exthost-check nowhere: " in done.stderr and "INTERNALERROR" not in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("place", ["project/tests", "project"])
def test_paths_are_those_of_the_test_file_or_of_the_root_folder(place: str, tmp_path: Path) -> None:
    folders = [tmp_path / "project" / "tests", tmp_path / "project"]
    folders[0].mkdir(parents=True)
    (tmp_path / place / "ext.py").touch()
    assert find_folder([sys.executable, "ext.py"], folders) == tmp_path / place
    assert find_folder("./ext.py", folders) == tmp_path / place
    assert find_folder("nowhere", folders) == folders[0]


@pytest.mark.more
def test_the_fixture_works_from_any_current_folder(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "tests").mkdir(parents=True)
    (project / "pytest.ini").write_text("[pytest]\n")
    (project / "root.py").write_bytes(BAD.read_bytes())
    (project / "tests" / "beside.py").write_bytes(BAD.read_bytes())
    (project / "tests" / "test_it.py").write_text(
        f"COMMAND = [{sys.executable!r}, '-S', '-E']\n"
        "WORDS = ['morphir', 'none']\n"
        "def test_beside(exthost_check):\n"
        "    report = exthost_check([*COMMAND, 'beside.py', *WORDS], dialect='morphir')\n"
        "    assert report.extension == 'beside'\n"
        "def test_root(exthost_check):\n"
        "    exthost_check([*COMMAND, './root.py', *WORDS], dialect='morphir')\n"
    )
    done = run_pytest(tmp_path, "project/tests/test_it.py")
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr
