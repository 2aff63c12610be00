"""The programs of the how-tos pass type checkers, and run if their packages are installed."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from tests.docs.test_docs import read_blocks, write_files

ROOT = Path(__file__).parents[2]
CHECK_SECONDS = 300

CONFIG = """\
[[extensions]]
name = "text"
source = { type = "process", command = "python3", args = ["text.py"] }
"""

# A request for a tool, and one for a tool that does not exist.
DJANGO_REQUESTS = """\
import json

from django.conf import settings

settings.configure()

from django.test import RequestFactory

from views import call

for name in ("ext_text_shout", "none"):
    request = RequestFactory().post("/", data={"text": "hi"}, content_type="application/json")
    reply = call(request, name)
    print(json.dumps([reply.status_code, json.loads(reply.content)]))
"""

PAGES = ["fastapi", "django", "notebook", "editor-config", "sandbox"]
EXAMPLES = [
    "examples/agent",
    "examples/demo.py",
    "examples/mcp",
    "examples/morphir",
    "examples/nexo/extensions/weather",
    "examples/roder/python",
    "examples/synaps/plugins/notes",
]


def write_page_files(page: str, folder: Path) -> Path:
    """Write the files of a page, and an extension and a config for them; return the folder."""
    (folder / "exthost.toml").write_text(CONFIG)
    shutil.copy(ROOT / "examples" / "morphir" / "text.py", folder / "text.py")
    write_files(read_blocks(f"docs/howto/{page}.md"), folder)
    return folder


def require(module: str) -> None:
    """Skip the test if a module is not installed."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: its how-to is only type-checked")


def test_the_cells_of_the_notebook_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_page_files("notebook", tmp_path)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for number in (1, 2, 3):
        exec((folder / f"cell_{number}.py").read_text(), names)
    output = capsys.readouterr().out
    assert "ext_text_shout" in output and '{"text":"HELLO"}' in output


async def test_the_sandbox_of_the_how_to_works(tmp_path: Path) -> None:
    folder = write_page_files("sandbox", tmp_path)
    (folder / "public").mkdir()
    (folder / "public" / "open.txt").write_text("for all")
    (folder / "secret.txt").write_text("for nobody")
    async with exthost.Host.from_config(folder / "exthost.toml") as host:
        if isinstance(host["reader"].cause, exthost.errors.Refused):
            pytest.skip(f"there is no sandbox: {host['reader'].cause}")
        call_tool = host["reader"].call_tool
        assert (
            await call_tool("read", {"path": str(folder / "public/open.txt")})
        ).text == "for all"
        with pytest.raises(exthost.errors.CallFailed, match="FileNotFoundError"):
            await call_tool("read", {"path": str(folder / "secret.txt")})


@pytest.mark.more  # needs FastAPI: make test-more installs it
@pytest.mark.filterwarnings("ignore")  # warnings of the installed packages
def test_the_fastapi_application_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("fastapi")
    from fastapi.testclient import TestClient  # type: ignore[import-not-found,unused-ignore]

    folder = write_page_files("fastapi", tmp_path)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "app"}
    exec((folder / "app.py").read_text(), names)
    with TestClient(names["app"]) as client:
        assert "ext_text_shout" in client.get("/tools").json()
        reply = client.post("/tools/ext_text_shout", json={"text": "hi"})
        assert json.loads(reply.json()["text"]) == {"text": "HI"}
        assert client.post("/tools/none", json={}).status_code == 404


@pytest.mark.more  # needs Django: make test-more installs it
def test_the_django_view_answers(tmp_path: Path) -> None:
    require("django")
    folder = write_page_files("django", tmp_path)
    (folder / "request.py").write_text(DJANGO_REQUESTS)
    result = subprocess.run(
        [sys.executable, "request.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=CHECK_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found, not_found = map(json.loads, result.stdout.splitlines())
    assert found == [200, {"text": '{"text":"HI"}'}]
    assert not_found[0] == 404 and not_found[1]["kind"] == "NotFound"


def write_programs(folder: Path) -> list[str]:
    """Write the programs of each page into a folder; return the folders. The cells of a notebook
    become one program."""
    for page in PAGES:
        page_folder = folder / page
        page_folder.mkdir()
        write_page_files(page, page_folder)
        cells = sorted(page_folder.glob("cell_*.py"))
        if cells:
            (page_folder / "cells.py").write_text("".join(cell.read_text() for cell in cells))
        for cell in cells:
            cell.unlink()
        if page != "editor-config":  # this page has its own text.py
            (page_folder / "text.py").unlink()
    return [str(folder / page) for page in PAGES]


# Packages that are not installed have no types, so their decorators and classes are untyped.
MYPY = ["--ignore-missing-imports", "--allow-untyped-decorators", "--allow-subclassing-any"]


def check_types(folder: Path, *command: str) -> None:
    """Run a type checker, which must find no error."""
    result = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=CHECK_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.more  # a type checker takes ten seconds
def test_every_example_and_how_to_passes_strict_mypy(tmp_path: Path) -> None:
    require("mypy")
    write_programs(tmp_path)
    cache = f"--cache-dir={tmp_path / 'cache'}"
    for page in PAGES:
        check_types(tmp_path / page, "mypy", "--strict", "--config-file=", cache, *MYPY, ".")
    for example in EXAMPLES:
        path = str(ROOT / example)
        check_types(tmp_path, "mypy", "--strict", "--config-file=", cache, path)


@pytest.mark.more  # pyright downloads parts of itself when it first runs
def test_every_example_and_how_to_passes_pyright(tmp_path: Path) -> None:
    require("pyright")
    folders = write_programs(tmp_path)
    settings = {
        "reportMissingImports": False,
        "reportMissingModuleSource": False,
        "include": [*folders, *(str(ROOT / example) for example in EXAMPLES)],
        "executionEnvironments": [{"root": folder} for folder in folders],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    check_types(tmp_path, "pyright", "--pythonpath", sys.executable, "--project", str(tmp_path))


def test_the_django_how_to_has_one_host_for_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_page_files("django", tmp_path)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "extensions"}
    exec((folder / "extensions.py").read_text(), names)
    host = names["host"]()
    try:
        assert host is names["host"]()
        assert host.call_tool("ext_text_shout", {"text": "hi"}).data == {"text": "HI"}
    finally:
        host.close()
