"""Tests of how the command line shows the sandbox of extensions.

An extension with `permissions` runs in a sandbox. `list`, `info`, `inspect` and `doctor` show by
which means each permission is enforced: `"network": "netns+seccomp"` is a network namespace and a
filter of system calls. If the machine cannot enforce a strict sandbox, a verb that needs it exits
with 4. With `sandbox = "best-effort"` the extension then runs without one.

An extension without a sandbox still gets a PID namespace ("pidns") if the machine allows it, so
that all its processes end with it. With `lifetime = "plain"` it has only a process group, which a
process can leave. bubblewrap (bwrap) makes the sandbox; EXTHOST_BWRAP is the path of its program.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faces.cli.cli_process import run_inside
from tests.sandbox.confined import shared_folder

# A test extension whose tool runs Python code that a test sends.
EXPLORER = Path(__file__).parents[2] / "sandbox" / "explorer.py"
COMMAND = [sys.executable, "-S", "-E", str(EXPLORER)]


def exthost(
    *arguments: str, cwd: Path | None = None, **env: str
) -> "subprocess.CompletedProcess[str]":
    """Run a verb of exthost in this process, with these further environment variables."""
    return run_inside(*arguments, cwd=cwd, env={**os.environ, **env})


def read_json(result: "subprocess.CompletedProcess[str]") -> Any:
    return json.loads(result.stdout)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config of three extensions: `free` has no sandbox, `held` a strict one, and `eager` has
    `sandbox = "best-effort"`."""
    source = (
        f"source = {{ command = {json.dumps(COMMAND[0])}, args = {json.dumps(COMMAND[1:])} }}\n"
    )
    path = tmp_path / "exthost.toml"
    path.write_text(
        f'[[extensions]]\nname = "free"\n{source}\n'
        f'[[extensions]]\nname = "held"\npermissions = {{ network = false }}\n{source}\n'
        f'[[extensions]]\nname = "eager"\npermissions = {{}}\nsandbox = "best-effort"\n{source}\n'
    )
    return path


def test_inspect_shows_the_sandbox_and_the_digest_of_a_command() -> None:
    result = exthost(
        "inspect", "--json", "--dialect", "morphir", "--sandbox", "strict", "--", *COMMAND
    )
    assert result.returncode == 0, result.stderr
    assert read_json(result)["sandbox"]["network"] == "netns+seccomp"
    assert len(read_json(result)["sha256"]["program"]) == 64
    result = exthost(
        "inspect", "--json", "--dialect", "morphir", "--lifetime", "plain", "--", *COMMAND
    )
    assert read_json(result)["sandbox"]["pids"] == "process group"


def test_each_path_of_the_sandbox_is_listed_with_its_source(config: Path) -> None:
    script = {"path": str(EXPLORER), "access": "read", "source": "argument"}
    for verb in (("inspect", "held"), ("info", "held")):
        paths = read_json(exthost(*verb, "--json", cwd=config.parent))["sandbox"]["paths"]
        assert script in paths, paths
        assert {path["source"] for path in paths if path["path"] == "/usr"} == {"system"}
        result = exthost(*verb, cwd=config.parent)
        assert f"read  {EXPLORER} (argument)" in result.stdout + result.stderr
    findings = read_json(exthost("doctor", "--json", cwd=config.parent))
    assert script in findings["paths"]["held"] and findings["paths"]["free"] == []
    result = exthost("doctor", cwd=config.parent)
    # Without --all there is only their number: "its sandbox shows it 9 paths".
    assert " paths\n" in result.stdout and str(EXPLORER) not in result.stdout
    result = exthost("doctor", "--all", cwd=config.parent)
    assert f"read  {EXPLORER} (argument)" in result.stdout


