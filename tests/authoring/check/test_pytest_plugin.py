"""The pytest plugin for authors of extensions: the fixture `exthost_check`, which checks a program
in a test, and the option `--exthost-check FOLDER`, which makes a test of each broken rule.

The tests run pytest with the plugin in a project of its own. `bad_extension.py` is an extension
with one fault, which its last argument chooses.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.authoring.check.pytest_plugin import (
    _absolute,
    check_extension,
    find_folder,
)
from exthost.errors import ExthostError, UsageError
from tests.authoring.check.test_planted_faults import BAD

RUN_SECONDS = 150.0


def run_pytest(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest with the plugin in a folder."""
    plugins = ["-p", "no:cacheprovider", "-p", "exthost.authoring.check.pytest_plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )


@pytest.mark.more
def test_the_fixture_fails_with_the_report_and_the_option_makes_tests(
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
    quoted_args = ", ".join(f'"{word}"' for word in [*command[1:], "refuses"])
    (tmp_path / "ext" / "exthost.toml").write_text(
        f'[[extensions]]\nname = "bad"\ndialect = "morphir"\n'
        f'source = {{type = "process", command = "{sys.executable}", args = [{quoted_args}]}}\n'
    )
    result = run_pytest(tmp_path, "--exthost-check", "ext", "test_it.py")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "refused to initialize: no" in result.stdout
    assert "fix:" in result.stdout
    assert "2 failed, 3 passed" in result.stdout, result.stdout


@pytest.mark.more
def test_a_path_without_an_extension_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    result = run_pytest(tmp_path, "--exthost-check", "nowhere", "test_it.py")
    assert result.returncode == pytest.ExitCode.USAGE_ERROR, result.stdout + result.stderr
    assert "--exthost-check nowhere: " in result.stderr and "INTERNALERROR" not in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


@pytest.mark.parametrize("folder_name", ["project/tests", "project"])
def test_relative_paths_are_relative_to_the_test_file_or_the_root_folder(
    folder_name: str, tmp_path: Path
) -> None:
    folders = [tmp_path / "project" / "tests", tmp_path / "project"]
    folders[0].mkdir(parents=True)
    (tmp_path / folder_name / "ext.py").touch()
    assert find_folder([sys.executable, "ext.py"], folders) == tmp_path / folder_name
    assert find_folder("./ext.py", folders) == tmp_path / folder_name
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
    result = run_pytest(tmp_path, "project/tests/test_it.py")
    assert result.returncode == 0 and "2 passed" in result.stdout, result.stdout + result.stderr


def test_an_argument_that_is_too_long_for_a_path_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "text.py").touch()
    command = ["text.py", "x=1;" * 2000]
    assert find_folder(command, [tmp_path / "no", tmp_path]) == tmp_path
    assert _absolute(command, tmp_path) == [str(tmp_path / "text.py"), command[1]]


@pytest.mark.parametrize(
    ("target", "options", "code"),
    [
        ("./ext", {"call": ["shout"]}, "X1338"),
        ("./ext", {"timeout": "5s"}, "X1318"),
        ("./ext", {"timeout": float("nan")}, "X1318"),
        (None, {"dialect": "mcp"}, "X1310"),
        ([], {"dialect": "mcp"}, "X1310"),
        (["x"], {}, "X1310"),
        (Path("/nowhere"), {}, "X1206"),
    ],
)
def test_wrong_arguments_are_usage_errors(target: Any, options: dict[str, Any], code: str) -> None:
    with pytest.raises(ExthostError) as caught:
        check_extension(target, **options)
    assert caught.value.code == code


async def test_a_check_in_an_event_loop_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught:
        check_extension("./ext")
    assert caught.value.code == "X1314"


def test_a_target_may_be_a_path_object(tmp_path: Path) -> None:
    (tmp_path / "ext.py").touch()
    assert find_folder(Path("ext.py"), [tmp_path / "no", tmp_path]) == tmp_path
    assert _absolute([Path("ext.py")], tmp_path) == [str(tmp_path / "ext.py")]
