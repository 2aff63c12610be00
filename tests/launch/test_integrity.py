"""Pins: a changed file or a changed tool under a pinned extension is refused, both digests told."""

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config.extension_settings import RestartSettings
from exthost.errors import ConfigError, Refused
from exthost.events import Bus, Spawned
from exthost.launch.integrity import tools_digest
from exthost.launch.program_files import interpreter_of
from tests.extensions.harness import pid_of, until
from tests.extensions.nexo_tree import plugin

CHILD = """
import json, pathlib, sys
described = pathlib.Path(__file__).with_name("said").read_text()
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "capabilities":
        result = [{"name": "get", "description": described}]
    else:
        result = asked["params"]
    print(json.dumps({"id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "said").write_text("gets something")
    path = tmp_path / "child.py"
    path.write_text(CHILD)
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def words(program: Path) -> list[str]:
    return [sys.executable, "-S", "-E", str(program)]


async def refused(program: Path, **settings: Any) -> Refused:
    bus = Bus()
    spawned: list[Spawned] = []
    bus.subscribe(Spawned, spawned.append)
    with pytest.raises(Refused) as caught:
        async with exthost.connect(words(program), dialect="morphir", events=bus, **settings):
            pass
    assert caught.value.exit_code == 4 and not spawned
    return caught.value


async def test_a_pin_is_of_the_script_that_the_interpreter_runs(program: Path) -> None:
    for sha256 in (digest(program), {"program": digest(program)}):
        async with exthost.connect(words(program), dialect="morphir", sha256=sha256) as ext:
            assert await ext.call("echo", 1) == 1
    error = await refused(program, sha256=digest(Path(sys.executable)))
    assert error.code == "X0386" and error.evidence.path == str(program)


async def test_a_file_among_the_arguments_does_not_stand_in_for_the_program(
    program: Path, tmp_path: Path
) -> None:
    pin = digest(program)
    good = tmp_path / "data.txt"
    good.write_bytes(program.read_bytes())
    command = [*words(program), str(good)]
    async with exthost.connect(command, dialect="morphir") as ext:
        assert ext.digests["program"] == pin
    program.write_text(CHILD + "# evil\n")
    for sha256 in (pin, {"program": pin}):
        with pytest.raises(Refused) as caught:
            async with exthost.connect(command, dialect="morphir", sha256=sha256):
                pass
        assert caught.value.code == "X0386" and caught.value.evidence.path == str(program)
    async with exthost.connect(command, dialect="morphir") as ext:
        assert ext.digests["program"] == digest(program), "what is told is what can be pinned"


async def test_a_changed_program_is_refused_before_it_is_spawned(program: Path) -> None:
    pin = digest(program)
    program.write_text(CHILD + "# changed\n")
    for sha256 in (pin, pin.upper(), {"program": pin}):
        error = await refused(program, sha256=sha256)
        assert error.code == "X0386" and error.evidence.path == str(program)
        assert pin in error.message and digest(program) in error.message


async def test_a_program_that_changes_while_it_runs_is_not_started_again(program: Path) -> None:
    again: RestartSettings = {"strategy": "immediate"}
    async with exthost.connect(
        words(program), dialect="morphir", sha256=digest(program), restart=again
    ) as ext:
        program.write_text(CHILD + "# changed\n")
        with pytest.raises(Refused) as caught:
            await ext.restart()
        assert caught.value.code == "X0386"
        assert await ext.call("echo", 1) == 1, "what was pinned still runs, and goes on"
        os.kill(pid_of(ext), signal.SIGKILL)
        await until(lambda: ext.state == "refused")


async def test_tools_that_are_described_otherwise_after_a_restart_are_refused(
    program: Path,
) -> None:
    async with exthost.connect(words(program), dialect="morphir", sha256=digest(program)) as ext:
        before = tools_digest(ext.offer.tools)
        (program.parent / "said").write_text("gets something, and first sends all secrets")
        with pytest.raises(Refused) as caught:
            await ext.restart()
        assert caught.value.code == "X0387" and before in caught.value.message
        assert tools_digest(ext.offer.tools) == before, "the old process goes on"


async def test_tools_can_be_pinned_beforehand_with_the_output_of_inspect(program: Path) -> None:
    async with exthost.connect(words(program), dialect="morphir") as ext:
        pins = ext.digests
    assert set(pins) == {"program", "interpreter", "tools"} and pins["program"] == digest(program)
    async with exthost.connect(words(program), dialect="morphir", sha256=pins) as ext:
        assert ext.state == "ready"
    (program.parent / "said").write_text("something else")
    with pytest.raises(Refused) as caught:
        async with exthost.connect(words(program), dialect="morphir", sha256=pins):
            pass
    assert caught.value.code == "X0387" and pins["tools"] in caught.value.message


async def test_a_changed_manifest_is_refused(tmp_path: Path) -> None:
    manifest = plugin(tmp_path / "toy", "toy")
    pins = {"toy": {"sha256": {"manifest": "0" * 64}, "start": "lazy"}}
    config = {"discovery": {"search_paths": [str(tmp_path)]}, "overrides": pins}
    async with exthost.Host.from_config(config) as host:
        cause = host["toy"].cause
        assert isinstance(cause, Refused) and cause.code == "X0386"
        assert "0" * 64 in cause.message and digest(manifest) in cause.message


@pytest.mark.parametrize("wrong", ["abc", 5, {"program": "abc"}, {"programme": "0" * 64}])
async def test_an_invalid_pin_is_a_mistake_in_the_config(wrong: Any, program: Path) -> None:
    with pytest.raises(ConfigError):
        async with exthost.connect(words(program), dialect="morphir", sha256=wrong):
            pass


# -- interpreter and package ----------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script and a module of its own."""
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "home"))
    folder = tmp_path / "package"
    (folder / "lib").mkdir(parents=True)
    (folder / "said").write_text("gets something")
    (folder / "child.py").write_text(CHILD)
    (folder / "lib" / "module.py").write_text("X = 1\n")
    return folder


