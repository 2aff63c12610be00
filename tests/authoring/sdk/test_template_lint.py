"""Linters find nothing in a new project of `exthost new`: eslint in TypeScript, clippy in Rust.

`test_scaffold` tests gofmt, rustfmt, and `tsc --strict`, which builds a project in TypeScript. A
project is made for each dialect (the protocol that it speaks).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from exthost_sdk.scaffold import create

from tests.authoring.sdk.test_scaffold import BUILD_SECONDS, DIALECTS

# Where `make node` installs eslint and TypeScript.
NODE_MODULES = Path(sys.prefix, "node", "node_modules")

ESLINT_CONFIG = """
import eslint from "@eslint/js";
import typescript from "typescript-eslint";

const names = ["process", "console", "Buffer", "URL"];
const globals = Object.fromEntries(names.map((name) => [name, "readonly"]));
export default typescript.config(
  eslint.configs.recommended, ...typescript.configs.strict, { languageOptions: { globals } },
);
"""


def run(*command: str, cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, with some more environment variables."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )


@pytest.mark.more
def test_eslint_finds_nothing_in_new_projects(tmp_path: Path) -> None:
    if not (NODE_MODULES / "typescript-eslint").exists():
        pytest.skip("eslint is not installed: `make node` installs it")
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    (tmp_path / "eslint.config.mjs").write_text(ESLINT_CONFIG)
    for dialect in DIALECTS:
        create(str(tmp_path / dialect), dialect, language="typescript")
    result = run("node_modules/.bin/eslint", "--max-warnings=0", *DIALECTS, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.more
def test_clippy_finds_nothing_in_new_projects(tmp_path: Path) -> None:
    if shutil.which("cargo-clippy") is None:
        pytest.skip("clippy is not installed")
    target = str(tmp_path / "target")  # shared, so that crates are compiled once
    for dialect in DIALECTS:
        project = tmp_path / dialect
        create(str(project), dialect, language="rust")
        command = ("cargo", "clippy", "--quiet", "--", "-D", "warnings")
        result = run(*command, cwd=project, CARGO_TARGET_DIR=target)
        if "failed to download" in result.stderr:
            pytest.skip("the registry of crates cannot be reached")
        assert result.returncode == 0, result.stderr
