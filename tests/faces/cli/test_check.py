"""`exthost check`: what it shows, what it writes, and its exit codes."""

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.authoring.check.test_planted_faults import BAD
from tests.faces.cli.cli_process import run_inside


def bad(dialect: str, fault: str) -> list[str]:
    return ["--dialect", dialect, "--", sys.executable, "-S", "-E", str(BAD), dialect, fault]


def checked(*words: str | Path, cwd: Path | None = None) -> tuple[int, Any]:
    done = run_inside("check", "--json", *words, cwd=cwd)
    return done.returncode, json.loads(done.stdout)


def test_a_fault_is_shown_with_rule_bytes_and_fix_and_exits_with_1(tmp_path: Path) -> None:
    junit = tmp_path / "report.xml"
    done = run_inside("check", "--junit", junit, *bad("nexo", "no-version"))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("FAULT"))
    assert "version-member" in lines[at] and "nexo-wire-05" in lines[at]
    shown = "\n".join(lines[at : at + 9])
    assert 'sent:   {"jsonrpc":"2.0","method":"initialize"' in shown
    assert 'came:   {"id": 0, "result":' in shown
    assert 'fix:    add the member "jsonrpc": "2.0"' in shown
    assert "1 fault" in done.stderr and "score" in done.stderr
    suite = ElementTree.parse(junit).getroot()[0]
    assert suite.get("failures") == "1"
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["version-member"]


def test_the_report_as_data_has_score_and_every_check() -> None:
    code, report = checked("--call", 'shout {"text": "hi"}', *bad("morphir", "none"))
    assert code == 0
    assert report["ok"] is True and report["score"] >= 95
    status = {check["check"]: check["status"] for check in report["checks"]}
    assert status["result"] == "passed" and status["cancel"] == "skipped"


def test_a_program_that_cannot_be_started_is_a_fault() -> None:
    code, report = checked("--dialect", "mcp", "--", "no-such-program-anywhere")
    assert code == 1
    (start,) = [check for check in report["checks"] if check["check"] == "start"]
    assert "no-such-program-anywhere" in start["findings"][0]["message"]
    assert report["score"] == 0


@pytest.mark.parametrize("limit", ["1ms", "300ms"])
def test_a_program_that_never_finishes_its_handshake_is_a_fault(limit: str) -> None:
    """Not a slow start: nothing shows that it would ever answer."""
    reads_only = (sys.executable, "-S", "-E", "-c", "import sys; sys.stdin.read()")
    code, report = checked("--timeout", limit, "--dialect", "morphir", "--", *reads_only)
    assert code == 1
    (fault,) = [check for check in report["checks"] if check["status"] == "fault"]
    assert fault["check"] == "time"
    assert "did not finish its handshake" in fault["findings"][0]["message"]


def test_a_manifest_with_a_mistake_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "plugin.toml").write_text('[plugn]\nid = "x"\n')
    code, report = checked(tmp_path)
    assert code == 1
    assert report["checks"][0]["check"] == "manifest"
    assert "plugin" in report["checks"][0]["findings"][0]["message"]


def test_a_missing_or_invalid_subject_of_check_is_a_usage_error(tmp_path: Path) -> None:
    assert run_inside("check", cwd=tmp_path).returncode == 2
    assert run_inside("check", "nothing-here", cwd=tmp_path).returncode == 2
    assert run_inside("check", "--call", "x {", "--", "true", cwd=tmp_path).returncode == 2


def test_the_rules_can_be_listed() -> None:
    done = run_inside("check", "--rules", "--dialect", "mcp")
    assert done.returncode == 0
    assert "mcp-cancel-01" in done.stdout


@pytest.mark.parametrize("verb", ["inspect", "call"])
def test_variables_and_folder_of_the_extension_are_options(verb: str, tmp_path: Path) -> None:
    script = tmp_path / "told.py"
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
    words = [*([verb, "x"] if verb == "call" else [verb]), "--json", "--dialect", "morphir"]
    done = run_inside(
        *words, "-e", "GITHUB_TOKEN=t0p", "--cwd", folder, "--", sys.executable, str(script)
    )
    assert done.returncode == 0, done.stderr
    assert f"t0p {folder}" in done.stdout
    done = run_inside(*words, "--cwd", tmp_path / "none", "--", sys.executable, str(script))
    assert done.returncode == 2 and "no such folder" in done.stdout


def test_a_variable_without_a_value_is_taken_from_here() -> None:
    done = run_inside("inspect", "-e", "EXTHOST_NOT_SET_ANYWHERE", "--", "true")
    assert done.returncode == 2
    assert "EXTHOST_NOT_SET_ANYWHERE is not set here" in done.stderr