@pytest.mark.more  # starts an extension several times
def test_a_closed_path_in_a_granted_folder_is_reported_with_its_reason() -> None:
    # The program of `tool` is in a folder that `writer` may write to. That folder is closed to
    # `writer`, which could otherwise change the program.
    with shared_folder() as place:  # the user of the extension can read it, too
        project = place / "project"
        (project / "tools").mkdir(parents=True)
        for path in (project, project / "tools"):
            path.chmod(0o777)
        tool = project / "tools" / "tool.py"
        tool.write_text(EXPLORER.read_text())
        program = place / "writer"
        program.write_text(f"#!/usr/bin/python3 -SE\n{EXPLORER.read_text()}")
        program.chmod(0o755)
        (place / "exthost.toml").write_text(
            f'[[extensions]]\nname = "writer"\nsource = {{ command = "{program}" }}\n'
            f'permissions = {{ filesystem = ["{project}:rw"] }}\n'
            '[[extensions]]\nname = "tool"\n'
            f'source = {{ command = "/usr/bin/python3", args = ["{tool}"] }}\n'
        )
        reason = "code of tool: folder of its script"
        closed = {"path": str(project / "tools"), "reason": reason}
        for verb in (("inspect", "writer"), ("info", "writer")):
            result = exthost(*verb, "--json", cwd=place)
            assert result.returncode == 0, result.stderr
            assert read_json(result)["sandbox"]["closed"] == [closed]
            result = exthost(*verb, cwd=place)
            assert f"{project}/tools ({reason})" in result.stdout + result.stderr
        findings = read_json(exthost("doctor", "--json", cwd=place))
        assert findings["closed"] == {"writer": [closed], "tool": []}
        result = exthost("doctor", cwd=place)
        assert f"read-only in its writable folders: {project}/tools ({reason})" in result.stdout


def test_an_extension_whose_code_a_grant_makes_writable_is_refused_in_listings(
    tmp_path: Path,
) -> None:
    # Here the granted folder itself is the folder of the script. So it cannot be closed, as the
    # folder `tools` inside a granted folder is in the test above.
    tool = tmp_path / "tool.py"
    tool.touch()
    source = f'source = {{ command = "/usr/bin/python3", args = ["{tool}"] }}\n'
    grant = f'permissions = {{ filesystem = ["{tmp_path}:rw"] }}\n'
    (tmp_path / "exthost.toml").write_text(
        '[[extensions]]\nname = "writer"\nsource = { command = "/bin/true" }\n'
        f'{grant}[[extensions]]\nname = "tool"\n{source}'
    )
    rows = {
        row["id"]: row for row in read_json(exthost("list", "--json", cwd=tmp_path))["extensions"]
    }
    assert rows["tool"]["state"] == "refused" and "folder of its script" in rows["tool"]["reason"]
    findings = read_json(exthost("doctor", "--json", cwd=tmp_path))["findings"]
    assert any(
        finding["code"] == "X0396" and "of its own" in finding["fix"] for finding in findings
    )


def test_the_dialect_is_detected_inside_the_sandbox() -> None:
    # There is no --dialect, so it is detected. The process whose handshake succeeds then gets the
    # call. If its call cannot create a socket, it was started in the sandbox.
    code = json.dumps({"code": "import socket; socket.socket()"})
    arguments = ("call", "explore", "--method", "--args", code, "--sandbox", "strict", "--json")
    result = exthost(*arguments, "--", *COMMAND)
    assert result.returncode == 0 and read_json(result)["raised"] == "PermissionError", (
        result.stderr
    )


def test_a_strict_sandbox_without_bwrap_exits_with_4_and_names_the_fix() -> None:
    arguments = ("inspect", "--json", "--dialect", "morphir", "--sandbox", "strict", "--", *COMMAND)
    result = exthost(*arguments, EXTHOST_BWRAP="/nowhere/bwrap")
    assert result.returncode == 4
    error = read_json(result)["error"]
    assert (error["code"], error["kind"]) == ("X0302", "Refused")
    assert "EXTHOST_BWRAP" in error["help"] and "best-effort" in error["help"]


def test_list_and_info_show_the_sandbox_of_each_extension(config: Path) -> None:
    rows = {
        extension["id"]: extension
        for extension in read_json(exthost("list", "--json", cwd=config.parent))["extensions"]
    }
    assert rows["free"]["sandbox"]["network"] == "open"
    assert rows["free"]["sandbox"]["pids"] == "pidns"
    assert rows["held"]["sandbox"]["network"] == "netns+seccomp"
    info = read_json(exthost("info", "held", "--json", cwd=config.parent))
    assert info["sandbox"]["filesystem"] == "mountns"


