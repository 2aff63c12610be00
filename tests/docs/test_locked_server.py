"""The commands of the how-to `docs/howto/locked-server.md` do what the page says.

It adds an MCP server from npm to a config, locks it, and approves a change. It needs npm and its
registry.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.test_docs import environment, read_blocks

PAGE = "docs/howto/locked-server.md"
# The limit of the commands of one block, which download packages.
RUN_SECONDS = 280

pytestmark = pytest.mark.more


def run_shell(commands: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", "-c", commands],
        cwd=folder,
        env=environment() | {"HOME": str(folder.parent / "home")},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    if shutil.which("npx") is None:
        pytest.skip("npx is not installed")
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    shown = [block.text for block in read_blocks(PAGE) if block.language == "sh"]
    outputs = []
    for commands in shown:
        result = run_shell(commands, folder)
        assert result.returncode == 0, (commands, result.stdout, result.stderr)
        outputs.append(result.stdout + result.stderr)
    add, lock, _, use, differs, approve, doctor = outputs
    assert "added" in add and "files: locked" in lock
    text = (folder / "exthost.lock").read_text()
    assert 'integrity = "sha512-' in text and "npm:@modelcontextprotocol" in text
    assert str(tmp_path) not in text
    assert "files: locked" in use
    assert "exit code 4" in differs and "new limit call 10" in differs
    assert "approved: files" in approve and "files: locked" in approve
    assert "weak point" in doctor and "permissions = {}" in doctor
