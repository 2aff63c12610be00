"""The language-server dialect of examples/: an installed third-party package, and nothing else.

Its server is a small one of its own, and in `make test-more` pylsp.
"""

import asyncio
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
from exthost.errors import CallFailed, CallTimeout, ExtensionGone
from exthost.events import Bus, ExtensionEvent, LogLine
from tests.extensions.harness import until

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "language-server"
SERVER = [sys.executable, str(PACKAGE / "tests" / "small_server.py")]
NAME = "language-server"
INSTALL_SECONDS = 600

TEXT = "one bug\ntwo words"


def install(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    return subprocess.run(
        [*pip, *words], capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the package is installed."""
    folder = tmp_path_factory.mktemp("site")
    done = install(folder, "--no-deps", "--no-build-isolation", str(PACKAGE))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(autouse=True)
def importable(installed: Path) -> Iterator[None]:
    """The package is there for this test alone."""
    sys.path.insert(0, str(installed))
    try:
        yield
    finally:
        sys.path.remove(str(installed))
        for name in [name for name in sys.modules if name.startswith("exthost_language_server")]:
            del sys.modules[name]


def cli(installed: Path, *words: str, code: int = 0, more: str = "") -> str:
    paths = filter(None, (str(installed), more, os.environ.get("PYTHONPATH")))
    done = subprocess.run(
        [sys.executable, "-m", "exthost", *words],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == code, done.stderr
    return done.stdout


async def test_tools_are_the_features_of_the_server() -> None:
    async with exthost.connect(SERVER, dialect=NAME) as ext:
        assert [*ext.tools] == ["hover", "completion", "diagnostics"]
        at = {"path": "a.txt", "text": TEXT, "line": 1, "character": 4}
        assert (await ext.call_tool("hover", at)).data == "the word words"
        assert (await ext.call_tool("completion", at)).data == ["bug", "one", "two", "words"]
        assert ext.offer.name == "small"


async def test_diagnostics_are_waited_for_and_published() -> None:
    bus = Bus()
    events: list[ExtensionEvent] = []
    bus.subscribe(ExtensionEvent, events.append)
    async with exthost.connect(SERVER, dialect=NAME, events=bus) as ext:
        result = await ext.call_tool("diagnostics", {"path": "a.txt", "text": TEXT})
        assert [item["message"] for item in result.data] == ["a bug"]
        assert [event.kind for event in events] == ["diagnostics"]
        fine = await ext.call_tool("diagnostics", {"path": "a.txt", "text": "fine"})
        assert fine.data == []


async def test_requests_of_the_server_are_answered() -> None:
    bus = Bus()
    lines: list[str] = []
    bus.subscribe(LogLine, lambda line: lines.append(line.text))
    async with exthost.connect(SERVER, dialect=NAME, events=bus):
        await until(lambda: "settings [null, null]" in lines)


async def test_a_call_that_times_out_is_cancelled_at_the_server() -> None:
    bus = Bus()
    lines: list[str] = []
    bus.subscribe(LogLine, lambda line: lines.append(line.text))
    async with exthost.connect(SERVER, dialect=NAME, events=bus) as ext:
        place = {"path": "a.txt", "text": "wait", "line": 0, "character": 0}
        with pytest.raises(CallTimeout):
            await ext.call_tool("hover", place, timeout=0.2)
        await until(lambda: "was cancelled" in lines)


async def test_open_documents_are_opened_again_after_a_crash() -> None:
    async with exthost.connect(SERVER, dialect=NAME) as ext:
        documents: Any = ext.facet(type(vars(ext)["documents"]))
        await documents.open("a.txt", "alpha crash")
        place = {"path": "a.txt", "line": 0, "character": 0}
        assert (await ext.call_tool("hover", place)).data == "the word alpha"
        with pytest.raises(ExtensionGone):
            await ext.call_tool("hover", {**place, "character": 6})
        assert (await ext.call_tool("hover", place)).data == "the word alpha"
        assert ext.stats.restarts == 1
        await documents.close("a.txt")
        with pytest.raises(CallFailed, match="not open"):
            await ext.call_tool("hover", place)


def test_the_blocking_form_of_the_facet_is_the_one_that_the_package_names() -> None:
    with exthost.sync_connect(SERVER, dialect=NAME) as ext:
        documents: Any = ext.facet(type(vars(ext._target)["documents"]))
        assert type(documents).__name__ == "SyncDocuments"
        assert documents.open("a.txt", "alpha").endswith("/a.txt")
        place = {"path": "a.txt", "line": 0, "character": 0}
        assert ext.call_tool("hover", place).data == "the word alpha"


async def test_many_calls_at_once() -> None:
    async with exthost.connect(SERVER, dialect=NAME) as ext:
        texts = [f"word{n} x" for n in range(50)]
        calls = [
            ext.call_tool("hover", {"path": f"{n}.txt", "text": text, "line": 0, "character": 0})
            for n, text in enumerate(texts)
        ]
        results = await asyncio.gather(*calls)
        assert [result.data for result in results] == [f"the word word{n}" for n in range(50)]


@pytest.mark.more
async def test_the_dialect_is_found_without_its_name() -> None:
    assert NAME not in find.BUILT_IN
    async with exthost.connect(SERVER) as ext:
        assert ext.dialect.name == NAME


def test_the_command_line_knows_it(installed: Path) -> None:
    report = json.loads(cli(installed, "inspect", "--json", "--dialect", NAME, "--", *SERVER))
    assert "hover" in [tool["tool"] for tool in report["tools"]]
    assert "a document without text" in cli(installed, "explain", "LS001")


def test_its_vectors_match(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed), prepend=os.pathsep)  # for scripted children
    package = find.find_package(NAME)
    assert run_vectors(package) == len(package_vectors(package)) >= 8


def test_nothing_of_exthost_names_it() -> None:
    named = re.compile(r"language[-_ ]server|\b(py)?lsp\b", re.IGNORECASE)
    for path in (ROOT / "src").rglob("*"):
        if path.suffix in (".py", ".toml", ".c"):
            assert not named.search(path.read_text(encoding="utf-8")), path


def test_every_excerpt_of_the_page_is_in_the_package() -> None:
    page = (ROOT / "docs" / "write-a-dialect.md").read_text(encoding="utf-8")
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (*PACKAGE.rglob("*.toml"), *(PACKAGE / "src").rglob("*.py"))
    )
    excerpts = re.findall(r"```(?:python|toml)\n(.*?)```", page, flags=re.DOTALL)
    assert len(excerpts) >= 8
    for excerpt in excerpts:
        assert excerpt in code, excerpt


@pytest.mark.more
def test_it_runs_a_real_language_server(
    installed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    real = tmp_path_factory.mktemp("pylsp")
    done = install(real, "python-lsp-server")
    if done.returncode:
        pytest.skip(f"no pylsp from the registry: {done.stderr[-300:]}")
    pylsp = [sys.executable, "-m", "pylsp"]
    more = str(real)
    where = ["--dialect", NAME, "--", *pylsp]
    report = json.loads(cli(installed, "inspect", "--json", *where, more=more))
    assert {"hover", "completion", "definition"} <= {tool["tool"] for tool in report["tools"]}
    words = ["path=a.py", "text=import os\nos.getcwd()", "line=1", "character=5"]
    reported = cli(installed, "call", "hover", *words, *where, more=more)
    assert "getcwd" in reported
