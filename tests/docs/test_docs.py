"""What the README and the docs show is run: every snippet, every command, every output."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.running import running

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
FENCE = re.compile(r"^```(\S+)(?: title=(\S+))?\n(.*?)^```$", re.M | re.S)
RUN_SECONDS = 30


class Block(NamedTuple):
    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    return [Block(*found) for found in FENCE.findall((ROOT / page).read_text())]


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


def play(console: str, folder: Path) -> None:
    """Run each `$ command` of a console block and compare what it prints; … stands for anything."""
    for step in re.split(r"^\$ ", console, flags=re.M)[1:]:
        command, _, expected = step.partition("\n")
        done = run(command, folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        pattern = ".*".join(map(re.escape, expected.strip().split("…")))
        assert re.fullmatch(pattern, done.stdout.strip()), f"{command}\n{done.stdout}"


def test_every_snippet_of_the_readme_runs_and_prints_what_it_shows(tmp_path: Path) -> None:
    shown = blocks("README.md")
    for block in shown:
        if block.title:
            (tmp_path / block.title).write_text(block.text)
    consoles = [block.text for block in shown if block.language == "console"]
    assert len(consoles) == 2
    for console in consoles:
        play(console, tmp_path)
    for title in ("host.py", "blocking.py"):
        done = run(f"{shlex.quote(sys.executable)} {title}", tmp_path)
        assert (done.returncode, done.stdout) == (0, "HELLO\n"), done.stderr


PAGES = [
    "docs/write-an-extension.md",
    "docs/gateway.md",
    *(f"docs/dialects/{d}.md" for d in ("nexo", "cigen", "roder", "synaps", "mcp")),
]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_prints_what_it_shows(page: str) -> None:
    consoles = [block.text for block in blocks(page) if block.language == "console"]
    assert consoles
    for console in consoles:
        play(console, ROOT)


def test_every_command_of_the_operators_page_prints_what_it_shows(tmp_path: Path) -> None:
    left = shutil.ignore_patterns("target")
    shutil.copytree(ROOT / "examples", tmp_path, dirs_exist_ok=True, ignore=left)
    consoles = [block.text for block in blocks("docs/operate.md") if block.language == "console"]
    assert len(consoles) == 2
    with running(tmp_path):
        for console in consoles:
            play(console, tmp_path)


def test_every_link_between_our_pages_leads_somewhere() -> None:
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_names_every_verb_s_exit_code() -> None:
    from exthost import errors

    text = (ROOT / "README.md").read_text()
    codes = {getattr(errors, name).exit_code for name in errors.__all__ if name != "Evidence"}
    for code in codes:
        assert re.search(rf"\b{code} ", text), code
