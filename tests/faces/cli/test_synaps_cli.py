"""Tests of synaps plugins on the command line: manifests, streams, progress, and stored memory.

synaps is a dialect (protocol). A plugin is a folder with a manifest `.synaps-plugin/plugin.json`.
It can store settings and memories through the host, which keeps them in EXTHOST_HOME. `notes` is an
example plugin.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dialects.requirements import shows
from tests.extensions.synaps_tree import write_plugin
from tests.faces.cli.cli_process import RUN_SECONDS, run_inside

PLUGINS = Path(__file__).parents[3] / "examples" / "synaps" / "plugins"


def exthost(*arguments: str, home: Path, cwd: Path = PLUGINS) -> subprocess.CompletedProcess[str]:
    """Run a verb in this process, in the folder of the example plugins by default."""
    env = os.environ | {"EXTHOST_HOME": str(home)}
    # When the dialect is detected, these plugins do not answer the handshake of MCP.
    return run_inside(*arguments, cwd=cwd, env=env, silent_in=["mcp"])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The state folder of exthost."""
    return tmp_path / "home"


def require_node() -> None:
    if shutil.which("node") is None:
        pytest.skip("there is no Node: the Node example is not tested")


@pytest.mark.parametrize(
    "target", ["notes", "notes/.synaps-plugin", "notes/.synaps-plugin/plugin.json"]
)
def test_a_plugin_is_inspected_by_its_folder_or_manifest(target: str, home: Path) -> None:
    result = exthost("inspect", target, "--json", home=home)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
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


def test_doctor_reports_plugins_outside_of_the_search_paths(tmp_path: Path, home: Path) -> None:
    write_plugin(tmp_path / ".synaps" / "plugins" / "unseen")
    write_plugin(tmp_path / "extensions" / "seen")

    def fixes_for_unseen_plugin() -> list[str]:
        result = exthost("doctor", "--json", home=home, cwd=tmp_path)
        assert result.returncode == 0, result.stdout
        findings = json.loads(result.stdout)["findings"]
        return [
            finding["fix"] for finding in findings if "not looked for: unseen" in finding["message"]
        ]

    (tmp_path / "exthost.toml").write_text("[discovery]\n")
    (fix,) = fixes_for_unseen_plugin()
    assert '["$SYNAPS"]' in fix
    (tmp_path / "exthost.toml").write_text('[discovery]\nsearch_paths = ["$SYNAPS"]\n')
    assert fixes_for_unseen_plugin() == []


@pytest.mark.more
def test_a_node_plugin_has_a_tool_and_streams(home: Path) -> None:
    require_node()
    result = exthost("call", "echo-model", "reverse", "text=añb", home=home)
    assert (result.returncode, result.stdout) == (0, '"bña"\n'), result.stderr
    messages = 'messages=[{"role":"user","content":"one two"}]'
    result = exthost(
        "call", "echo-model", "provider.stream", "--method", messages, "--json", home=home
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["stop_reason"] == "end_turn"
    assert result.stderr.strip() == "one two"


@shows("synaps-note-01")
def test_a_command_shows_its_progress_and_its_output(home: Path) -> None:
    arguments = ("command.invoke", "--method", "command=export", 'args=["2"]', "--json")
    result = exthost("call", "notes", *arguments, home=home)
    assert (result.returncode, json.loads(result.stdout)) == (0, {"exported": 2}), result.stderr
    assert result.stderr.splitlines() == [
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
    folder = write_plugin(tmp_path / "keeper")
    # A host that stores a memory and a setting by a plugin, and kills itself.
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
    timestamp_ms = int(killed.stdout)
    request = {"method": "memory.query", "params": {"namespace": "keeper", "tag_prefix": "t"}}
    result = exthost("call", str(folder), "ask", "--args", json.dumps(request), "--json", home=home)
    (record,) = json.loads(result.stdout)["result"]["records"]
    assert (record["content"], record["timestamp_ms"]) == ("remember me", timestamp_ms)
    request = {"method": "config.get", "params": {"key": "k"}}
    result = exthost("call", str(folder), "ask", "--args", json.dumps(request), "--json", home=home)
    assert json.loads(result.stdout)["result"] == {"value": "kept"}


def test_doctor_reports_no_problem_of_a_plugin_that_stores_settings_while_it_starts(
    home: Path, tmp_path: Path
) -> None:
    behaviour = {"init": [["config.set", {"key": "k", "value": "v"}]]}
    write_plugin(tmp_path / "p" / "fine", behaviour, config=[{"key": "k", "required": True}])
    config = tmp_path / "exthost.toml"
    config.write_text('[discovery]\nsearch_paths = ["p"]\n[overrides.fine]\n')
    result = exthost("doctor", "--runtime", "--json", home=home, cwd=tmp_path)
    assert "X0350" in result.stdout or "required" in result.stdout, result.stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNAPS_EXTENSION_FINE_K", "1")  # the value of the key k of the plugin `fine`
        result = exthost("doctor", "--runtime", "--json", home=home, cwd=tmp_path)
    problems = [
        finding for finding in json.loads(result.stdout)["findings"] if finding["level"] != "info"
    ]
    assert result.returncode == 0 and problems == [], result.stdout
    # The plugin has stored the value, so it does not need the variable any more.
    result = exthost("list", "--json", home=home, cwd=tmp_path)
    assert json.loads(result.stdout)["extensions"][0]["state"] == "admitted", result.stdout


@pytest.mark.parametrize(
    ("extension", "error_code", "exit_code"),
    [
        ({"protocol_version": 3}, "X0251", 3),
        ({"permissions": ["tools.override"]}, "X0253", 3),
        ({"config": [{"key": "k", "required": True}]}, "X0350", 4),
        ({"command": "no-such-program-here"}, "X0401", 5),
    ],
)
def test_a_refusal_is_reported_with_its_exit_code(
    tmp_path: Path, home: Path, extension: dict[str, object], error_code: str, exit_code: int
) -> None:
    folder = write_plugin(tmp_path / "bad", **extension)  # type: ignore[arg-type]
    result = exthost("inspect", str(folder), "--json", home=home)
    assert (result.returncode, json.loads(result.stdout)["error"]["code"]) == (
        exit_code,
        error_code,
    )


def test_a_folder_without_an_extension_key_has_no_extension(tmp_path: Path, home: Path) -> None:
    manifest = tmp_path / "skill" / ".synaps-plugin" / "plugin.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"name": "skill"}')
    result = exthost("inspect", str(tmp_path / "skill"), "--json", home=home)
    assert (result.returncode, json.loads(result.stdout)["error"]["code"]) == (2, "X1206")


def test_the_synaps_dialect_of_a_command_is_detected(home: Path) -> None:
    result = exthost("inspect", "--json", "--", "python3", "notes/notes.py", home=home)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["dialect"] == "synaps"


@shows("synaps-today-13")
def test_inspect_shows_display_names(tmp_path: Path, home: Path) -> None:
    models = [{"id": "m", "display_name": "Large Model"}]
    provider = {"id": "p", "display_name": "Pretty Name", "description": "d", "models": models}
    capability = {"kind": "ocr", "name": "Reads Pictures"}
    capabilities = {"providers": [provider], "capabilities": [capability]}
    offer = {"protocol_version": 1, "capabilities": capabilities}
    folder = write_plugin(tmp_path / "named", {"offer": offer})
    result = exthost("inspect", str(folder), home=home)
    assert result.returncode == 0
    assert "it has provider:p, ocr:Reads Pictures" in result.stderr
    assert "display names: provider:p=Pretty Name, p:m=Large Model" in result.stderr
