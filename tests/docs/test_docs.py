"""The programs and commands in the README and the docs run, and print the output on the page.

The kinds of code blocks on a page are: a file (with `title=NAME`), which is written into a folder;
a `console` block with `$ command` lines and their output, in which … stands for any text; and a
`wire` block with the messages between host and extension. Other modules use `read_blocks` and
`write_files`.
"""

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

import exthost
from exthost import errors
from exthost.faces.cli.verbs import EXIT_CODES
from tests.faces.cli.cli_process import RUN_SECONDS, host_process, run_inside

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
FENCE = re.compile(r"^```(\S+)(?: title=(\S+))?\n(.*?)^```$", re.M | re.S)
# A program that takes the place of python3 and records the messages of an extension.
RECORDING_PYTHON = Path(__file__).with_name("recording_python.py")


class Block(NamedTuple):
    """A code block of a page; a block with a title is a file of this name."""

    language: str
    title: str
    text: str


Run = Callable[[str, Path], "subprocess.CompletedProcess[str]"]


def read_blocks(page: str) -> list[Block]:
    """Return the code blocks of a page."""
    return [Block(*groups) for groups in FENCE.findall((ROOT / page).read_text())]


def write_files(blocks: list[Block], folder: Path) -> None:
    """Write the blocks that are files into a folder."""
    for block in blocks:
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
    """Run a command in a shell, with these folders first on PATH."""
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
    """Run a command in this process if it is a verb of exthost without a pipe, else in a shell."""
    program, *arguments = shlex.split(command)
    if program != "exthost" or arguments[0] in ("run", "gateway") or "|" in arguments:
        return run(command, folder)
    return run_inside(*arguments, cwd=folder, env=environment())


def check_console(console: str, folder: Path, run: Run = run_line) -> None:
    """Run each `$ command` of a console block and compare its output with the block, in which …
    stands for any text."""
    for step in re.split(r"^\$ ", console, flags=re.M)[1:]:
        command, _, expected = step.partition("\n")
        result = run(command, folder)
        assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
        pattern = ".*".join(map(re.escape, expected.strip().split("…")))
        assert re.fullmatch(pattern, result.stdout.strip()), f"{command}\n{result.stdout}"


@pytest.mark.more
def test_every_snippet_of_the_readme_runs_and_prints_the_shown_output(tmp_path: Path) -> None:
    blocks = read_blocks("README.md")
    write_files(blocks, tmp_path)
    consoles = [block.text for block in blocks if block.language == "console"]
    assert len(consoles) == 2  # the number of console blocks in the README
    for console in consoles:
        check_console(console, tmp_path, run)  # in a shell, with the installed program
    for title in ("host.py", "blocking.py"):
        result = run(f"{shlex.quote(sys.executable)} {title}", tmp_path)
        assert (result.returncode, result.stdout) == (0, "HELLO\n"), result.stderr


PAGES = [
    "docs/tutorial.md",
    "docs/write-an-extension.md",
    "docs/gateway.md",
    "docs/trace.md",
    "docs/security.md",
    "docs/howto/editor-config.md",
    *(
        f"docs/dialects/{dialect}.md"
        for dialect in ("morphir", "nexo", "cigen", "roder", "synaps", "mcp")
    ),
]


@pytest.mark.sampled
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_prints_the_output_on_the_page(page: str, tmp_path: Path) -> None:
    blocks = read_blocks(page)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    write_files(blocks, tmp_path)
    consoles = [block.text for block in blocks if block.language == "console"]
    assert consoles
    for console in consoles:
        check_console(console, tmp_path)


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", ["roder", "synaps"])
def test_the_messages_on_a_page_are_those_that_are_sent(dialect: str, tmp_path: Path) -> None:
    blocks = read_blocks(f"docs/dialects/{dialect}.md")
    write_files(blocks, tmp_path)
    [wire] = [block.text for block in blocks if block.language == "wire"]
    program = tmp_path / "bin" / "python3"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{RECORDING_PYTHON.read_text()}")
    program.chmod(0o755)
    result = run("exthost call shout shout text=hi --json", tmp_path, program.parent)
    assert result.returncode == 0, result.stderr
    messages = recorded_messages(program.with_name("record"))
    for expected, actual in zip_longest(
        re.split(r"\n(?=[→←])", wire), messages, fillvalue="nothing"
    ):
        # Long messages are wrapped on the page, so spaces do not count.
        pattern = ".*".join(map(re.escape, "".join(expected.split()).split("…")))
        assert re.fullmatch(pattern, "".join(actual.split())), f"{expected}\n{actual}"


def recorded_messages(record: Path) -> list[str]:
    """Return the messages of a record, each with its direction and with visible carriage returns.
    Host and extension send in turns, so consecutive bytes in one direction are one message."""
    pieces = [line.split() for line in record.read_text().splitlines()]
    turns = groupby(pieces, key=lambda piece: piece[0])
    messages = [(direction, "".join(piece[1] for piece in turn)) for direction, turn in turns]
    return [
        f"{direction} {bytes.fromhex(text).decode()}".replace("\r\n", r"\r\n")
        for direction, text in messages
    ]


def test_every_command_of_the_operators_page_prints_the_output_on_the_page(tmp_path: Path) -> None:
    ignore = shutil.ignore_patterns("target")
    shutil.copytree(ROOT / "examples", tmp_path, dirs_exist_ok=True, ignore=ignore)
    consoles = [
        block.text for block in read_blocks("docs/operate.md") if block.language == "console"
    ]
    assert len(consoles) == 3  # the number of console blocks on the page
    with host_process(tmp_path):
        for console in consoles:
            check_console(console, tmp_path)


# The beginning of an entry, for blocks that show only a part, such as [extensions.permissions].
ENTRY = """\
[[extensions]]
name = "text"
source = { type = "process", command = "python3", args = ["ext.py"] }
"""


def test_every_config_on_a_page_is_valid(tmp_path: Path) -> None:
    config = tmp_path / "exthost.toml"
    count = 0
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for block in read_blocks(str(page.relative_to(ROOT))):
            if block.language == "toml" and re.search(r"^\[\[?extensions\b", block.text, re.M):
                is_complete = "[[extensions]]" in block.text
                config.write_text(block.text if is_complete else ENTRY + block.text)
                exthost.Host.from_config(config)
                count += 1
    assert count > 10  # the pages have more than ten configs


def test_every_link_to_another_page_has_a_target() -> None:
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_text_of_the_readme_names_the_file_of_each_program() -> None:
    text = (ROOT / "README.md").read_text()
    for match in FENCE.finditer(text):
        if title := match[2]:  # most renderers of Markdown do not show it
            before = text[: match.start()].rpartition("```")[2]
            assert f"`{title}`" in before, title


def test_the_readme_lists_every_exit_code() -> None:
    text = (ROOT / "README.md").read_text()
    rows = "".join(f"| {code} | {meaning} |\n" for code, meaning in EXIT_CODES.items())
    assert f"| code | meaning |\n|---|---|\n{rows}\n" in text
    codes = {getattr(errors, name).exit_code for name in errors.__all__ if name != "Evidence"}
    assert codes < set(EXIT_CODES)
