"""Which package `npx PACKAGE` or `uvx PACKAGE` runs, and pins of it.

A pin is a digest of the code in the config. An exact version that is installed can be pinned.
Otherwise the runner would ask a registry, and the code is unknown. For uvx the package is only
"expected"; the installed program itself can be pinned.
"""

import asyncio
import base64
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import Refused
from exthost.launch.command_code import Certainty, CodeKind, find_code
from tests.launch.test_code_pins import CHILD, NODE_CHILD


@pytest.fixture
def work_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


# -- npx -------------------------------------------------------------------------------------------


def npx_folder(home: Path, *specs: str) -> Path:
    """Return the folder of npx's cache for these packages, such as "server@1.2.3"."""
    key = hashlib.sha512("\n".join(sorted(specs)).encode()).hexdigest()[:16]
    return home / ".npm" / "_npx" / key


def install_npm(home: Path, name: str, version: str) -> Path:
    folder = npx_folder(home, f"{name}@{version}") / "node_modules" / name
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"name": name, "version": version}))
    return folder


def test_npx_runs_the_folder_of_an_exact_version(tmp_path: Path, work_folder: Path) -> None:
    install_npm(tmp_path, "@scope/server", "1.2.3")
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin"}
    for command_words in (["npx", "-y"], ["timeout", "60", "npx"], ["npm", "exec", "--yes", "--"]):
        code = find_code([*command_words, "@scope/server@1.2.3", "--x"], str(work_folder), env)
        assert code.kind is CodeKind.PACKAGE and code.certainty is Certainty.SEARCHED, code
        assert (code.name, code.version) == ("@scope/server", "1.2.3")
        assert code.path == str(npx_folder(tmp_path, "@scope/server@1.2.3"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("server", "looks up the version"),
        ("server@^1.2.3", "looks up the version"),
        ("server@1", "looks up the version"),
        ("server@latest", "looks up the version"),
        ("github:user/server", "looks up the version"),
        ("./server", "looks up the version"),
        ("server@9.9.9", "not installed"),
        ("-c server@1.2.3", "shell command"),
        ("--node-options=x server@1.2.3", "--node-options"),
    ],
)
def test_the_package_of_npx_without_an_exact_version_is_unknown(
    arguments: str, reason: str, tmp_path: Path, work_folder: Path
) -> None:
    install_npm(tmp_path, "server", "1.2.3")
    code = find_code(["npx", *arguments.split()], str(work_folder), {"HOME": str(tmp_path)})
    assert code.certainty is Certainty.UNKNOWN and reason in code.reason and code.advice


@pytest.mark.parametrize(
    "path", ["place/node_modules/.bin/x", "package.json", "place/.npmrc", ".npmrc"]
)
def test_files_and_variables_that_change_npx_make_the_package_unknown(
    path: str, tmp_path: Path, work_folder: Path
) -> None:
    install_npm(tmp_path, "server", "1.2.3")
    env = {"HOME": str(tmp_path)}
    assert find_code(["npx", "server@1.2.3"], str(work_folder), env).path
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("registry=x\ncache = /elsewhere\n")
    code = find_code(["npx", "server@1.2.3"], str(work_folder), env)
    assert code.certainty is Certainty.UNKNOWN and path.partition("/.bin")[0] in code.reason
    for variable in ("npm_config_prefix", "NPM_CONFIG_NODE_OPTIONS"):
        code = find_code(["npx", "server@1.2.3"], str(work_folder), {**env, variable: "x"})
        assert code.certainty is Certainty.UNKNOWN


@pytest.fixture
def registry() -> Iterator[str]:
    """Yield the address of an npm registry on loopback with one package."""
    manifest = {"name": "toy-server", "version": "1.2.3", "bin": {"toy-server": "main.js"}}
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        files = {
            "package.json": json.dumps(manifest),
            "main.js": "#!/usr/bin/env node\nrequire('./lib.js')\n",
            "lib.js": NODE_CHILD,
        }
        for name, text in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size, info.mode = len(text.encode()), 0o755
            archive.addfile(info, io.BytesIO(text.encode()))
    tarball = data.getvalue()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith(".tgz"):
                body = tarball
            else:
                dist = {"tarball": f"{address}/toy-server.tgz", "integrity": integrity}
                versions = {"1.2.3": {**manifest, "dist": dist}}
                document = {
                    "name": "toy-server",
                    "dist-tags": {"latest": "1.2.3"},
                    "versions": versions,
                }
                body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield address
        server.shutdown()
        thread.join(30)


async def connect_and_read_digests(
    command: list[str], work_folder: Path, **settings: Any
) -> dict[str, str]:
    limits: Any = {"start": "120s", "handshake": "120s"}
    async with exthost.connect(
        command, dialect="morphir", cwd=str(work_folder), limits=limits, **settings
    ) as ext:
        return ext.digests


