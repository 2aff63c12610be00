"""A locked extension runs its sources, and no compiled file that somebody planted beside them.

A lock (`exthost.lock`) has the digests of an extension's sources. Python prefers a compiled file in
`__pycache__` whose header fits the source, whatever code it has. So a locked extension must not
read those of its own folder: without a sandbox its compiled files are in a folder of the host, and
in a sandbox they are hidden or compiled by the host (`bytecode/demo/sealed-…`).

`Project` is a config with an extension "demo", whose tool `get` replies "ran get".
"""

import importlib.util
import marshal
import os
import struct
import sys
from pathlib import Path

import pytest

import exthost
from exthost.launch import sealed_bytecode
from tests.extensions.locked_project import Project

IMPORT = "import helper\n"
PYTHON = sys.executable


def plant(source: Path, text: str) -> Path:
    """Write a compiled file with other code, which Python takes for that of the source."""
    status = source.stat()
    code = marshal.dumps(compile(text, str(source), "exec"))
    cache = Path(importlib.util.cache_from_source(str(source)))
    cache.parent.mkdir(exist_ok=True)
    # After the magic number: flags, and the time and size of the source, which must fit.
    head = struct.pack("<3I", 0, int(status.st_mtime), status.st_size)
    cache.write_bytes(importlib.util.MAGIC_NUMBER + head + code)
    return cache


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "planted-code-ran"


def make_project(tmp_path: Path, flags: list[str]) -> Project:
    """Make a project whose program imports the module `helper`, with these options of Python."""
    project = Project(tmp_path)
    project.program.write_text(IMPORT + project.program.read_text())
    (project.program.parent / "helper.py").write_text("x = 1\n")
    project.entries[0]["source"]["args"][:2] = flags
    project.write_config()
    return project


async def run(project: Project) -> str:
    async with exthost.Host.from_config(project.config) as host:
        return (await host.call_tool("get")).text


@pytest.mark.more
@pytest.mark.parametrize(
    "flags",
    [[], ["-S"], ["-S", "-E"], ["-I"], ["-SIu"], ["-X", "dev", "-E"], ["-W", "ignore", "-I"]],
)
async def test_planted_bytecode_is_run_without_a_lock_and_not_with_one(
    tmp_path: Path, marker: Path, flags: list[str]
) -> None:
    project = make_project(tmp_path, flags)
    if any("I" in flag for flag in flags):  # the folder of the script is not searched then
        folder = str(project.program.parent)
        text = project.program.read_text()
        project.program.write_text(f"import sys; sys.path.insert(0, sys.argv[0][:-8])\n{text}")
        project.entries[0]["source"]["args"][len(flags)] = f"{folder}/main.py"
        project.write_config()
    await project.write_lock()
    plant(project.program.parent / "helper.py", f"open({str(marker)!r}, 'w')")
    assert await run(project) == "ran get"
    assert not marker.exists()
    project.lock.unlink()
    assert await run(project) == "ran get"
    assert marker.exists()  # otherwise this test shows nothing


async def test_a_wrapper_that_drops_variables_is_refused_if_there_is_bytecode(
    tmp_path: Path, marker: Path
) -> None:
    project = make_project(tmp_path, [])
    source = project.entries[0]["source"]
    source["args"] = ["-i", source["command"], *source["args"]]
    source["command"] = "env"
    project.write_config()
    await project.write_lock()
    plant(project.program.parent / "helper.py", f"open({str(marker)!r}, 'w')")
    async with exthost.Host.from_config(project.config) as host:
        assert host["demo"].cause is not None and host["demo"].cause.code == "X1827"
    assert not marker.exists()


@pytest.mark.parametrize(
    ("program", "options"),
    [
        (PYTHON, ["-X", "pycache_prefix={}"]),
        (PYTHON, ["-SXpycache_prefix={}"]),
        ("env", ["PYTHONPYCACHEPREFIX={}", PYTHON]),
    ],
)
async def test_a_command_that_names_its_own_folder_of_compiled_files_is_refused(
    tmp_path: Path, marker: Path, program: str, options: list[str]
) -> None:
    folder = str(tmp_path / "planted")
    project = make_project(tmp_path, [option.format(folder) for option in options])
    project.entries[0]["source"]["command"] = program
    project.write_config()
    await project.write_lock()
    helper = project.program.parent / "helper.py"
    cache = Path(folder, *helper.parts[1:-1], f"helper.{sys.implementation.cache_tag}.pyc")
    cache.parent.mkdir(parents=True, exist_ok=True)
    plant(helper, f"open({str(marker)!r}, 'w')").replace(cache)
    async with exthost.Host.from_config(project.config) as host:
        assert host["demo"].cause is not None and host["demo"].cause.code == "X1827"
        assert folder in host["demo"].cause.message
    assert not marker.exists()


