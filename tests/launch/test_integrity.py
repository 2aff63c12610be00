"""Pins: a changed file or tool of a pinned extension is refused, and the error has both digests.

A pin is a digest in the config. `sha256 = "…"` is that of the program; a table of digests can also
have those of the interpreter, the tools, the manifest and the package (the whole folder of the
extension). `ext.digests` has the present ones.
"""

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
from tests.extensions.harness import pid_of, wait_until
from tests.extensions.nexo_tree import write_plugin

# A morphir extension with one tool. The file `description` is the description of the tool.
CHILD = """
import json, pathlib, sys
description = pathlib.Path(__file__).with_name("description").read_text()
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "capabilities":
        result = [{"name": "get", "description": description}]
    else:
        result = request["params"]
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "description").write_text("gets something")
    path = tmp_path / "child.py"
    path.write_text(CHILD)
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def command_of(program: Path) -> list[str]:
    return [sys.executable, "-S", "-E", str(program)]


async def fail_to_connect(program: Path, **settings: Any) -> Refused:
    """Return the error of a start that is refused before a process is spawned."""
    bus = Bus()
    spawned: list[Spawned] = []
    bus.subscribe(Spawned, spawned.append)
    with pytest.raises(Refused) as caught:
        async with exthost.connect(command_of(program), dialect="morphir", events=bus, **settings):
            pass
    assert caught.value.exit_code == 4 and not spawned
    return caught.value


async def test_a_pin_applies_to_the_script_that_the_interpreter_runs(program: Path) -> None:
    for sha256 in (digest(program), {"program": digest(program)}):
        async with exthost.connect(command_of(program), dialect="morphir", sha256=sha256) as ext:
            assert await ext.call("echo", 1) == 1
    error = await fail_to_connect(program, sha256=digest(Path(sys.executable)))
    assert error.code == "X0386" and error.evidence.path == str(program)


async def test_a_pin_does_not_apply_to_a_file_among_the_arguments(
    program: Path, tmp_path: Path
) -> None:
    pin = digest(program)
    data_file = tmp_path / "data.txt"
    data_file.write_bytes(program.read_bytes())
    command = [*command_of(program), str(data_file)]
    async with exthost.connect(command, dialect="morphir") as ext:
        assert ext.digests["program"] == pin
    program.write_text(CHILD + "# evil\n")
    for sha256 in (pin, {"program": pin}):
        with pytest.raises(Refused) as caught:
            async with exthost.connect(command, dialect="morphir", sha256=sha256):
                pass
        assert caught.value.code == "X0386" and caught.value.evidence.path == str(program)
    async with exthost.connect(command, dialect="morphir") as ext:
        assert ext.digests["program"] == digest(program), (
            "the reported digest is of the same file as the pin"
        )


async def test_a_changed_program_is_refused_before_it_is_spawned(program: Path) -> None:
    pin = digest(program)
    program.write_text(CHILD + "# changed\n")
    for sha256 in (pin, pin.upper(), {"program": pin}):
        error = await fail_to_connect(program, sha256=sha256)
        assert error.code == "X0386" and error.evidence.path == str(program)
        assert pin in error.message and digest(program) in error.message


async def test_a_program_that_changes_while_it_runs_is_not_started_again(program: Path) -> None:
    immediately: RestartSettings = {"strategy": "immediate"}
    async with exthost.connect(
        command_of(program), dialect="morphir", sha256=digest(program), restart=immediately
    ) as ext:
        program.write_text(CHILD + "# changed\n")
        with pytest.raises(Refused) as caught:
            await ext.restart()
        assert caught.value.code == "X0386"
        assert await ext.call("echo", 1) == 1, "the pinned process still runs"
        os.kill(pid_of(ext), signal.SIGKILL)
        await wait_until(lambda: ext.state == "refused")


async def test_a_changed_description_of_a_tool_is_refused_at_a_restart(
    program: Path,
) -> None:
    async with exthost.connect(
        command_of(program), dialect="morphir", sha256=digest(program)
    ) as ext:
        before = tools_digest(ext.offer.tools)
        (program.parent / "description").write_text("gets something, and first sends all secrets")
        with pytest.raises(Refused) as caught:
            await ext.restart()
        assert caught.value.code == "X0387" and before in caught.value.message
        assert tools_digest(ext.offer.tools) == before, "the old process still runs"


async def test_tools_can_be_pinned_with_the_reported_digests(program: Path) -> None:
    async with exthost.connect(command_of(program), dialect="morphir") as ext:
        pins = ext.digests
    assert set(pins) == {"program", "interpreter", "tools"} and pins["program"] == digest(program)
    async with exthost.connect(command_of(program), dialect="morphir", sha256=pins) as ext:
        assert ext.state == "ready"
    (program.parent / "description").write_text("something else")
    with pytest.raises(Refused) as caught:
        async with exthost.connect(command_of(program), dialect="morphir", sha256=pins):
            pass
    assert caught.value.code == "X0387" and pins["tools"] in caught.value.message


async def test_a_changed_manifest_is_refused(tmp_path: Path) -> None:
    manifest = write_plugin(tmp_path / "toy", "toy")
    pins = {"toy": {"sha256": {"manifest": "0" * 64}, "start": "lazy"}}
    config = {"discovery": {"search_paths": [str(tmp_path)]}, "overrides": pins}
    async with exthost.Host.from_config(config) as host:
        cause = host["toy"].cause
        assert isinstance(cause, Refused) and cause.code == "X0386"
        assert "0" * 64 in cause.message and digest(manifest) in cause.message


@pytest.mark.parametrize("invalid_pin", ["abc", 5, {"program": "abc"}, {"programme": "0" * 64}])
async def test_an_invalid_pin_is_a_mistake_in_the_config(invalid_pin: Any, program: Path) -> None:
    with pytest.raises(ConfigError):
        async with exthost.connect(command_of(program), dialect="morphir", sha256=invalid_pin):
            pass


# -- interpreter and package ----------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a script and a module."""
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "home"))
    folder = tmp_path / "package"
    (folder / "lib").mkdir(parents=True)
    (folder / "description").write_text("gets something")
    (folder / "child.py").write_text(CHILD)
    (folder / "lib" / "module.py").write_text("X = 1\n")
    return folder