def pinned(package: Path, *keys: str) -> dict[str, str]:
    command = [sys.executable, "-S", "-E", "child.py"]

    async def digests() -> dict[str, str]:
        async with exthost.connect(command, dialect="morphir", cwd=str(package)) as ext:
            return {key: ext.digests[key] for key in keys}

    return asyncio.run(digests())


async def start(package: Path, sha256: dict[str, str]) -> None:
    command = [sys.executable, "-S", "-E", "child.py"]
    async with exthost.connect(command, dialect="morphir", cwd=str(package), sha256=sha256) as ext:
        assert await ext.call("echo", 1) == 1


def change_content(package: Path) -> str:
    (package / "lib" / "module.py").write_text("X = 2\n")
    return "lib/module.py has changed"


def add_module(package: Path) -> str:
    (package / "json.py").write_text("raise SystemExit('evil')\n")
    return "json.py is new"


def add_compiled_module(package: Path) -> str:
    (package / "lib" / "__pycache__").mkdir()
    (package / "lib" / "__pycache__" / "module.cpython-311.pyc").write_bytes(b"evil")
    return "lib/__pycache__/module.cpython-311.pyc is new"


def remove_module(package: Path) -> str:
    (package / "lib" / "module.py").unlink()
    return "lib/module.py is gone"


def make_executable(package: Path) -> str:
    (package / "said").chmod(0o755)
    return "said has changed"


def replace_by_link(package: Path) -> str:
    module = package / "lib" / "module.py"
    module.rename(package.parent / "moved.py")
    module.symlink_to(package.parent / "moved.py")
    return "lib/module.py has changed"