@pytest.mark.more
async def test_a_package_that_npx_runs_is_pinned_with_its_files(
    tmp_path: Path, work_folder: Path, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shutil.which("npx"), "npx is needed for this test"
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "state"))
    env = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "npm_config_registry": registry,
        "npm_config_update_notifier": "false",
    }
    argv = ["npx", "-y", "toy-server@1.2.3"]
    settings: Any = {"env": env, "env_policy": "declared"}
    digests = await connect_and_read_digests(argv, work_folder, **settings)
    pins = {"program": digests["program"], "interpreter": digests["interpreter"]}
    await connect_and_read_digests(argv, work_folder, sha256=pins, **settings)
    library = npx_folder(tmp_path, "toy-server@1.2.3") / "node_modules/toy-server/lib.js"
    assert library.is_file(), "npx keeps its packages elsewhere"
    library.write_text(NODE_CHILD + "// changed\n")
    with pytest.raises(Refused) as caught:
        await connect_and_read_digests(argv, work_folder, sha256=pins, **settings)
    assert caught.value.code == "X0386" and caught.value.evidence.path == str(library)


# -- uvx -------------------------------------------------------------------------------------------


def make_wheel(folder: Path) -> None:
    """Write a wheel with the program "toy-server" into a new folder."""
    folder.mkdir()
    info = "toy_server-1.2.3.dist-info"
    files = {
        "toy_server/__init__.py": f"def main():\n{CHILD.replace(chr(10), chr(10) + '    ')}\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: toy-server\nVersion: 1.2.3\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntoy-server = toy_server:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / "toy_server-1.2.3-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@pytest.mark.more
async def test_an_installed_tool_is_pinned_by_its_environment(
    tmp_path: Path, work_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Path(sys.executable).parent
    uvx = str(programs / "uvx")
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "state"))
    make_wheel(tmp_path / "wheels")
    variables = {"UV_OFFLINE": "1", "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(tmp_path / "wheels")}
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", **variables}
    settings: Any = {"env": env, "env_policy": "declared"}
    uv = await asyncio.create_subprocess_exec(
        str(programs / "uv"),
        *("tool", "install", "--python", sys.executable, "toy-server==1.2.3"),
        env=env,
    )
    assert await asyncio.wait_for(uv.wait(), 120) == 0
    tool = tmp_path / ".local/share/uv/tools/toy-server"
    await connect_and_read_digests([uvx, "toy-server"], work_folder, **settings)
    with pytest.raises(Refused) as caught:
        await connect_and_read_digests(
            [uvx, "toy-server"], work_folder, sha256="0" * 64, **settings
        )
    assert caught.value.code == "X0341" and f"{tool}/bin/toy-server" in caught.value.help
    # The command that the help suggests can be pinned.
    command = [str(tool / "bin" / "toy-server")]
    pins = {"package": (await connect_and_read_digests(command, tool, **settings))["package"]}
    await connect_and_read_digests(command, tool, sha256=pins, **settings)
    library = next(tool.glob("lib/python*/site-packages/toy_server/__init__.py"))
    library.write_text(library.read_text() + "# changed\n")
    with pytest.raises(Refused) as caught:
        await connect_and_read_digests(command, tool, sha256=pins, **settings)
    assert caught.value.code == "X0386" and caught.value.evidence.path == str(library)


def test_the_package_of_uvx_is_expected_or_unknown(tmp_path: Path, work_folder: Path) -> None:
    tools = tmp_path / ".local/share/uv/tools/toy-server"
    (tools / "lib/python3.12/site-packages/toy_server-1.2.3.dist-info").mkdir(parents=True)
    (tools / "bin").mkdir()
    (tools / "bin" / "toy-server").touch()
    for name in ("uvx", "uv"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("")
        program.chmod(0o755)
    env = {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}
    known_commands = (
        "uvx toy-server",
        "uvx toy-server==1.2.3",
        "uvx -q --from toy-server toy-server",
    )
    for command_line in (*known_commands, "uv tool run toy-server@1.2.3"):
        code = find_code(command_line.split(), str(work_folder), env)
        assert code.certainty is Certainty.EXPECTED and code.reason and code.advice, command_line
        assert (code.name, code.version, code.path) == ("toy-server", "1.2.3", str(tools))
    for command_line in (
        *("other", "toy-server@2.0", "toy-server@latest", "toy-server[cli]", "--with x toy-server"),
        *("--isolated toy-server", "--from git+https://x toy-server", "--from toy-server other"),
        *("", "toy-server>=1"),
    ):
        code = find_code(["uvx", *command_line.split()], str(work_folder), env)
        assert code.certainty is Certainty.UNKNOWN and code.reason and not code.path, command_line
