"""Tests of `exthost new NAME --dialect D`, which writes the folder of a new extension.

The extension runs at once; one in a compiled language must be built first. Other verbs accept the
folder, which has a config, as the extension.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import run_inside

# PATH begins with the folder of this interpreter, so that `python3` can import exthost.
ENVIRONMENT = os.environ | {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
}


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "roder", "mcp"])
def test_a_new_extension_is_called_from_its_folder(dialect: str, tmp_path: Path) -> None:
    result = run_inside("new", "toy", "--dialect", dialect, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "toy" / "README.md").is_file()
    result = run_inside("call", "toy", "shout", "text=hi", cwd=tmp_path, env=ENVIRONMENT)
    assert result.returncode == 0, result.stderr
    assert "HI" in result.stdout


@pytest.mark.parametrize("dialect", ["nexo", "synaps"])
def test_inspect_shows_the_hooks_of_a_new_extension(dialect: str, tmp_path: Path) -> None:
    run_inside("new", "toy", "--dialect", dialect, "--template", "hook", cwd=tmp_path)
    result = run_inside("inspect", "toy", cwd=tmp_path, env=ENVIRONMENT)
    assert result.returncode == 0, result.stderr
    assert "hooks: before_tool_call" in result.stderr


def test_the_error_for_a_folder_with_several_extensions_names_them(tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    entry = '[[extensions]]\nname = "{}"\nsource = {{type = "process", command = "true"}}\n'
    (tmp_path / "both" / "exthost.toml").write_text(entry.format("one") + entry.format("two"))
    result = run_inside("inspect", "both", "--json", cwd=tmp_path)
    assert result.returncode == 2
    assert "one, two" in json.loads(result.stdout)["error"]["message"]


def test_a_name_of_an_existing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    result = run_inside("new", "toy", "--dialect", "mcp", cwd=tmp_path)
    assert result.returncode == 2
    assert "X1329" in result.stderr and "already exists" in result.stderr


@pytest.mark.parametrize(
    ("language", "build"),
    [
        ("go", "go build"),
        ("rust", "cargo build --release"),
        ("typescript", "npm install && npm run build"),
    ],
)
def test_new_prints_how_a_compiled_program_is_built(
    language: str, build: str, tmp_path: Path
) -> None:
    result = run_inside("new", "toy", "--dialect", "roder", "--lang", language, cwd=tmp_path)
    first_line, last_line = result.stderr.splitlines()
    assert first_line.startswith("build it: (cd toy && ") and build in first_line
    assert last_line.startswith("try it: exthost inspect toy")


@pytest.mark.parametrize(
    ("dialect", "language", "is_packed"),
    [("mcp", "python", True), ("mcp", "go", True), ("mcp", "sh", False), ("nexo", "go", False)],
)
def test_the_readme_names_pack_only_where_it_works(
    dialect: str, language: str, is_packed: bool, tmp_path: Path
) -> None:
    new = ("new", "toy", "--dialect", dialect, "--lang", language)
    assert run_inside(*new, cwd=tmp_path).returncode == 0
    assert ("exthost pack" in (tmp_path / "toy" / "README.md").read_text()) is is_packed


def test_pack_says_which_programs_a_bundle_contains(tmp_path: Path) -> None:
    run_inside("new", "toy", "--dialect", "mcp", "--lang", "sh", cwd=tmp_path)
    result = run_inside("pack", "toy", cwd=tmp_path)
    assert result.returncode == 2 and "X1902" in result.stderr
    assert "a program in Python, TypeScript, JavaScript, Go or Rust" in result.stderr


@pytest.mark.parametrize("language", ["go", "rust"])
def test_a_program_that_is_not_built_is_named_with_its_build_command(
    language: str, tmp_path: Path
) -> None:
    run_inside("new", "toy", "--dialect", "roder", "--lang", language, cwd=tmp_path)
    result = run_inside("inspect", "toy", "--json", cwd=tmp_path, env=ENVIRONMENT)
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "X0401" and "it is not built yet" in error["message"]
    assert error["help"].startswith("build it: cd ") and " build" in error["help"]
