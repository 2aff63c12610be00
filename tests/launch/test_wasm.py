"""WebAssembly modules as extensions (`source = { type = "wasm", path = "ext.wasm" }`).

A process of exthost, the runner, executes the module with the engine wasmtime. The engine is the
sandbox: the module reaches only the folders in `permissions.filesystem`. The tests run real modules
in the real runner. `morphir(result, …)` makes a module with the tool `get`, which returns the next
of these results; its parameter `then` has instructions that it runs at the call after the last.
"""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import wasmtime

import exthost
from exthost.config.document import config_from_mapping
from exthost.errors import ConfigError, ExtensionGone, HandshakeFailed, Refused, SpawnFailed
from exthost.launch import wasm_runner
from tests.extensions.harness import wait_until
from tests.launch.wasm_modules import EXIT_7, FILL_MEMORY, TRAP, module, morphir

EXAMPLE = Path(__file__).parents[2] / "examples" / "wasm"
BUILD_SECONDS = 600


@pytest.fixture(autouse=True)
def _own_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "state"))


def config(path: Path, **settings: Any) -> dict[str, Any]:
    source = {"type": "wasm", "path": str(path)}
    return {"extensions": [{"name": "box", "source": source, **settings}]}


def write_module(folder: Path, content: bytes) -> Path:
    path = folder / "ext.wasm"
    path.write_bytes(content)
    return path


