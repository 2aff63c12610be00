"""The commands of `docs/publish.md` work, from `exthost new` to a published package that runs.

The tests run the commands of the page in order, in an empty folder. A server on this machine takes
the place of the registries (PyPI and npm), and accepts what `uv publish` and `npm publish` upload.
"""

import base64
import email
import email.policy
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote

import pytest

from tests.authoring.sdk.test_scaffold import provide_typescript
from tests.docs.test_docs import read_blocks
from tests.faces.cli.cli_process import RUN_SECONDS

ROOT = Path(__file__).parents[2]


class Registry(BaseHTTPRequestHandler):
    """A registry in memory. As an index of Python packages it accepts POST and lists the files at
    /simple/NAME/; as a registry of npm it accepts PUT of /NAME and serves the document there."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        header = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        message = email.message_from_bytes(header + body, policy=email.policy.HTTP)
        for part in message.iter_parts():
            data = part.get_payload(decode=True)
            if (name := part.get_filename()) and isinstance(data, bytes):
                self.files[f"/files/{name}"] = data
        self.answer(b"")

    def do_PUT(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for name, attachment in document.pop("_attachments").items():
            self.files[f"/{document['name']}/-/{name}"] = base64.b64decode(attachment["data"])
        self.files[f"/{document['name']}"] = json.dumps(document).encode()
        self.answer(b"{}")

    def do_GET(self) -> None:
        path = unquote(self.path)
        if match := re.fullmatch(r"/simple/([\w-]+)/", path):
            prefix = f"/files/{match[1].replace('-', '_')}-"
            names = [name for name in self.files if name.startswith(prefix)]
            page = "".join(f'<a href="{name}">{Path(name).name}</a>' for name in names)
            self.answer(page.encode() if names else None, "text/html")
        else:
            self.answer(self.files.get(path))

    def do_HEAD(self) -> None:  # uv asks for the size of a file first
        self.do_GET()

    def answer(self, body: bytes | None, content_type: str = "application/json") -> None:
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def local_registry() -> Iterator[str]:
    """Run a registry; yield its address."""
    handler = type("EmptyRegistry", (Registry,), {"files": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def blocks_of(language: str) -> list[str]:
    """Return the blocks with commands in the section about a language: create and publish it, add
    it to a host, try it before it is published. They are known by the name of the example in that
    section."""
    texts = [block.text for block in read_blocks("docs/publish.md") if block.language == "text"]
    example = {"Python": "weather", "TypeScript": "wind"}[language]
    return [text for text in texts if re.search(rf"\b{example}\b", text)]


class Author:
    """Runs commands of the page in a shell, with the programs of this environment."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self._environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV", "UV_", "npm_", "NPM_"))
        }
        search_path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        home = str(folder / "home")
        self._environ |= {
            "PATH": search_path,
            "EXTHOST_HOME": home,
            "UV_CACHE_DIR": home,
            **variables,
        }

    def run(self, commands: str, inside: str = "") -> str:
        """Run commands in the folder `inside`, which must succeed; return their output."""
        result = subprocess.run(
            ["sh", "-ec", commands],
            cwd=self.folder / inside,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout


@pytest.mark.more  # builds wheels, and installs them into environments of uvx
def test_the_commands_for_python_lead_to_a_host_that_lists_the_tools(tmp_path: Path) -> None:
    create, add_published, try_unpublished = blocks_of("Python")
    with local_registry() as address:
        # The build needs hatchling, which is installed here, so that it needs no other index.
        author = Author(tmp_path, UV_NO_BUILD_ISOLATION="1", UV_DEFAULT_INDEX=f"{address}/simple")
        # Publish later, with the address of the registry here: the command of the page has none.
        before_publish = create.partition("uv publish")[0]
        author.run(before_publish)
        build, build_sdk, *rest = (
            try_unpublished.replace("PATH-OF-CHECKOUT", str(ROOT))
            .replace("PATH-OF-WHEELS", str(tmp_path / "wheels"))
            .splitlines()
        )
        author.run(f"{build}\n{build_sdk}", "weather")
        (tmp_path / "user").mkdir()
        assert "ext_weather_shout" in author.run("\n".join(rest), "user")
        author.run("exthost pack .", "weather")
        # All of dist is published, so `exthost pack` must not write there: twine refuses files that
        # are not packages.
        assert {path.name for path in (tmp_path / "weather" / "dist").iterdir()} == {
            ".gitignore",
            "weather-0.1.0-py3-none-any.whl",
            "weather-0.1.0.tar.gz",
        }
        publish = f"uv publish --publish-url {address}/ --username a --password b"
        author.run(f"{publish}\n{publish} ../wheels/exthost_sdk-*", "weather")
        (tmp_path / "other").mkdir()
        assert "ext_weather_shout" in author.run(add_published, "other")


@pytest.mark.more  # compiles TypeScript, and installs packages with npx
def test_the_commands_for_typescript_lead_to_a_host_that_lists_the_tools(tmp_path: Path) -> None:
    programs = provide_typescript(tmp_path)
    create, add_published, try_unpublished = blocks_of("TypeScript")
    with local_registry() as address:
        author = Author(tmp_path, NPM_CONFIG_REGISTRY=address, npm_config_cache=str(tmp_path / "c"))
        # `programs` has an npm whose `npm install` does nothing.
        author.run(f"PATH={programs}:$PATH; {create.partition('npm publish')[0]}")
        first, *rest = try_unpublished.replace("PATH-OF-WIND", str(tmp_path / "wind")).splitlines()
        author.run(f"PATH={programs}:$PATH; {first}", "wind")
        (tmp_path / "user").mkdir()
        assert "ext_wind_shout" in author.run("\n".join(rest), "user")
        token = f"--{address.removeprefix('http:')}/:_authToken=any"
        author.run(f"PATH={programs}:$PATH npm publish --registry {address} {token}", "wind")
        (tmp_path / "other").mkdir()
        assert "ext_wind_shout" in author.run(add_published, "other")
    author.run("exthost pack .", "wind")
    assert (tmp_path / "wind" / "bundle" / "wind-0.1.0.mcpb").is_file()