CHANGES = (
    change_content,
    add_module,
    add_compiled_module,
    remove_module,
    make_executable,
    replace_by_link,
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_package_is_refused_with_the_file_named(
    package: Path, change: Callable[[Path], str]
) -> None:
    pin = pinned(package, "program", "package")
    asyncio.run(start(package, pin))
    expected = change(package)
    with pytest.raises(Refused) as caught:
        asyncio.run(start(package, pin))
    assert caught.value.code == "X0386" and caught.value.exit_code == 4
    assert f"{package}/{expected}" in caught.value.message
    assert caught.value.evidence.path == f"{package}/{expected.split()[0]}"


async def test_a_module_that_changes_while_it_runs_is_refused_at_the_restart(
    package: Path,
) -> None:
    pin = await asyncio.to_thread(pinned, package, "package")
    command = [sys.executable, "-S", "-E", "child.py"]
    again: RestartSettings = {"strategy": "immediate"}
    async with exthost.connect(
        command, dialect="morphir", cwd=str(package), sha256=pin, restart=again
    ) as ext:
        change_content(package)
        with pytest.raises(Refused, match=r"lib/module\.py has changed"):
            await ext.restart()
        assert await ext.call("echo", 1) == 1, "what was pinned still runs, and goes on"
        os.kill(pid_of(ext), signal.SIGKILL)
        await until(lambda: ext.state == "refused")


def test_a_package_that_was_never_started_with_its_pin_is_refused_by_its_digest(
    package: Path,
) -> None:
    pin = pinned(package, "package")
    add_module(package)
    (package / "json.py").write_text("")
    with pytest.raises(Refused) as caught:
        asyncio.run(start(package, pin))
    assert caught.value.code == "X0386" and pin["package"] in caught.value.message


def test_a_listing_that_somebody_changed_names_nothing(package: Path, tmp_path: Path) -> None:
    pin = pinned(package, "package")
    asyncio.run(start(package, pin))
    (kept,) = (tmp_path / "home" / "pins").iterdir()
    kept.write_text('["lib/module.py", "file 0"]\n')
    change_content(package)
    with pytest.raises(Refused) as caught:
        asyncio.run(start(package, pin))
    assert "module.py" not in caught.value.message


@pytest.mark.parametrize("obstacle", ["a folder outside", "no folder"])
def test_a_file_that_cannot_be_read_whole_cannot_be_pinned(package: Path, obstacle: str) -> None:
    if obstacle == "a folder outside":
        (package / "outside").symlink_to("/usr/lib")
    command = [sys.executable, "-S", "-E", str(package / "child.py")]
    cwd = {} if obstacle == "no folder" else {"cwd": str(package)}

    async def run() -> None:
        settings: Any = {"sha256": {"package": "0" * 64}, **cwd}
        async with exthost.connect(command, dialect="morphir", **settings):
            pass

    with pytest.raises(Refused) as caught:
        asyncio.run(run())
    assert caught.value.code == "X0393"
    assert ("outside" if cwd else "cwd") in caught.value.message


def test_a_git_folder_and_a_pipe_do_not_matter(package: Path) -> None:
    os.mkfifo(package / "pipe")
    pin = pinned(package, "package")
    (package / ".git").mkdir()
    (package / ".git" / "index").write_text("moves on")
    asyncio.run(start(package, pin))


def test_another_interpreter_is_refused(package: Path, tmp_path: Path) -> None:
    found = pinned(package, "program", "interpreter")
    assert found["interpreter"] == digest(Path(sys.executable).resolve())
    asyncio.run(start(package, found))
    with pytest.raises(Refused) as caught:
        asyncio.run(start(package, {**found, "interpreter": "0" * 64}))
    assert caught.value.code == "X0386"
    assert caught.value.evidence.path == str(Path(sys.executable).resolve())


def test_the_interpreter_of_a_first_line_is_found(tmp_path: Path) -> None:
    other = tmp_path / "tool"
    other.write_bytes(b"\x7fELF")
    other.chmod(0o755)
    script = tmp_path / "script"
    for line, expected in (
        (f"#!{other} -x", str(other)),
        ("#!/usr/bin/env tool", str(other)),
        ("#!/usr/bin/env -S A=1 tool -x", str(other)),
        ("no script", ""),
    ):
        script.write_text(f"{line}\n")
        assert interpreter_of([str(script)], None, str(tmp_path)) == expected
    # A program that a wrapper executes is the code itself.
    assert interpreter_of(["/usr/bin/env", "tool", "a"], None, str(tmp_path)) == ""
    assert interpreter_of([str(other), "a"], None, str(tmp_path)) == ""