async def test_a_locked_start_writes_no_compiled_file_into_the_package(tmp_path: Path) -> None:
    project = make_project(tmp_path, [])
    await project.write_lock()
    for cache in project.program.parent.glob("**/__pycache__/*"):
        cache.unlink()
    assert await run(project) == "ran get"
    assert not list(project.program.parent.glob("**/*.pyc"))
    state = Path(os.environ["EXTHOST_HOME"])
    assert list(state.glob(f"bytecode/demo/*/**/helper.{sys.implementation.cache_tag}.pyc"))


async def test_compiled_files_of_an_earlier_state_are_deleted(tmp_path: Path) -> None:
    project = make_project(tmp_path, [])
    state = Path(os.environ["EXTHOST_HOME"])
    for text in ("x = 1\n", "x = 2\n"):
        (project.program.parent / "helper.py").write_text(text)
        await project.write_lock()
        assert await run(project) == "ran get"
    assert len(list(state.glob("bytecode/demo/*"))) == 1


def make_sandboxed_project(tmp_path: Path, flags: list[str]) -> Project:
    project = make_project(tmp_path, flags)
    paths = [tmp_path / "offer.json", tmp_path / "initialize.json", project.program.parent]
    project.entries[0]["permissions"] = {"filesystem": list(map(str, paths))}
    project.write_config()
    return project


async def test_in_a_sandbox_planted_bytecode_is_not_run_either(tmp_path: Path) -> None:
    project = make_sandboxed_project(tmp_path, [])
    await project.write_lock()
    assert await run(project) == "ran get"
    plant(project.program.parent / "helper.py", "raise SystemExit(7)")
    assert await run(project) == "ran get"
    project.lock.unlink()
    async with exthost.Host.from_config(project.config) as host:
        cause = host["demo"].cause
        assert cause is not None and "exited with 7" in cause.evidence.exit


# Replies to a call with the modules that have compiled files.
REPORT = """
import os, sys
def report():
    names = ("helper", "json.decoder")
    return " ".join(name for name in names if os.path.exists(sys.modules[name].__cached__))
"""


def let_report(project: Project) -> None:
    text = project.program.read_text().replace("f\"ran {params['name']}\"", "report()")
    project.program.write_text(f"{REPORT}{text}")


@pytest.mark.parametrize("flags", [["-S"], ["-S", "-E"], ["-SIu"]])
async def test_in_a_sandbox_only_compiled_files_of_the_package_are_hidden(
    tmp_path: Path, flags: list[str]
) -> None:
    project = make_sandboxed_project(tmp_path, flags)
    let_report(project)
    text = project.program.read_text()
    project.program.write_text(f"import sys; sys.path.insert(0, sys.argv[0][:-8])\n{text}")
    await project.write_lock()
    plant(project.program.parent / "helper.py", "raise SystemExit(7)")
    assert await run(project) == "json.decoder"


@pytest.mark.more
@pytest.mark.parametrize("flags", [["-S"], ["-S", "-E"]])
async def test_in_a_sandbox_a_large_package_is_compiled_once_for_each_content(
    tmp_path: Path, flags: list[str]
) -> None:
    project = make_sandboxed_project(tmp_path, flags)
    let_report(project)
    helper = plant_many(project)
    state = Path(os.environ["EXTHOST_HOME"])
    for content in ("x = 1\n", "x = 2\n"):
        helper.write_text(content)
        await project.write_lock()
        cache = plant(helper, "raise SystemExit(7)")
        for _ in range(2):
            assert await run(project) == "helper json.decoder"
        cache.unlink()
    modules = f"{project.program.parent}/helper.*.pyc"
    sealed = [path for path in state.glob("bytecode/demo/sealed-*") if list(path.glob(modules[1:]))]
    assert len(sealed) == 2
    for folder in sealed:
        (compiled,) = folder.glob(modules[1:])
        assert not compiled.is_symlink() and b"SystemExit" not in compiled.read_bytes()


def plant_many(project: Project) -> Path:
    """Give the package many folders with compiled files, one of them of a module that cannot be
    compiled. Return the module that the program imports."""
    for number in range(9):
        module = project.program.parent / f"part{number}" / "module.py"
        module.parent.mkdir()
        module.write_text("x = 1" if number else "def (")
        plant(module, "raise SystemExit(7)")
    return project.program.parent / "helper.py"


@pytest.mark.more
async def test_a_package_that_changes_while_it_is_compiled_has_no_compiled_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_sandboxed_project(tmp_path, [])
    let_report(project)
    helper = plant_many(project)
    await project.write_lock()
    plant(helper, "raise SystemExit(7)")
    compile_modules = sealed_bytecode.BytecodeCompilation._compile

    def compile_and_change(compilation: sealed_bytecode.BytecodeCompilation) -> bytes:
        output = compile_modules(compilation)
        (project.program.parent / "part1" / "module.py").write_text("x = 2")
        return output

    monkeypatch.setattr(sealed_bytecode.BytecodeCompilation, "_compile", compile_and_change)
    async with exthost.Host.from_config(project.config):
        pass
    state = Path(os.environ["EXTHOST_HOME"])
    folder = str(project.program.parent)[1:]
    assert not [path for path in state.glob("bytecode/demo/sealed-*") if (path / folder).exists()]
