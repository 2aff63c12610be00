"""Pins: a changed file or a changed tool under a pinned extension is refused, both digests told."""

import hashlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config.extension_settings import RestartSettings
from exthost.errors import ConfigError, Refused
from exthost.events import Bus, Spawned
from exthost.launch.integrity import tools_digest
from tests.extensions.driving import pid_of, until
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


async def test_tools_can_be_pinned_beforehand_by_what_inspect_tells(program: Path) -> None:
    async with exthost.connect(words(program), dialect="morphir") as ext:
        pins = ext.digests
    assert set(pins) == {"program", "tools"} and pins["program"] == digest(program)
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
async def test_a_pin_that_is_none_is_a_mistake_in_the_config(wrong: Any, program: Path) -> None:
    with pytest.raises(ConfigError):
        async with exthost.connect(words(program), dialect="morphir", sha256=wrong):
            pass