def test_weaker_containment_than_configured_is_reported_loudly(config: Path) -> None:
    result = exthost("list", cwd=config.parent, EXTHOST_BWRAP="/nowhere/bwrap")
    assert result.returncode == 0
    assert "eager: NOT SANDBOXED (sandbox = best-effort)" in result.stderr
    assert "held: its permissions cannot be enforced" in result.stderr
    result = exthost("doctor", "--json", cwd=config.parent, EXTHOST_BWRAP="/nowhere/bwrap")
    assert result.returncode == 4
    assert read_json(result)["sandbox"]["strict"]["works"] is False
    messages = [item["message"] for item in read_json(result)["findings"]]
    # Ending all processes with the host needs a PID namespace, but not bwrap.
    assert not any("outlive the host" in item for item in messages)
    assert any("NOT SANDBOXED" in item for item in messages)


def test_doctor_reports_that_the_machine_can_contain_extensions(config: Path) -> None:
    result = exthost("doctor", "--json", cwd=config.parent)
    assert result.returncode == 0, result.stdout
    sandbox = read_json(result)["sandbox"]
    assert sandbox["tree"]["works"] and sandbox["strict"]["works"]


def test_doctor_reports_whether_a_cgroup_can_contain_extensions_and_why_not(tmp_path: Path) -> None:
    source = f"source = {{ command = {json.dumps(COMMAND[0])}, args = [] }}\n"
    (tmp_path / "exthost.toml").write_text(
        f'[[extensions]]\nname = "capped"\npermissions = {{ max_memory = "64MB" }}\n{source}\n'
    )
    report = read_json(exthost("doctor", "--json", cwd=tmp_path))
    cgroup = report["sandbox"]["cgroup"]
    # Without a cgroup, the host adds up the memory of the processes ("a watchdog"), and kills them.
    findings = [
        finding for finding in report["findings"] if "a watchdog adds up" in finding["message"]
    ]
    info = read_json(exthost("info", "capped", "--json", cwd=tmp_path))
    enforced_by = info["sandbox"]["memory"]
    if "memory" in cgroup["controllers"]:
        assert cgroup["works"] and cgroup["path"] and enforced_by == "cgroup" and not findings
    else:
        assert enforced_by == "watchdog" and findings[0]["level"] == "info" and findings[0]["fix"]
        assert cgroup["works"] or cgroup["why"] in findings[0]["message"]


# A morphir extension with a tool `fail`, which fails with the message in its argument `reason`.
FAILING = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request["id"], "result": None}
    if request["method"] == "fail":
        answer = {"id": request["id"], "error": request["params"]["reason"]}
    elif request["method"] == "capabilities":
        answer["result"] = [{"name": "fail", "description": ""}]
    print(json.dumps(answer), flush=True)
"""


def test_the_failure_of_a_tool_names_the_sandbox_only_where_it_is_the_likely_cause() -> None:
    arguments = ["--dialect", "morphir", "--sandbox", "strict", "--", sys.executable, "-c", FAILING]
    for reason, advice in (
        ("[Errno 101] Network is unreachable", "permissions.network = true"),
        ("no such city", "this is the extension's own answer"),
    ):
        result = exthost("call", "fail", f"reason={reason}", *arguments)
        assert result.returncode == 1 and advice in result.stderr, result.stderr
        assert ("sandbox" in result.stderr) == ("permissions" in advice), result.stderr


def test_a_proxy_variable_that_the_sandbox_overrides_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "exthost.toml").write_text(
        f'[[extensions]]\nname = "a"\ndialect = "morphir"\nenv = {{ HTTPS_PROXY = "http://b:1" }}\n'
        f'permissions = {{ network = ["c.example:443"] }}\n'
        f"source = {{ command = {json.dumps(COMMAND[0])}, args = {json.dumps(COMMAND[1:])} }}\n"
    )
    text = "its env sets HTTPS_PROXY, which the sandbox overrides"
    result = exthost("doctor", cwd=tmp_path)
    assert f"warning: a: {text}" in result.stdout and "fix: remove it from env" in result.stdout
    caplog.clear()
    # `inspect` prints it with its other warnings; the start of the extension logs it, once.
    assert f"warning: {text}" in exthost("inspect", "a", cwd=tmp_path).stderr
    assert [text in record.getMessage() for record in caplog.records].count(True) == 1
