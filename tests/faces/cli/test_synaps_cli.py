"""synaps from the command line: plugins in their own folders, streams, progress, and a kill -9."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dialects.requirements import shows
from tests.extensions.synaps_tree import plugin
from tests.faces.cli.cli_process import RUN_SECONDS, run_inside

PLUGINS = Path(__file__).parents[3] / "examples" / "synaps" / "plugins"


def exthost(*words: str, home: Path, cwd: Path = PLUGINS) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"EXTHOST_HOME": str(home)}
    return run_inside(*words, cwd=cwd, env=env, silent_in=["mcp"])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def node() -> None:
    if shutil.which("node") is None:
        pytest.skip("no Node here: the Node example is not tried")


@pytest.mark.parametrize(
    "target", ["notes", "notes/.synaps-plugin", "notes/.synaps-plugin/plugin.json"]
)
def test_a_plugin_is_inspected_by_its_folder_or_manifest(target: str, home: Path) -> None:
    done = exthost("inspect", target, "--json", home=home)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["id"], report["dialect"], report["version"]) == ("notes", "synaps", "0.3.0")
    assert [tool["tool"] for tool in report["tools"]] == ["add_note", "find_notes"]
    assert report["hooks"] == ["before_tool_call", "after_tool_call"]
    assert set(report["environment"]["passed"]) <= {
        "PATH",
        "HOME",
        "LANG",
        "TERM",
        "XDG_RUNTIME_DIR",
    }


def test_doctor_reports_plugins_that_a_config_does_not_look_for(tmp_path: Path, home: Path) -> None:
    plugin(tmp_path / ".synaps" / "plugins" / "unseen")
    plugin(tmp_path / "extensions" / "seen")

    def not_looked_for() -> list[str]:
        done = exthost("doctor", "--json", home=home, cwd=tmp_path)
        assert done.returncode == 0, done.stdout
        findings = json.loads(done.stdout)["findings"]
        return [
            finding["fix"] for finding in findings if "not looked for: unseen" in finding["message"]
        ]

    (tmp_path / "exthost.toml").write_text("[discovery]\n")
    (fix,) = not_looked_for()
    assert '["$SYNAPS"]' in fix
    (tmp_path / "exthost.toml").write_text('[discovery]\nsearch_paths = ["$SYNAPS"]\n')
    assert not_looked_for() == []


@pytest.mark.more
def test_a_node_plugin_has_a_tool_and_streams(home: Path) -> None:
    node()
    done = exthost("call", "echo-model", "reverse", "text=añb", home=home)
    assert (done.returncode, done.stdout) == (0, '"bña"\n'), done.stderr
    messages = 'messages=[{"role":"user","content":"one two"}]'
    done = exthost(
        "call", "echo-model", "provider.stream", "--method", messages, "--json", home=home
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stop_reason"] == "end_turn"
    assert done.stderr.strip() == "one two"


@shows("synaps-note-01")
def test_a_command_shows_its_progress_and_its_output(home: Path) -> None:
    words = ("command.invoke", "--method", "command=export", 'args=["2"]', "--json")
    done = exthost("call", "notes", *words, home=home)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"exported": 2}), done.stderr
    assert done.stderr.splitlines() == [
        "Exporting …",
        "Exporting [############------------]  50%",
        "Exporting [########################] 100%",
        "exported 2 notes",
        "Exporting: done",
    ]


@shows("synaps-ask-06")
def test_memory_survives_a_kill_of_the_host_right_after_it_was_acknowledged(
    tmp_path: Path, home: Path
) -> None:
    folder = plugin(tmp_path / "keeper")
    script = f"""
import asyncio, os, signal, sys
import exthost
from pathlib import Path
from exthost.config.discovery.extension_at_path import spec_at
from exthost.host.connection import Connection

