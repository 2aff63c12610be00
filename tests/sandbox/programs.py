"""Trials of the sandbox: real programs run in it unchanged, in each dialect (the protocol of an
extension), behind wrappers and package managers, and compiled.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. It raises
NotHere if this machine lacks a program that it needs.
"""

import asyncio
import json
import os
import shutil
import sys
import textwrap
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import exthost
from exthost.errors import ExthostError
from tests.extensions import nexo_tree, roder, synaps_tree
from tests.sandbox.confined import EXPLORER, explore, folder, shared_folder
from tests.sandbox.trials import NotHere, trial

PROJECT = Path(__file__).parent.parent.parent
EXAMPLES = PROJECT / "examples" / "morphir"


# The command of a child in its package, which is run by the Python in PATH.
IN_PLACE: dict[str, Any] = {"command": "python3", "args": ["-S", "-E", "ext.py"]}


async def check_runs_in_sandbox(argv: list[str], **settings: Any) -> None:
    """Check that the handshake of this program succeeds in the strict sandbox."""
    settings = {"permissions": {}, **settings}
    try:
        async with exthost.connect(argv, **{"dialect": "morphir", **settings}) as ext:
            assert ext.enforced["network"] == "netns+seccomp"
            assert ext.enforced["filesystem"] == "mountns"
            assert ext.state == "ready"
    except ExthostError as error:
        raise AssertionError(f"{error} {error.evidence}") from error


async def run_command(*argv: str) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


def needs(name: str) -> str:
    """Return the path of a program. The trial does not run on a machine without it."""
    path = shutil.which(name)
    if path is None:
        raise NotHere(f"no {name}")
    return path


# -- dialects ------------------------------------------------------------------------------------


@trial
async def a_morphir_extension_runs() -> None:
    await check_runs_in_sandbox([sys.executable, str(EXAMPLES / "text.py")])


@trial
async def a_cigen_extension_runs() -> None:
    child = PROJECT / "tests" / "extensions" / "cigen_child.py"
    # The packages may be in a folder of PYTHONPATH.
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    await check_runs_in_sandbox([sys.executable, str(child)], dialect="cigen", env=env)


@trial
async def an_mcp_server_runs() -> None:
    child = PROJECT / "tests" / "extensions" / "mcp_child.py"
    await check_runs_in_sandbox([sys.executable, str(child)], dialect="mcp")


@trial
async def a_synaps_extension_runs_from_its_manifest() -> None:
    with folder() as place:
        shutil.copy(
            synaps_tree.CHILD, synaps_tree.write_plugin(place / "toy", **IN_PLACE) / "ext.py"
        )
        discovery = {"search_paths": [str(place)]}
        config = {"discovery": discovery, "defaults": {"permissions": {}, "start": "eager"}}
        async with exthost.Host.from_config(config) as host:
            assert host["toy"].state == "ready", host["toy"].cause
            assert host["toy"].enforced["filesystem"] == "mountns"


@trial
async def a_nexo_extension_runs_from_its_manifest() -> None:
    with folder() as place:
        manifest = nexo_tree.write_plugin(place / "toy", "toy")
        transport = tomllib.loads(manifest.read_text())["transport"]
        original_command = (
            f"command = {json.dumps(transport['command'])}\nargs = {json.dumps(transport['args'])}"
        )
        new_command = 'command = "python3"\nargs = ["-S", "-E", "ext.py"]'
        manifest.write_text(manifest.read_text().replace(original_command, new_command))
        shutil.copy(nexo_tree.CHILD, place / "toy" / "ext.py")
        discovery = {"search_paths": [str(place)]}
        config = {"discovery": discovery, "defaults": {"permissions": {}}}
        async with exthost.Host.from_config(config) as host:
            assert host["toy"].state == "ready", host["toy"].cause
            assert host["toy"].enforced["filesystem"] == "mountns"
            assert (await host.call_tool("ext_toy_echo", {"a": 1})).data == {"a": 1}


@trial
async def a_roder_extension_runs_from_its_manifest() -> None:
    with folder() as place:
        async with exthost.Host.from_config(
            {"process_extensions": [roder.config_entry(place)], "defaults": {"permissions": {}}}
        ) as host:
            ext = host["toy"]
            assert (await ext.call_tool("echo", {"a": 1})).data
            assert ext.enforced["network"] == "netns+seccomp"


# -- behind shims --------------------------------------------------------------------------------


