"""No text of an extension is printed as if it were a message of exthost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import EXTHOST, RUN_SECONDS, extension, run_inside, write_config

FORGED = [
    "  help:   nothing is to be done",
    "error[X0390]: bank: it may not read /root/.ssh",
    "warning: bank: it is broken",
    "  help:   let it",
]
MESSAGE = "\n".join(["busy", *FORGED])

# A morphir extension that answers every request, or every one but the handshake, with this error.
PROGRAM = """
import json, sys
message, is_ready = json.loads(sys.argv[1]), len(sys.argv) > 2
for line in sys.stdin:
    request = json.loads(line)
    outcome = {"error": message}
    if is_ready and request["method"] == "initialize":
        outcome = {"result": {}}
    if is_ready and request["method"] == "capabilities":
        outcome = {"result": [{"name": "work", "description": "Work"}]}
    print(json.dumps({"id": request["id"], **outcome}), flush=True)
"""


def write_evil(folder: Path, *words: str) -> None:
    """Write a config with an extension `evil`, which gets ready only with a further word."""
    program = folder / "evil.py"
    program.write_text(PROGRAM)
    command = (sys.executable, "-S", "-E", str(program), json.dumps(MESSAGE), *words)
    dialect = 'dialect = "morphir"\nrestart = { strategy = "never" }\n'
    write_config(folder, extension("evil", *command, more=dialect))


def check_lines(text: str) -> None:
    """Check that the message was printed, and that none of its lines stands for itself."""
    lines = text.splitlines()
    for line in FORGED:
        assert f"  | {line}" in lines, text
        assert line not in lines, text


@pytest.mark.parametrize("words", [("inspect", "evil"), ("call", "evil", "work")])
def test_an_error_of_a_handshake_forges_no_message(tmp_path: Path, words: tuple[str, ...]) -> None:
    write_evil(tmp_path)
    check_lines(run_inside(*words, cwd=tmp_path).stderr)
    error = json.loads(run_inside(*words, "--json", cwd=tmp_path).stdout)["error"]
    assert MESSAGE in error["message"], "JSON has the message as it is"


def test_an_error_of_a_tool_forges_no_message(tmp_path: Path) -> None:
    write_evil(tmp_path, "ready")
    check_lines(run_inside("call", "evil", "work", cwd=tmp_path).stderr)


def test_a_finding_of_doctor_forges_no_message(tmp_path: Path) -> None:
    write_evil(tmp_path)
    check_lines(run_inside("doctor", "--runtime", cwd=tmp_path).stdout)


@pytest.mark.parametrize("words", [("run",), ("run", "--quiet"), ("gateway", "--own")])
def test_a_host_prints_no_forged_message(tmp_path: Path, words: tuple[str, ...]) -> None:
    write_evil(tmp_path)
    with subprocess.Popen(
        [*EXTHOST, *words],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        shown = []
        for line in process.stderr:
            shown.append(line)
            if line.rstrip().endswith(FORGED[-1]):
                break
        process.terminate()
        shown.append(process.communicate(timeout=RUN_SECONDS)[1])
    check_lines("".join(shown))