async def main():
    async with Connection(spec_at(Path({str(folder)!r}))) as ext:
        params = {{"namespace": "keeper", "content": "remember me", "tags": ["t"]}}
        answer = (await ext.call_tool("ask", {{"method": "memory.append", "params": params}})).data
        params = {{"key": "k", "value": "kept"}}
        await ext.call_tool("ask", {{"method": "config.set", "params": params}})
        os.write(1, str(answer["result"]["timestamp_ms"]).encode())
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
    killed = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"EXTHOST_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    at = int(killed.stdout)
    asked = {"method": "memory.query", "params": {"namespace": "keeper", "tag_prefix": "t"}}
    done = exthost("call", str(folder), "ask", "--args", json.dumps(asked), "--json", home=home)
    (record,) = json.loads(done.stdout)["result"]["records"]
    assert (record["content"], record["timestamp_ms"]) == ("remember me", at)
    asked = {"method": "config.get", "params": {"key": "k"}}
    done = exthost("call", str(folder), "ask", "--args", json.dumps(asked), "--json", home=home)
    assert json.loads(done.stdout)["result"] == {"value": "kept"}


def test_doctor_finds_nothing_wrong_with_a_plugin_that_asks_while_it_starts(
    home: Path, tmp_path: Path
) -> None:
    behaviour = {"init": [["config.set", {"key": "k", "value": "v"}]]}
    plugin(tmp_path / "p" / "fine", behaviour, config=[{"key": "k", "required": True}])
    config = tmp_path / "exthost.toml"
    config.write_text('[discovery]\nsearch_paths = ["p"]\n[overrides.fine]\n')
    done = exthost("doctor", "--runtime", "--json", home=home, cwd=tmp_path)
    assert "X0350" in done.stdout or "required" in done.stdout, done.stdout
    env = {"SYNAPS_EXTENSION_FINE_K": "1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        done = exthost("doctor", "--runtime", "--json", home=home, cwd=tmp_path)
    found = [
        finding for finding in json.loads(done.stdout)["findings"] if finding["level"] != "info"
    ]
    assert done.returncode == 0 and found == [], done.stdout
    # By now the value is stored, too: the list says that it could run.
    done = exthost("list", "--json", home=home, cwd=tmp_path)
    assert json.loads(done.stdout)["extensions"][0]["state"] == "admitted", done.stdout


@pytest.mark.parametrize(
    ("extension", "code", "exit"),
    [
        ({"protocol_version": 3}, "X0251", 3),
        ({"permissions": ["tools.override"]}, "X0253", 3),
        ({"config": [{"key": "k", "required": True}]}, "X0350", 4),
        ({"command": "no-such-program-here"}, "X0401", 5),
    ],
)
def test_a_refusal_is_reported_with_its_exit_code(
    tmp_path: Path, home: Path, extension: dict[str, object], code: str, exit: int
) -> None:
    folder = plugin(tmp_path / "bad", **extension)  # type: ignore[arg-type]
    done = exthost("inspect", str(folder), "--json", home=home)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (exit, code)


def test_a_folder_without_an_extension_key_has_no_extension(tmp_path: Path, home: Path) -> None:
    manifest = tmp_path / "skill" / ".synaps-plugin" / "plugin.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"name": "skill"}')
    done = exthost("inspect", str(tmp_path / "skill"), "--json", home=home)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "X1206")


def test_a_bare_command_is_found_out_to_speak_synaps(home: Path) -> None:
    done = exthost("inspect", "--json", "--", "python3", "notes/notes.py", home=home)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dialect"] == "synaps"


@shows("synaps-today-13")
def test_inspect_shows_the_names_for_people(tmp_path: Path, home: Path) -> None:
    models = [{"id": "m", "display_name": "Large Model"}]
    provider = {"id": "p", "display_name": "Pretty Name", "description": "d", "models": models}
    capability = {"kind": "ocr", "name": "Reads Pictures"}
    capabilities = {"providers": [provider], "capabilities": [capability]}
    offer = {"protocol_version": 1, "capabilities": capabilities}
    folder = plugin(tmp_path / "named", {"offer": offer})
    done = exthost("inspect", str(folder), home=home)
    assert done.returncode == 0
    assert "it has provider:p, ocr:Reads Pictures" in done.stderr
    assert "display names: provider:p=Pretty Name, p:m=Large Model" in done.stderr