def run_module(
    path: Path, *options: str, stdin: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Run a module by the runner, without a host."""
    code = path.parent / "code"
    code.mkdir(exist_ok=True)
    command = [sys.executable, "-I", wasm_runner.__file__, str(path), "--code", str(code)]
    return subprocess.run(
        [*command, *options], input=stdin, capture_output=True, timeout=120, check=False
    )


async def test_a_module_can_be_called_like_any_extension(tmp_path: Path) -> None:
    path = write_module(tmp_path, morphir({"n": 1}, {"n": 2}))
    async with exthost.Host.from_config(config(path)) as host:
        assert [*host.tools] == ["ext_box_get"]
        assert (await host.call_tool("ext_box_get")).data == {"n": 1}
        extension = host["box"]
        assert (await extension.call_tool("get")).data == {"n": 2}
        assert extension.enforced["network"] == extension.enforced["filesystem"] == "wasm"
        assert extension.enforced["memory"] == "open"


async def test_a_module_is_compiled_once(tmp_path: Path) -> None:
    path = write_module(tmp_path, morphir({"n": 1}))
    compiled_files = []
    for _ in range(2):
        async with exthost.Host.from_config(config(path)) as host:
            assert (await host.call_tool("ext_box_get")).data == {"n": 1}
        (file,) = (tmp_path / "state" / "wasm").iterdir()
        compiled_files.append((file.name, file.stat().st_ino))
    assert compiled_files[0] == compiled_files[1], "the same file, not one that was written again"


@pytest.mark.parametrize("obstacle", ["a pipe", "a sparse file"])
async def test_a_module_that_cannot_be_read_to_its_end_is_an_error(
    tmp_path: Path, obstacle: str
) -> None:
    path = tmp_path / "ext.wasm"
    if obstacle == "a pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"\0asm")
        os.truncate(path, 2**40)
    async with exthost.Host.from_config(config(path)) as host:
        with pytest.raises(SpawnFailed, match=r"not a regular file|more than 1024 MiB"):
            await host["box"].call("get")


async def test_a_trap_ends_the_process_and_is_the_evidence_of_the_call(tmp_path: Path) -> None:
    path = write_module(tmp_path, morphir(then=TRAP))
    async with exthost.Host.from_config(config(path)) as host:
        with pytest.raises(ExtensionGone) as caught:
            await host.call_tool("ext_box_get")
    assert "SIGABRT" in caught.value.evidence.exit
    assert any("unreachable" in line for line in caught.value.evidence.stderr)


async def test_the_exit_code_of_a_module_is_that_of_its_process(tmp_path: Path) -> None:
    path = write_module(tmp_path, morphir(then=EXIT_7))
    async with exthost.Host.from_config(config(path)) as host:
        with pytest.raises(ExtensionGone) as caught:
            await host.call_tool("ext_box_get")
    assert caught.value.evidence.exit == "exited with 7"


async def test_a_module_cannot_allocate_more_than_max_memory(tmp_path: Path) -> None:
    path = write_module(tmp_path, morphir(then=FILL_MEMORY))
    permissions = {"max_memory": "8MiB"}
    async with exthost.Host.from_config(config(path, permissions=permissions)) as host:
        assert host["box"].enforced["memory"] == "wasm"
        with pytest.raises(ExtensionGone) as caught:
            await host.call_tool("ext_box_get")
    assert f"it used {8 * 2**20} of {8 * 2**20} bytes of max_memory" in "\n".join(
        caught.value.evidence.stderr
    )


async def test_a_replaced_module_is_refused_by_its_pin(tmp_path: Path) -> None:
    path = write_module(tmp_path, morphir({"n": 1}))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    async with exthost.Host.from_config(config(path, sha256=digest)) as host:
        assert (await host.call_tool("ext_box_get")).data == {"n": 1}
        write_module(tmp_path, morphir({"n": 666}))
        with pytest.raises(Refused) as caught:
            await host["box"].restart()
    assert caught.value.code == "X0386" and str(path) in caught.value.message


def test_the_runner_compares_the_bytes_that_it_runs_with_the_pin(tmp_path: Path) -> None:
    path = write_module(tmp_path, module({"id": 1}))
    result = run_module(path, "--sha256", "0" * 64, stdin=b"{}\n")
    assert (result.returncode, result.stdout) == (126, b"")
    assert b"not the module that was pinned" in result.stderr


def test_machine_code_that_others_can_write_is_not_loaded(tmp_path: Path) -> None:
    path = write_module(tmp_path, module({"id": 1}))
    (tmp_path / "code").mkdir()
    code_file = wasm_runner.code_file(str(tmp_path / "code"), path.read_bytes())
    other_module = wasmtime.Module(wasmtime.Engine(), module({"id": 2}))
    code_file.write_bytes(other_module.serialize())
    code_file.chmod(0o666)
    assert run_module(path, stdin=b"{}\n").stdout == b'{"id": 1}\n'


@pytest.mark.parametrize(
    ("content", "code", "reason"),
    [
        (b"#!/bin/sh\n", "X0404", "not a WebAssembly module"),
        (b"\0asm\x0d\0\1\0", "X0404", "a component"),
        (b"\0asm\1\0\0\0rubbish", "X0404", "cannot be compiled"),
        (b"", "X0404", "not a WebAssembly module"),
        (None, "X0401", "cannot be read"),
    ],
)
async def test_a_file_that_is_not_a_module_is_reported(
    tmp_path: Path, content: bytes | None, code: str, reason: str
) -> None:
    path = tmp_path / "ext.wasm" if content is None else write_module(tmp_path, content)
    async with exthost.Host.from_config(config(path)) as host:
        with pytest.raises(SpawnFailed) as caught:
            await host["box"].call("get")
    assert caught.value.code == code and reason in caught.value.message
    assert ("correct source.path" in caught.value.help) == (content is None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(module)", "has no function _start"),
        ('(module (import "env" "open_door" (func)) (func (export "_start")))', "open_door"),
    ],
)
async def test_a_module_that_is_not_a_wasi_command_is_reported(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = write_module(tmp_path, bytes(wasmtime.wat2wasm(text)))
    async with exthost.Host.from_config(config(path)) as host:
        with pytest.raises(HandshakeFailed) as caught:
            await host["box"].call("get")
    assert reason in "\n".join(caught.value.evidence.stderr)


def grant_error(tmp_path: Path, **permissions: Any) -> Refused:
    """Return the error of a module whose permissions are refused."""
    path = write_module(tmp_path, morphir())

    async def attempt() -> Refused:
        async with exthost.Host.from_config(config(path, permissions=permissions)) as host:
            with pytest.raises(Refused) as caught:
                await host["box"].call("get")
        return caught.value

    return asyncio.run(attempt())


def test_permissions_that_the_engine_cannot_enforce_are_refused(tmp_path: Path) -> None:
    assert grant_error(tmp_path, network=True).code == "X0337"
    (tmp_path / "file").touch()
    error = grant_error(tmp_path, filesystem=[str(tmp_path / "file")])
    assert error.code == "X0337" and "folders only" in error.message
    (tmp_path / "state").mkdir(exist_ok=True)
    assert grant_error(tmp_path, filesystem=[f"{tmp_path}:rw"]).code == "X0397"
    (tmp_path / "link").symlink_to("/usr")
    assert grant_error(tmp_path, filesystem=[str(tmp_path / "link")]).code == "X0383"


async def test_a_module_cannot_write_the_config(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    write_module(tmp_path, morphir())
    (folder / "exthost.toml").write_text(
        '[[extensions]]\nname = "box"\nsource = { type = "wasm", path = "../ext.wasm" }\n'
        f'permissions = {{ filesystem = ["{folder}:rw"] }}\n'
    )
    async with exthost.Host.from_config(folder / "exthost.toml") as host:
        with pytest.raises(Refused) as caught:
            await host["box"].call("get")
    assert caught.value.code == "X0360" and "exthost.toml" in caught.value.message


async def test_a_module_cannot_write_code_of_another_extension(tmp_path: Path) -> None:
    # Other sandboxes mount the code of other extensions read-only. The engine cannot do this.
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "other.py").write_text("")
    module_path = write_module(tmp_path, morphir())
    box = config(module_path, permissions={"filesystem": [f"{folder}:rw"]})["extensions"][0]
    source = {"command": sys.executable, "args": [str(folder / "other.py")]}
    other = {"name": "other", "source": source, "start": "lazy"}
    for entries, refused_name in (([box, other], "other"), ([other, box], "box")):
        async with exthost.Host.from_config({"extensions": entries}) as host:
            with pytest.raises(Refused) as caught:
                await host[refused_name].call("get")
        assert caught.value.code == "X0396" and str(folder) in caught.value.message


async def test_without_the_engine_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.launch.wasm.find_spec", lambda _: None)
    path = write_module(tmp_path, morphir())
    async with exthost.Host.from_config(config(path)) as host:
        with pytest.raises(Refused) as caught:
            await host["box"].call("get")
    assert caught.value.code == "X0336" and "exthost[wasm]" in caught.value.help


async def test_closing_the_host_ends_a_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In place of the compiler, a program that writes its pid and runs until the end of its stdin.
    # A compiler that writes its pid into a file and waits for the end of stdin.
    runner, pid_file = tmp_path / "runner.py", tmp_path / "started"
    runner.write_text(
        f"import os, sys\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\nsys.stdin.read()\n"
    )
    monkeypatch.setattr(wasm_runner, "__file__", str(runner))
    path = write_module(tmp_path, morphir())
    entry = config(path)
    async with asyncio.timeout(60):
        async with exthost.Host.from_config({**entry, "defaults": {"start": "lazy"}}) as host:
            call = asyncio.ensure_future(host["box"].call("get"))
            await wait_until(lambda: pid_file.exists() and pid_file.read_text() != "")
        with pytest.raises(exthost.errors.ExthostError):
            await call
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


async def test_a_module_that_is_configured_as_a_program_is_reported(tmp_path: Path) -> None:
    path = write_module(tmp_path, morphir())
    path.chmod(0o755)
    source = {"type": "process", "command": str(path)}
    async with exthost.Host.from_config({"extensions": [{"name": "x", "source": source}]}) as host:
        with pytest.raises(SpawnFailed) as caught:
            await host["x"].call("get")
    assert "is a WebAssembly module" in caught.value.message


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"type": "wasm"}, "has no `path`"),
        ({"type": "wasm", "path": "x.wasm", "command": "y"}, "command"),
        ({"type": "wasn", "path": "x.wasm"}, 'did you mean "wasm"?'),
    ],
)
def test_a_mistake_in_the_source_is_reported(source: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_mapping({"extensions": [{"name": "box", "source": source}]})
    assert message in f"{caught.value.message} {caught.value.help}"


@pytest.fixture(scope="module")
def words_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example in Go, compiled to a WebAssembly module."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    path = tmp_path_factory.mktemp("wasm") / "words.wasm"
    subprocess.run(
        ["go", "build", "-o", str(path), str(EXAMPLE / "words.go")],
        env={**os.environ, "GOOS": "wasip1", "GOARCH": "wasm"},
        check=True,
        timeout=BUILD_SECONDS,
        capture_output=True,
    )
    return path


@pytest.mark.more
async def test_the_example_in_go_reads_only_the_files_it_was_granted(
    words_module: Path, tmp_path: Path
) -> None:
    granted, secret = tmp_path / "granted", tmp_path / "secret.txt"
    granted.mkdir()
    (granted / "text.txt").write_text("one two three")
    secret.write_text("not for everybody")
    (granted / "link.txt").symlink_to(secret)
    permissions = {"filesystem": [str(granted)], "max_memory": "64MB"}
    entry = config(words_module, dialect="mcp", permissions=permissions)
    async with exthost.Host.from_config(entry) as host:

        async def count(path: Path | str) -> exthost.ToolResult:
            arguments = {"path": str(path)}
            return await host.call_tool("ext_box_count_words", arguments, check=False)

        assert (await count(granted / "text.txt")).data == {"words": 3}
        for path in (secret, granted / "link.txt", f"{granted}/../secret.txt", "/etc/passwd"):
            assert (await count(path)).is_error
