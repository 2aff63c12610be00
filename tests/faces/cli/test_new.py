"""`exthost new`, and a folder with a config of its own as the target of other verbs."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import run_inside

ENVIRONMENT = os.environ | {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
}


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "roder", "mcp"])
def test_a_new_extension_is_called_from_its_folder(dialect: str, tmp_path: Path) -> None:
    done = run_inside("new", "fresh", "--dialect", dialect, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fresh" / "README.md").is_file()
    called = run_inside("call", "fresh", "shout", "text=hi", cwd=tmp_path, env=ENVIRONMENT)
    assert called.returncode == 0, called.stderr
    assert "HI" in called.stdout


@pytest.mark.parametrize("dialect", ["nexo", "synaps"])
def test_inspect_shows_the_hooks_of_a_new_extension(dialect: str, tmp_path: Path) -> None:
    run_inside("new", "fresh", "--dialect", dialect, "--template", "hook", cwd=tmp_path)
    done = run_inside("inspect", "fresh", cwd=tmp_path, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert "hooks: before_tool_call" in done.stderr


def test_a_folder_with_several_extensions_names_them(tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    entry = '[[extensions]]\nname = "{}"\nsource = {{type = "process", command = "true"}}\n'
    (tmp_path / "both" / "exthost.toml").write_text(entry.format("one") + entry.format("two"))
    done = run_inside("inspect", "both", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert "one, two" in json.loads(done.stdout)["error"]["message"]


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fresh").mkdir()
    done = run_inside("new", "fresh", "--dialect", "mcp", cwd=tmp_path)
    assert done.returncode == 2
    assert "X1329" in done.stderr and "already exists" in done.stderr
