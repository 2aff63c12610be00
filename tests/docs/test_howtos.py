"""The how-tos: their programs are type-checked, and run where what they need is installed."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from tests.docs.test_docs import blocks, unpack

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


def unpacked(page: str, folder: Path) -> Path:
    """Write the programs of a page, with an extension for them."""
    (folder / "exthost.toml").write_text(CONFIG)
    shutil.copy(ROOT / "examples" / "morphir" / "text.py", folder / "text.py")
    unpack(blocks(f"docs/howto/{page}.md"), folder)
    return folder


def needs(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: its how-to is only type-checked")


def test_the_cells_of_the_notebook_run_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = unpacked("notebook", tmp_path)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for number in (1, 2, 3):
        exec((folder / f"cell_{number}.py").read_text(), names)
    shown = capsys.readouterr().out
    assert "ext_text_shout" in shown and '{"text":"HELLO"}' in shown


async def test_the_sandbox_of_the_how_to_works(tmp_path: Path) -> None:
    folder = unpacked("sandbox", tmp_path)
    (folder / "public").mkdir()
    (folder / "public" / "open.txt").write_text("for all")
    (folder / "secret.txt").write_text("for nobody")
    async with exthost.Host.from_config(folder / "exthost.toml") as host:
        if isinstance(host["reader"].cause, exthost.errors.Refused):
            pytest.skip(f"no sandbox here: {host['reader'].cause}")
        read = host["reader"].call_tool
        assert (await read("read", {"path": str(folder / "public/open.txt")})).text == "for all"
        with pytest.raises(exthost.errors.CallFailed, match="FileNotFoundError"):
            await read("read", {"path": str(folder / "secret.txt")})


@pytest.mark.more  # needs FastAPI: make test-more installs it
@pytest.mark.filterwarnings("ignore")  # of what is installed here, not ours
def test_the_application_of_fastapi_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("fastapi")
    from fastapi.testclient import TestClient  # type: ignore[import-not-found,unused-ignore]

    folder = unpacked("fastapi", tmp_path)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "app"}
    exec((folder / "app.py").read_text(), names)
    with TestClient(names["app"]) as client:
        assert "ext_text_shout" in client.get("/tools").json()
        reply = client.post("/tools/ext_text_shout", json={"text": "hi"})
        assert json.loads(reply.json()["text"]) == {"text": "HI"}
        assert client.post("/tools/none", json={}).status_code == 404


@pytest.mark.more  # needs Django: make test-more installs it
def test_the_view_of_django_answers(tmp_path: Path) -> None:
    needs("django")
    folder = unpacked("django", tmp_path)
    (folder / "request.py").write_text(DJANGO_REQUESTS)
    done = subprocess.run(
        [sys.executable, "request.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=CHECK_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    fine, unknown = map(json.loads, done.stdout.splitlines())
    assert fine == [200, {"text": '{"text":"HI"}'}]
    assert unknown[0] == 404 and unknown[1]["kind"] == "NotFound"


def write_programs(folder: Path) -> list[str]:
    """Write the programs of every page; the cells of a notebook are one. Return the folders."""
    for page in PAGES:
        own = folder / page
        own.mkdir()
        unpacked(page, own)
        cells = sorted(own.glob("cell_*.py"))
        if cells:
            (own / "cells.py").write_text("".join(cell.read_text() for cell in cells))
        for needless in (*cells, *(own / "text.py",) * (page != "editor-config")):
            needless.unlink()
    return [str(folder / page) for page in PAGES]


# What is not installed here has no types; decorators and classes of it are then untyped.
MYPY = ["--ignore-missing-imports", "--allow-untyped-decorators", "--allow-subclassing-any"]


def check_types(folder: Path, *command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=CHECK_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.more  # ten seconds of a type checker
def test_every_example_and_how_to_passes_strict_mypy(tmp_path: Path) -> None:
    needs("mypy")
    write_programs(tmp_path)
    cache = f"--cache-dir={tmp_path / 'cache'}"
    for page in PAGES:
        check_types(tmp_path / page, "mypy", "--strict", "--config-file=", cache, *MYPY, ".")
    for example in EXAMPLES:
        path = str(ROOT / example)
        check_types(tmp_path, "mypy", "--strict", "--config-file=", cache, path)


@pytest.mark.more  # pyright fetches its own parts when it runs for the first time
def test_every_example_and_how_to_passes_pyright(tmp_path: Path) -> None:
    needs("pyright")
    folders = write_programs(tmp_path)
    settings = {
        "reportMissingImports": False,
        "reportMissingModuleSource": False,
        "include": [*folders, *(str(ROOT / example) for example in EXAMPLES)],
        "executionEnvironments": [{"root": folder} for folder in folders],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    check_types(tmp_path, "pyright", "--pythonpath", sys.executable, "--project", str(tmp_path))


def test_the_host_of_the_django_how_to_is_one_for_all_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpacked("django", tmp_path)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "extensions"}
    exec((folder / "extensions.py").read_text(), names)
    host = names["host"]()
    try:
        assert host is names["host"]()
        assert host.call_tool("ext_text_shout", {"text": "hi"}).data == {"text": "HI"}
    finally:
        host.close()