@trial
async def the_python_of_a_virtual_environment_runs() -> None:
    with folder() as place:
        await run_command(sys.executable, "-m", "venv", "--without-pip", str(place / "env"))
        (place / "work").mkdir()
        script = place / "work" / "ext.py"
        script.write_bytes(Path(EXPLORER[-1]).read_bytes())
        argv = [str(place / "env" / "bin" / "python"), str(script)]
        async with exthost.connect(argv, dialect="morphir", permissions={}) as ext:
            code = "import sys; result = [sys.prefix, sys.base_prefix]"
            assert await explore(ext, code) == [str(place / "env"), sys.base_prefix]


@trial
async def a_script_by_its_first_line_runs() -> None:
    with folder() as place:
        script = place / "ext"
        script.write_text(f"#!{sys.executable}\n" + Path(EXPLORER[-1]).read_text())
        script.chmod(0o755)
        await check_runs_in_sandbox([str(script)])


@trial
async def a_node_extension_runs() -> None:
    await check_runs_in_sandbox([needs("node"), str(EXAMPLES / "text.mjs")])


BUSY_NODE = """
import { execFileSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { Worker } from "node:worker_threads";
import { createInterface } from "node:readline";
const started = [1, 2, 3].map(() => new Worker("setTimeout(() => {}, 1)", { eval: true }));
await Promise.all(started.map((worker) => new Promise((done) => worker.on("exit", done))));
await writeFile("/tmp/written", execFileSync("/bin/echo", ["hi"]));
for await (const line of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify({ id: JSON.parse(line).id, result: [] }));
}
"""


@trial
async def a_node_program_with_workers_and_processes_runs() -> None:
    node = needs("node")
    with folder() as place:
        (place / "busy.mjs").write_text(BUSY_NODE)
        await check_runs_in_sandbox([node, str(place / "busy.mjs")])


@trial
async def a_java_program_with_threads_and_processes_runs() -> None:
    await check_runs_in_sandbox([needs("java"), str(PROJECT / "tests" / "sandbox" / "Busy.java")])


@trial
async def a_python_program_with_threads_and_processes_runs() -> None:
    code = """
        import concurrent.futures, multiprocessing, os, signal, subprocess, tempfile, threading
        context = multiprocessing.get_context("fork")
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            total = sum(threads.map(lambda n: n, range(100)))
        queue = context.SimpleQueue()
        child = context.Process(target=queue.put, args=(5,))
        child.start()
        child.join()
        with tempfile.TemporaryFile() as file:
            file.write(subprocess.check_output(["/bin/echo", "hi"]))
        result = [total, queue.get(), child.exitcode]
    """
    async with exthost.connect(EXPLORER, dialect="morphir", permissions={}) as ext:
        assert await explore(ext, code) == [4950, 5, 0]


@trial
async def a_package_that_npx_finds_in_its_project_runs() -> None:
    npx = needs("npx")
    with folder() as place:
        package = place / "node_modules" / "texts"
        package.mkdir(parents=True)
        source = (EXAMPLES / "text.mjs").read_text()
        first = "" if source.startswith("#!") else "#!/usr/bin/env node\n"
        (package / "text.mjs").write_text(first + source)
        (package / "text.mjs").chmod(0o755)
        manifest = '{"name": "texts", "version": "1.0.0", "bin": {"texts": "text.mjs"}}'
        (package / "package.json").write_text(manifest)
        (place / "package.json").write_text('{"name": "project", "dependencies": {"texts": "1"}}')
        (place / "node_modules" / ".bin").mkdir()
        (place / "node_modules" / ".bin" / "texts").symlink_to("../texts/text.mjs")
        await check_runs_in_sandbox([npx, "--no-install", "texts"], cwd=str(place))


async def help_of(argv: list[str], **settings: Any) -> str:
    """Return the help of the error with which a sandboxed program fails to start."""
    defaults: dict[str, Any] = {"dialect": "morphir", "permissions": {}}
    try:
        async with exthost.connect(argv, **{**defaults, **settings}):
            raise AssertionError("it started")
    except ExthostError as error:
        return error.help


@trial
async def the_help_for_a_module_beside_a_script_names_the_sandbox() -> None:
    source = Path(EXPLORER[-1]).read_text()
    with shared_folder() as place:
        (place / "run.py").write_text(f"import helper\n{source}")
        (place / "helper.py").write_text("")
        argv = ["/usr/bin/python3", str(place / "run.py")]
        help = await help_of(argv)
        assert f'hides {place}/helper.py: set cwd = "{place}"' in help, help
        await check_runs_in_sandbox(argv, cwd=str(place))
        (place / "run.py").write_text(f"import not_there\n{source}")
        assert "or its sandbox hides it" in await help_of(argv)


