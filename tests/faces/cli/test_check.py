"""Tests of `exthost check`, which tests an extension against the rules of its dialect (protocol).

They check its output, its exit codes and the report in JUnit's format. `faulty_extension` is an
extension that breaks one rule. `tests/authoring/check/` tests the checks themselves.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from exthost.faces.cli.check import parse_call
from tests.authoring.check.test_planted_faults import BAD
from tests.faces.cli.cli_process import run_inside


def faulty_extension(dialect: str, fault: str) -> list[str]:
    """Return the arguments for an extension with this fault."""
    return ["--dialect", dialect, "--", sys.executable, "-S", "-E", str(BAD), dialect, fault]


def run_check(*arguments: str | Path, cwd: Path | None = None) -> tuple[int, Any]:
    """Run `exthost check --json`; return its exit code and its report."""
    result = run_inside("check", "--json", *arguments, cwd=cwd)
    return result.returncode, json.loads(result.stdout)


def test_a_report_that_cannot_be_written_is_an_error_before_the_checks(tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = ["--dialect", "nexo", "--", "/bin/sh", "-c", f"touch {started}"]
    result = run_inside("check", "--junit", tmp_path / "missing" / "report.xml", *program)
    assert result.returncode == 2 and "cannot be written" in result.stderr
    assert not started.exists()


@pytest.mark.more
def test_a_report_is_written_to_a_pipe_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        run_inside("check", "--junit", pipe, *faulty_extension("nexo", "no-version"))
        output, _ = reader.communicate(timeout=60)
    assert ElementTree.fromstring(output)[0].get("failures") == "1"


def test_a_fault_is_shown_with_rule_bytes_and_fix_and_exits_with_1(tmp_path: Path) -> None:
    junit = tmp_path / "report.xml"
    result = run_inside("check", "--junit", junit, *faulty_extension("nexo", "no-version"))
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("FAULT"))
    assert "version-member" in lines[first] and "nexo-wire-05" in lines[first]
    fault_text = "\n".join(lines[first : first + 9])  # the lines about this fault
    assert 'sent:   {"jsonrpc":"2.0","method":"initialize"' in fault_text
    assert 'got:    {"id": 0, "result":' in fault_text
    assert 'fix:    add the member "jsonrpc": "2.0"' in fault_text
    assert lines[0].endswith("(nexo) fails")
    verdict, _, score = result.stderr.strip().splitlines()[-1].partition("score")
    assert "fails: " in verdict and "1 fault" in verdict and score
    suite = ElementTree.parse(junit).getroot()[0]
    assert suite.get("failures") == "1"
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["version-member"]


def test_the_arguments_of_a_call_are_pairs_or_json() -> None:
    assert parse_call("now") == ("now", {})
    assert parse_call(" shout text='a b' n=2 ") == ("shout", {"text": "a b", "n": 2})
    assert parse_call('shout {"text": "a=b"}') == ("shout", {"text": "a=b"})


def test_the_report_as_json_has_a_score_and_every_check() -> None:
    code, report = run_check("--call", 'shout {"text": "hi"}', *faulty_extension("morphir", "none"))
    assert code == 0
    assert report["verdict"].startswith("passes")
    assert report["ok"] is True and report["score"] >= 95
    status = {check["check"]: check["status"] for check in report["checks"]}
    assert status["result"] == "passed" and status["cancel"] == "skipped"


def test_a_program_that_cannot_be_started_is_a_fault() -> None:
    code, report = run_check("--dialect", "mcp", "--", "no-such-program-anywhere")
    assert code == 1
    (start,) = [check for check in report["checks"] if check["check"] == "start"]
    assert "no-such-program-anywhere" in start["findings"][0]["message"]
    assert report["score"] == 0


@pytest.mark.parametrize("limit", ["1ms", "300ms"])
def test_a_program_that_never_finishes_its_handshake_is_a_fault(limit: str) -> None:
    """It is not reported as a slow start, because the program shows no sign of an answer."""
    reads_only = (sys.executable, "-S", "-E", "-c", "import sys; sys.stdin.read()")
    code, report = run_check("--timeout", limit, "--dialect", "morphir", "--", *reads_only)
    assert code == 1
    (fault,) = [check for check in report["checks"] if check["status"] == "fault"]
    assert fault["check"] == "time"
    assert "did not finish its handshake" in fault["findings"][0]["message"]


def test_a_manifest_with_a_mistake_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "plugin.toml").write_text('[plugn]\nid = "x"\n')
    code, report = run_check(tmp_path)
    assert code == 1
    assert report["checks"][0]["check"] == "manifest"
    assert "plugin" in report["checks"][0]["findings"][0]["message"]


def test_a_missing_or_invalid_target_of_check_is_a_usage_error(tmp_path: Path) -> None:
    assert run_inside("check", cwd=tmp_path).returncode == 2
    assert run_inside("check", "nothing-here", cwd=tmp_path).returncode == 2
    assert run_inside("check", "--call", "x {", "--", "true", cwd=tmp_path).returncode == 2
    for call in ('x "', "x y", "{}", ""):
        result = run_inside("check", "--call", call, "--", "true", cwd=tmp_path)
        assert result.returncode == 2 and "TOOL k=v" in result.stderr
    undecodable = run_inside("check", "--call", 'x {"a": "\udcff"}', "--", "true", cwd=tmp_path)
    assert undecodable.returncode == 2 and "not JSON" in undecodable.stderr


def test_the_rules_can_be_listed() -> None:
    result = run_inside("check", "--rules", "--dialect", "mcp")
    assert result.returncode == 0
    assert "mcp-cancel-01" in result.stdout


@pytest.mark.parametrize("verb", ["inspect", "call"])
def test_the_environment_and_working_folder_of_the_extension_are_options(
    verb: str, tmp_path: Path
) -> None:
    # An extension that reports a variable and its working folder as the description of its tool.
    script = tmp_path / "reports.py"
    script.write_text(
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    id = json.loads(line)['id']\n"
        "    about = os.environ.get('GITHUB_TOKEN', 'none') + ' ' + os.getcwd()\n"
        "    print(json.dumps({'id': id, 'result': [{'name': 'x', 'description': about}]}),\n"
        "          flush=True)\n"
    )
    folder = tmp_path / "inside"
    folder.mkdir()
    tool = ["x"] if verb == "call" else []
    arguments = [verb, *tool, "--json", "--dialect", "morphir"]
    result = run_inside(
        *arguments, "-e", "GITHUB_TOKEN=t0p", "--cwd", folder, "--", sys.executable, str(script)
    )
    assert result.returncode == 0, result.stderr
    assert f"t0p {folder}" in result.stdout
    result = run_inside(*arguments, "--cwd", tmp_path / "none", "--", sys.executable, str(script))
    assert result.returncode == 2 and "no such folder" in result.stdout


def test_a_variable_without_a_value_must_be_set_in_the_environment() -> None:
    result = run_inside("inspect", "-e", "EXTHOST_NOT_SET_ANYWHERE", "--", "true")
    assert result.returncode == 2
    assert "EXTHOST_NOT_SET_ANYWHERE is not set here" in result.stderr
