"""Every snippet, command and output in the README and the docs is run and compared."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import groupby, zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faces.cli.cli_process import RUN_SECONDS, run_inside, running

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
FENCE = re.compile(r"^```(\S+)(?: title=(\S+))?\n(.*?)^```$", re.M | re.S)
RECORDING_PYTHON = Path(__file__).with_name("recording_python.py")


class Block(NamedTuple):
    language: str
    title: str
    text: str


Run = Callable[[str, Path], "subprocess.CompletedProcess[str]"]


def blocks(page: str) -> list[Block]:
    return [Block(*found) for found in FENCE.findall((ROOT / page).read_text())]


def unpack(shown: list[Block], folder: Path) -> None:
    """Write the blocks that are files, as a reader would."""
    for block in shown:
        if block.title:
            file = folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text)


def environment(*first: Path) -> dict[str, str]:
    """Return the environment of the tests with these folders and the installed programs first on
    PATH, and without options for a pytest that a page runs."""
    path = os.pathsep.join([*map(str, first), str(BIN), os.environ["PATH"]])
    return os.environ | {"PATH": path, "PYTEST_ADDOPTS": ""}


def run(command: str, folder: Path, *first: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment(*first),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


def run_line(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without a shell; inside this process if it is a plain verb of exthost."""
    program, *words = shlex.split(command)
    if program != "exthost" or words[0] in ("run", "gateway") or "|" in words:
        return run(command, folder)
    return run_inside(*words, cwd=folder, env=environment())


def play(console: str, folder: Path, run: Run = run_line) -> None:
    """Run each `$ command` of a console block and compare what it prints; … stands for anything."""
    for step in re.split(r"^\$ ", console, flags=re.M)[1:]:
        command, _, expected = step.partition("\n")
        done = run(command, folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        pattern = ".*".join(map(re.escape, expected.strip().split("…")))
        assert re.fullmatch(pattern, done.stdout.strip()), f"{command}\n{done.stdout}"


def test_every_snippet_of_the_readme_runs_and_prints_the_shown_output(tmp_path: Path) -> None:
    shown = blocks("README.md")
    unpack(shown, tmp_path)
    consoles = [block.text for block in shown if block.language == "console"]
    assert len(consoles) == 2
    for console in consoles:
        play(console, tmp_path, run)  # as a reader does, with the program that is installed
    for title in ("host.py", "blocking.py"):
        done = run(f"{shlex.quote(sys.executable)} {title}", tmp_path)
        assert (done.returncode, done.stdout) == (0, "HELLO\n"), done.stderr


PAGES = [
    "docs/tutorial.md",
    "docs/write-an-extension.md",
    "docs/gateway.md",
    "docs/trace.md",
    "docs/security.md",
    "docs/howto/editor-config.md",
    *(f"docs/dialects/{d}.md" for d in ("morphir", "nexo", "cigen", "roder", "synaps", "mcp")),
]


@pytest.mark.sampled
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_prints_the_output_on_the_page(page: str, tmp_path: Path) -> None:
    shown = blocks(page)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    unpack(shown, tmp_path)
    consoles = [block.text for block in shown if block.language == "console"]
    assert consoles
    for console in consoles:
        play(console, tmp_path)


@pytest.mark.parametrize("dialect", ["roder", "synaps"])
def test_the_messages_on_a_page_are_those_on_the_wire(dialect: str, tmp_path: Path) -> None:
    shown = blocks(f"docs/dialects/{dialect}.md")
    unpack(shown, tmp_path)
    [wire] = [block.text for block in shown if block.language == "wire"]
    program = tmp_path / "bin" / "python3"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{RECORDING_PYTHON.read_text()}")
    program.chmod(0o755)
    done = run("exthost call shout shout text=hi --json", tmp_path, program.parent)
    assert done.returncode == 0, done.stderr
    output = recorded_messages(program.with_name("record"))
    for line, received in zip_longest(re.split(r"\n(?=[→←])", wire), output, fillvalue="nothing"):
        # Long messages are wrapped on the page, so spaces do not count.
        pattern = ".*".join(map(re.escape, "".join(line.split()).split("…")))
        assert re.fullmatch(pattern, "".join(received.split())), f"{line}\n{received}"


def recorded_messages(record: Path) -> list[str]:
    """Return the messages, each with its direction, and with visible carriage returns. Host and
    extension take turns, so consecutive bytes in one direction are one message."""
    pieces = [line.split() for line in record.read_text().splitlines()]
    turns = groupby(pieces, key=lambda piece: piece[0])
    messages = [(way, "".join(piece[1] for piece in turn)) for way, turn in turns]
    return [
        f"{way} {bytes.fromhex(text).decode()}".replace("\r\n", r"\r\n") for way, text in messages
    ]


def test_every_command_of_the_operators_page_prints_the_output_on_the_page(tmp_path: Path) -> None:
    left = shutil.ignore_patterns("target")
    shutil.copytree(ROOT / "examples", tmp_path, dirs_exist_ok=True, ignore=left)
    consoles = [block.text for block in blocks("docs/operate.md") if block.language == "console"]
    assert len(consoles) == 3
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
