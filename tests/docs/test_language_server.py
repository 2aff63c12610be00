"""Tests of `examples/language-server`, the example of a dialect in a package of its own.

A dialect is the protocol between the host and extensions. This one makes a language server, as
editors use it, an extension: its features (hover, completion, diagnostics) are the tools. The page
`docs/write-a-dialect.md` explains the package. The tests install it as a third party's package
would be, and run its small server; `make test-more` also runs pylsp.
"""

import asyncio
import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.authoring.testing.vectors import package_vectors, run_vectors
from exthost.dialects import find
from exthost.dialects.package import DialectPackage
from exthost.errors import CallFailed, CallTimeout, ExtensionGone
from exthost.events import Bus, ExtensionEvent, LogLine
from tests.extensions.harness import wait_until
from tests.faces.cli.cli_process import RUN_SECONDS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "language-server"
SERVER = [sys.executable, str(PACKAGE / "tests" / "small_server.py")]
NAME = "language-server"  # of the dialect
INSTALL_SECONDS = 600

# A document. The server returns a diagnostic for the word "bug", and ends at the word "crash".
TEXT = "one bug\ntwo words"


def install(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Install packages into a folder with pip."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    return subprocess.run(
        [*pip, *arguments], capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the package is installed."""
    folder = tmp_path_factory.mktemp("site")
    result = install(folder, "--no-deps", "--no-build-isolation", str(PACKAGE))
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(autouse=True)
def importable(installed: Path) -> Iterator[None]:
    """Make the package importable for one test."""
    sys.path.insert(0, str(installed))
    try:
        yield
    finally:
        sys.path.remove(str(installed))
        for name in [name for name in sys.modules if name.startswith("exthost_language_server")]:
            del sys.modules[name]


def run_exthost(installed: Path, *arguments: str, code: int = 0, more: str = "") -> str:
    """Run a verb with the package on the path, and the folder `more`; return its stdout."""
    paths = filter(None, (str(installed), more, os.environ.get("PYTHONPATH")))
    result = subprocess.run(
        [sys.executable, "-m", "exthost", *arguments],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert result.returncode == code, result.stderr
    return result.stdout


@pytest.mark.more
async def test_the_tools_are_the_features_of_the_server() -> None:
    async with exthost.connect(SERVER, dialect=NAME) as ext:
        assert [*ext.tools] == ["hover", "completion", "diagnostics"]
        position = {"path": "a.txt", "text": TEXT, "line": 1, "character": 4}
        assert (await ext.call_tool("hover", position)).data == "the word words"
        assert (await ext.call_tool("completion", position)).data == ["bug", "one", "two", "words"]
        assert ext.offer.name == "small"


@pytest.mark.more
async def test_diagnostics_are_returned_and_published_as_events() -> None:
    bus = Bus()
    events: list[ExtensionEvent] = []
    bus.subscribe(ExtensionEvent, events.append)
    async with exthost.connect(SERVER, dialect=NAME, events=bus) as ext:
        result = await ext.call_tool("diagnostics", {"path": "a.txt", "text": TEXT})
        assert [item["message"] for item in result.data] == ["a bug"]
        assert [event.kind for event in events] == ["diagnostics"]
        result = await ext.call_tool("diagnostics", {"path": "a.txt", "text": "fine"})
        assert result.data == []


async def test_requests_of_the_server_are_answered() -> None:
    bus = Bus()
    lines: list[str] = []
    bus.subscribe(LogLine, lambda line: lines.append(line.text))
    async with exthost.connect(SERVER, dialect=NAME, events=bus):
        await wait_until(lambda: "settings [null, null]" in lines)


async def test_a_call_that_times_out_is_cancelled_at_the_server() -> None:
    bus = Bus()
    lines: list[str] = []
    bus.subscribe(LogLine, lambda line: lines.append(line.text))
    async with exthost.connect(SERVER, dialect=NAME, events=bus) as ext:
        position = {"path": "a.txt", "text": "wait", "line": 0, "character": 0}
        with pytest.raises(CallTimeout):
            await ext.call_tool("hover", position, timeout=0.2)
        await wait_until(lambda: "was cancelled" in lines)


async def test_open_documents_are_opened_again_after_a_crash() -> None:
    async with exthost.connect(SERVER, dialect=NAME) as ext:
        # The methods that the dialect adds to an extension. A user would import the class of the
        # facet from the package, which type checkers do not find here.
        documents: Any = ext.facet(type(vars(ext)["documents"]))
        await documents.open("a.txt", "alpha crash")
        position = {"path": "a.txt", "line": 0, "character": 0}
        assert (await ext.call_tool("hover", position)).data == "the word alpha"
        with pytest.raises(ExtensionGone):
            await ext.call_tool("hover", {**position, "character": 6})
        assert (await ext.call_tool("hover", position)).data == "the word alpha"
        assert ext.stats.restarts == 1
        await documents.close("a.txt")
        with pytest.raises(CallFailed, match="not open"):
            await ext.call_tool("hover", position)


def test_the_blocking_facet_is_that_of_the_package() -> None:
    with exthost.sync_connect(SERVER, dialect=NAME) as ext:
        documents: Any = ext.facet(type(vars(ext._target)["documents"]))
        assert type(documents).__name__ == "SyncDocuments"
        assert documents.open("a.txt", "alpha").endswith("/a.txt")
        position = {"path": "a.txt", "line": 0, "character": 0}
        assert ext.call_tool("hover", position).data == "the word alpha"


async def test_concurrent_calls_get_their_own_results() -> None:
    async with exthost.connect(SERVER, dialect=NAME) as ext:
        texts = [f"word{n} x" for n in range(50)]
        calls = [
            ext.call_tool("hover", {"path": f"{n}.txt", "text": text, "line": 0, "character": 0})
            for n, text in enumerate(texts)
        ]
        results = await asyncio.gather(*calls)
        assert [result.data for result in results] == [f"the word word{n}" for n in range(50)]


@pytest.mark.more
async def test_the_dialect_is_detected() -> None:
    assert NAME not in find.BUILT_IN
    async with exthost.connect(SERVER) as ext:
        assert ext.dialect.name == NAME


@pytest.mark.more
def test_the_command_line_can_use_the_dialect(installed: Path) -> None:
    report = json.loads(
        run_exthost(installed, "inspect", "--json", "--dialect", NAME, "--", *SERVER)
    )
    assert "hover" in [tool["tool"] for tool in report["tools"]]
    assert "a document without text" in run_exthost(installed, "explain", "LS001")


def test_the_vectors_of_the_package_match(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed), prepend=os.pathsep)  # for scripted children
    package = find.find_package(NAME)
    assert run_vectors(package) == len(package_vectors(package)) >= 8


def test_the_source_of_exthost_does_not_mention_language_servers() -> None:
    mention = re.compile(r"language[-_ ]server|\b(py)?lsp\b", re.IGNORECASE)
    for path in (ROOT / "src").rglob("*"):
        if path.suffix in (".py", ".toml", ".c"):
            assert not mention.search(path.read_text(encoding="utf-8")), path


def test_every_excerpt_of_the_page_is_in_the_package() -> None:
    page = (ROOT / "docs" / "write-a-dialect.md").read_text(encoding="utf-8")
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (*PACKAGE.rglob("*.toml"), *(PACKAGE / "src").rglob("*.py"))
    )
    excerpts = re.findall(r"```(?:python|toml)\n(.*?)```", page, flags=re.DOTALL)
    assert len(excerpts) >= 8  # otherwise the pattern does not find them
    for excerpt in excerpts:
        assert excerpt in code, excerpt


@pytest.mark.more
def test_the_dialect_works_with_pylsp(
    installed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("pylsp")
    result = install(folder, "python-lsp-server")
    if result.returncode:
        pytest.skip(f"pylsp cannot be installed: {result.stderr[-300:]}")
    pylsp = [sys.executable, "-m", "pylsp"]
    target = ["--dialect", NAME, "--", *pylsp]
    report = json.loads(run_exthost(installed, "inspect", "--json", *target, more=str(folder)))
    assert {"hover", "completion", "definition"} <= {tool["tool"] for tool in report["tools"]}
    arguments = ["path=a.py", "text=import os\nos.getcwd()", "line=1", "character=5"]
    output = run_exthost(installed, "call", "hover", *arguments, *target, more=str(folder))
    assert "getcwd" in output


@pytest.mark.more
def test_the_server_passes_the_checks(installed: Path) -> None:
    text = run_exthost(installed, "check", "--json", "--dialect", NAME, "--", *SERVER)
    report = json.loads(text)
    broken = {item["check"] for item in report["checks"] if item["findings"]}
    # The speed depends on how busy the machine is.
    assert report["ok"] and broken <= {"speed"}, text


def test_the_page_names_every_field_of_a_dialect_package() -> None:
    page = (ROOT / "docs" / "write-a-dialect.md").read_text(encoding="utf-8")
    table = page.partition("| field | use |")[2].partition("\n\n")[0]
    listed = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    fields = {field.name for field in dataclasses.fields(DialectPackage)}
    assert fields - listed == {"name", "dialect"}