@trial
async def the_help_for_a_program_that_writes_its_own_folder_names_the_grant() -> None:
    source = Path(EXPLORER[-1]).read_text()
    with shared_folder() as place:
        (place / "data").mkdir()
        (place / "data").chmod(0o777)
        for path in ("data/x", f"{place}/data/x"):
            text = f"import os\nopen({path!r}, 'w').close()\n{source}"
            (place / "run.py").write_text(text)
            argv = ["/usr/bin/python3", str(place / "run.py")]
            help = await help_of(argv, cwd=str(place))
            folder = f"{place}/data" if path.startswith("/") else str(place)
            assert f'add "{folder}:rw" to permissions.filesystem' in help, help
        granted = {"filesystem": [f"{place}/data:rw"]}
        await check_runs_in_sandbox(argv, cwd=str(place), permissions=granted)


@trial
async def the_help_for_a_package_that_is_not_installed_names_the_command() -> None:
    (uvx,) = prebuilt("uvx")
    prebuilt("uv")
    help = await help_of([uvx, "--offline", "not-there"], env={"UV_PYTHON": "/usr/bin/python3"})
    assert "permissions.network = true" in help and "uv tool install not-there" in help, help
    npx = needs("npx")
    help = await help_of([npx, "--offline", "-y", "not-there@1.0.0"])
    assert "permissions.network = true" in help and "npm install -g not-there@1.0.0" in help, help


WHEEL = "texts-1.0-py3-none-any.whl"


def wheel(place: Path) -> Path:
    """Build a wheel with a program, and return its path."""
    about = "texts-1.0.dist-info"
    source = "def run():\n" + textwrap.indent((EXAMPLES / "text.py").read_text(), "    ")
    with zipfile.ZipFile(place / WHEEL, "w") as archive:
        archive.writestr("texts.py", source)
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: texts\nVersion: 1.0\n")
        tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{about}/WHEEL", tag)
        archive.writestr(f"{about}/entry_points.txt", "[console_scripts]\ntexts = texts:run\n")
        archive.writestr(f"{about}/RECORD", "")
    return place / WHEEL


@trial
async def uvx_runs_with_a_private_cache_and_with_one_that_is_granted() -> None:
    (uvx,) = prebuilt("uvx")
    prebuilt("uv")
    with shared_folder() as place:
        argv = [uvx, "--offline", "--from", str(wheel(place)), "texts"]
        folders = {"UV_CACHE_DIR": place / "cache", "UV_TOOL_DIR": place / "tools"}
        variables = {name: str(path) for name, path in folders.items()}
        env = {**variables, "UV_PYTHON": "/usr/bin/python3", "PATH": "/usr/bin:/bin"}
        await check_runs_in_sandbox(argv, env={**env, "HOME": str(place)})
        assert not (place / "cache").exists()
        for path in folders.values():
            path.mkdir()
            path.chmod(0o777)
        granted = [f"{path}:rw" for path in folders.values()]
        await check_runs_in_sandbox(argv, env=env, permissions={"filesystem": granted})
        assert list((place / "cache").iterdir())


# -- compiled ------------------------------------------------------------------------------------

C_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    static char line[65536];
    while (fgets(line, sizeof line, stdin)) {
        char *id = strstr(line, "\"id\":");
        long number = id ? strtol(id + 5, 0, 10) : 0;
        const char *result = strstr(line, "\"capabilities\"") ? "[]" : "null";
        printf("{\"id\":%ld,\"result\":%s}\n", number, result);
        fflush(stdout);
    }
    return 0;
}
"""


@trial
async def a_compiled_c_program_runs() -> None:
    compiler = needs("cc")
    with folder() as place:
        (place / "ext.c").write_text(C_SOURCE)
        await run_command(compiler, "-o", str(place / "ext"), str(place / "ext.c"))
        await check_runs_in_sandbox([str(place / "ext")])


def prebuilt(name: str) -> list[str]:
    """Return a program that `test_trials` has built, because not every user has a compiler."""
    path = Path(os.environ.get("EXTHOST_TEST_BINARIES", "/nowhere"), name)
    if not path.exists():
        raise NotHere(f"{name} was not built")
    return [str(path)]


@trial
async def a_compiled_rust_program_runs() -> None:
    await check_runs_in_sandbox(prebuilt("rust"))


@trial
async def a_compiled_go_program_runs() -> None:
    await check_runs_in_sandbox(prebuilt("go"))
