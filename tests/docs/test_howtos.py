"""The programs in the how-tos (`docs/howto/*.md`) pass type checkers and do what the pages say.

A page shows the files of a program as code blocks. The tests write them into a folder, with a
config of two extensions, and run the program if the packages that it needs are installed.
"""

import http.client
import importlib.util
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import exthost
from tests.docs.test_docs import read_blocks, write_files
from tests.faces.cli.cli_process import RUN_SECONDS

ROOT = Path(__file__).parents[2]
# The limit of a program that always ends. It only bounds a test that hangs.
CHECK_SECONDS = 300

CONFIG = """\
[[extensions]]
name = "text"
source = { type = "process", command = "python3", args = ["text.py"] }

[[extensions]]
name = "painter"
dialect = "mcp"
source = { type = "process", command = "python3", args = ["painter.py"] }
"""

# A request for a tool, one for a tool that does not exist, one with wrong arguments, one whose body
# is not JSON, and one that ends the extension.
DJANGO_REQUESTS = """\
import json

from django.conf import settings

settings.configure()

from django.test import RequestFactory

from views import call

for name, data in (
    ("ext_text_shout", {"text": "hi"}),
    ("none", {}),
    ("ext_text_shout", {"text": 3}),
    ("ext_text_shout", "{"),
    ("ext_painter_crash", {}),
):
    request = RequestFactory().post("/", data=data, content_type="application/json")
    reply = call(request, name)
    print(json.dumps([reply.status_code, json.loads(reply.content)]))
"""

# The pages with programs in Python, and the examples that are type-checked with them.
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
    shutil.copy(ROOT / "tests" / "extensions" / "painter.py", folder / "painter.py")
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


# The application of the page with one more path, which returns the numbers of calls in flight and
# of cancelled calls.
FASTAPI_SERVER = """\
from typing import Any

import uvicorn
from app import app
from fastapi import Request


@app.get("/stats")
async def stats(request: Request) -> dict[str, Any]:
    counts = request.app.state.host["painter"].stats
    return {"in_flight": counts.in_flight, "cancelled": counts.cancelled}


uvicorn.run(app, host="127.0.0.1", port=0, log_level="info", timeout_graceful_shutdown=5)
"""

# The asynchronous view of the page, with the same path.
DJANGO_SERVER = """\
import uvicorn
from django.conf import settings

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x")

from async_views import call, host
from django.core.asgi import get_asgi_application
from django.http import JsonResponse
from django.urls import path


async def stats(request):
    counts = (await host())["painter"].stats
    return JsonResponse({"in_flight": counts.in_flight, "cancelled": counts.cancelled})


urlpatterns = [path("tools/<name>", call), path("stats", stats)]
uvicorn.run(get_asgi_application(), host="127.0.0.1", port=0, timeout_graceful_shutdown=5)
"""


class Server(NamedTuple):
    """A running program of a how-to."""

    port: int

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request; return the status and the body of the reply."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=RUN_SECONDS)
        with closing(connection):
            text = body if isinstance(body, str) else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())

    def stats(self) -> Any:
        return self.request("GET", "/stats")[1]

    def wait_for_stats(self, expected: Any) -> None:
        """Wait until the server returns these numbers, which change after the request ends."""
        deadline = time.monotonic() + RUN_SECONDS
        while (stats := self.stats()) != expected:
            assert time.monotonic() < deadline, stats
            time.sleep(0.05)


@contextmanager
def run_server(program: str, folder: Path) -> Iterator[Server]:
    """Run a program with uvicorn until the block ends."""
    (folder / "serve.py").write_text(program)
    command = [sys.executable, "serve.py"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                if address := re.search(r"running on http://127.0.0.1:(\d+)", line):
                    break
            else:
                pytest.fail("".join(lines))
            drain = threading.Thread(target=process.stderr.read)
            drain.start()
            yield Server(int(address[1]))
        finally:
            process.terminate()
            try:
                process.wait(RUN_SECONDS)
            finally:
                process.kill()
                drain.join()


def check_web_application(server: Server) -> None:
    """Check the replies that both how-tos for web frameworks describe."""
    status, reply = server.request("POST", "/tools/ext_text_shout", {"text": "hi"})
    assert status == 200 and json.loads(reply["text"]) == {"text": "HI"}
    assert server.request("POST", "/tools/none", {})[0] == 404
    status, reply = server.request("POST", "/tools/ext_text_shout", {"text": 3})
    assert status == 422 and reply["code"] == "X1301" and "text" in reply["message"]
    assert server.request("POST", "/tools/ext_text_shout", "{")[0] in (400, 422)
    status, reply = server.request("POST", "/tools/ext_painter_fail", {})
    assert status == 200 and reply == {"text": "the brush is dry", "is_error": True}
    status, reply = server.request("POST", "/tools/ext_painter_crash", {})
    assert status == 502 and reply["kind"] == "ExtensionGone"
    for secret in ("painter.py", "argv", "cwd", "stderr", "the easel broke"):
        assert secret not in json.dumps(reply)


def check_disconnect(server: Server) -> None:
    """Check that a call is cancelled when its client disconnects."""
    request = b"POST /tools/ext_painter_hang HTTP/1.1\r\nHost: a\r\n"
    request += b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    with socket.create_connection(("127.0.0.1", server.port), timeout=RUN_SECONDS) as client:
        client.sendall(request)
        server.wait_for_stats({"in_flight": 1, "cancelled": 0})
    server.wait_for_stats({"in_flight": 0, "cancelled": 1})


@pytest.mark.more  # needs FastAPI: make test-more installs it
def test_the_fastapi_application_answers_and_cancels_calls(tmp_path: Path) -> None:
    require("fastapi")
    folder = write_page_files("fastapi", tmp_path)
    with run_server(FASTAPI_SERVER, folder) as server:
        assert "ext_text_shout" in server.request("GET", "/tools")[1]
        check_disconnect(server)
        check_web_application(server)


@pytest.mark.more  # needs Django: make test-more installs it
def test_the_asynchronous_django_view_answers_and_cancels_calls(tmp_path: Path) -> None:
    require("django")
    folder = write_page_files("django", tmp_path)
    with run_server(DJANGO_SERVER, folder) as server:
        check_disconnect(server)
        check_web_application(server)


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
    called, not_found, invalid, not_json, crashed = map(json.loads, result.stdout.splitlines())
    assert called == [200, {"text": '{"text":"HI"}', "is_error": False}]
    assert not_found[0] == 404 and not_found[1]["kind"] == "NotFound"
    assert invalid[0] == 422 and invalid[1]["code"] == "X1301"
    assert not_json[0] == 400
    assert crashed[0] == 502 and "painter.py" not in json.dumps(crashed)


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
        (page_folder / "painter.py").unlink()
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