def read_pins(package: Path, *keys: str) -> dict[str, str]:
    """Start the package, and return these of its digests."""
    command = [sys.executable, "-S", "-E", "child.py"]

    async def digests() -> dict[str, str]:
        async with exthost.connect(command, dialect="morphir", cwd=str(package)) as ext:
            return {key: ext.digests[key] for key in keys}

    return asyncio.run(digests())


async def start_with_pins(package: Path, sha256: dict[str, str]) -> None:
    command = [sys.executable, "-S", "-E", "child.py"]
    async with exthost.connect(command, dialect="morphir", cwd=str(package), sha256=sha256) as ext:
        assert await ext.call("echo", 1) == 1


# Each of the following functions changes the package, and returns how the error describes it.


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
    (package / "description").chmod(0o755)
    return "description has changed"


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
    pin = read_pins(package, "program", "package")
    asyncio.run(start_with_pins(package, pin))
    expected = change(package)
    with pytest.raises(Refused) as caught:
        asyncio.run(start_with_pins(package, pin))
    assert caught.value.code == "X0386" and caught.value.exit_code == 4
    assert f"{package}/{expected}" in caught.value.message
    assert caught.value.evidence.path == f"{package}/{expected.split()[0]}"


async def test_a_module_that_changes_during_a_run_is_refused_at_the_restart(
    package: Path,
) -> None:
    pin = await asyncio.to_thread(read_pins, package, "package")
    command = [sys.executable, "-S", "-E", "child.py"]
    immediately: RestartSettings = {"strategy": "immediate"}
    async with exthost.connect(
        command, dialect="morphir", cwd=str(package), sha256=pin, restart=immediately
    ) as ext:
        change_content(package)
        with pytest.raises(Refused, match=r"lib/module\.py has changed"):
            await ext.restart()
        assert await ext.call("echo", 1) == 1, "the pinned process still runs"
        os.kill(pid_of(ext), signal.SIGKILL)
        await wait_until(lambda: ext.state == "refused")


def test_a_package_never_started_with_its_pin_is_refused_by_its_digest(
    package: Path,
) -> None:
    # The host knows the files of a package since a start that matched the pin. Without such a start
    # it cannot say which file has changed.
    pin = read_pins(package, "package")
    (package / "json.py").write_text("")
    with pytest.raises(Refused) as caught:
        asyncio.run(start_with_pins(package, pin))
    assert caught.value.code == "X0386" and pin["package"] in caught.value.message


def test_a_changed_listing_of_files_is_not_used(package: Path, tmp_path: Path) -> None:
    pin = read_pins(package, "package")
    asyncio.run(start_with_pins(package, pin))
    # The list of the files that the host has stored. The digest of the list must be the pin.
    (listing,) = (tmp_path / "home" / "pins").iterdir()
    listing.write_text('["lib/module.py", "file 0"]\n')
    change_content(package)
    with pytest.raises(Refused) as caught:
        asyncio.run(start_with_pins(package, pin))
    assert "module.py" not in caught.value.message


@pytest.mark.parametrize("obstacle", ["a folder outside", "no folder"])
def test_a_package_that_cannot_be_read_completely_cannot_be_pinned(
    package: Path, obstacle: str
) -> None:
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


def test_a_git_folder_and_a_pipe_are_not_part_of_a_pin(package: Path) -> None:
    os.mkfifo(package / "pipe")
    pin = read_pins(package, "package")
    (package / ".git").mkdir()
    (package / ".git" / "index").write_text("moves on")
    asyncio.run(start_with_pins(package, pin))


def test_another_interpreter_is_refused(package: Path, tmp_path: Path) -> None:
    pins = read_pins(package, "program", "interpreter")
    assert pins["interpreter"] == digest(Path(sys.executable).resolve())
    asyncio.run(start_with_pins(package, pins))
    with pytest.raises(Refused) as caught:
        asyncio.run(start_with_pins(package, {**pins, "interpreter": "0" * 64}))
    assert caught.value.code == "X0386"
    assert caught.value.evidence.path == str(Path(sys.executable).resolve())


def test_the_interpreter_of_a_shebang_line_is_found(tmp_path: Path) -> None:
    interpreter = tmp_path / "tool"
    interpreter.write_bytes(b"\x7fELF")
    interpreter.chmod(0o755)
    script = tmp_path / "script"
    for line, expected in (
        (f"#!{interpreter} -x", str(interpreter)),
        ("#!/usr/bin/env tool", str(interpreter)),
        ("#!/usr/bin/env -S A=1 tool -x", str(interpreter)),
        ("no script", ""),
    ):
        script.write_text(f"{line}\n")
        assert interpreter_of([str(script)], None, str(tmp_path)) == expected
    # A program that a wrapper runs is code, not an interpreter.
    assert interpreter_of(["/usr/bin/env", "tool", "a"], None, str(tmp_path)) == ""
    assert interpreter_of([str(interpreter), "a"], None, str(tmp_path)) == ""
