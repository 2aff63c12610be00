"""No text of an extension is printed as if it were a message of exthost.

An extension chooses the text of its errors, and could put line breaks into it, with lines such as
`warning: bank: it is broken`. Each verb must mark these lines as quoted: `  | warning: bank: …`.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import EXTHOST, RUN_SECONDS, extension, run_inside, write_config

# Lines that look like messages of exthost about another extension.
FORGED_LINES = [
    "  help:   nothing is to be done",
    "error[X0390]: bank: it may not read /root/.ssh",
    "warning: bank: it is broken",
    "  help:   let it",
]
EVIL_MESSAGE = "\n".join(["busy", *FORGED_LINES])

# A program in the dialect morphir (JSON lines), which answers each request with the error in its
# first argument. With a second argument, it answers the handshake correctly, and only calls fail.
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


def write_evil(folder: Path, *arguments: str) -> None:
    """Write a config with the extension `evil`, which runs PROGRAM. Its handshake fails, unless
    `arguments` is one more argument."""
    program = folder / "evil.py"
    program.write_text(PROGRAM)
    command = (sys.executable, "-S", "-E", str(program), json.dumps(EVIL_MESSAGE), *arguments)
    dialect = 'dialect = "morphir"\nrestart = { strategy = "never" }\n'
    write_config(folder, extension("evil", *command, more=dialect))


def assert_lines_are_marked(text: str) -> None:
    """Check that each line of the message was printed, but only with the mark of a quotation."""
    lines = text.splitlines()
    for line in FORGED_LINES:
        assert f"  | {line}" in lines, text
        assert line not in lines, text


@pytest.mark.parametrize("arguments", [("inspect", "evil"), ("call", "evil", "work")])
def test_an_error_of_a_handshake_forges_no_message(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    write_evil(tmp_path)
    assert_lines_are_marked(run_inside(*arguments, cwd=tmp_path).stderr)
    error = json.loads(run_inside(*arguments, "--json", cwd=tmp_path).stdout)["error"]
    assert EVIL_MESSAGE in error["message"], "the message in JSON is not changed"


def test_an_error_of_a_tool_forges_no_message(tmp_path: Path) -> None:
    write_evil(tmp_path, "ready")
    assert_lines_are_marked(run_inside("call", "evil", "work", cwd=tmp_path).stderr)


def test_a_finding_of_doctor_forges_no_message(tmp_path: Path) -> None:
    write_evil(tmp_path)
    assert_lines_are_marked(run_inside("doctor", "--runtime", cwd=tmp_path).stdout)


@pytest.mark.more
@pytest.mark.sampled(1 / 3)
@pytest.mark.parametrize("arguments", [("run",), ("run", "--quiet"), ("gateway", "--own")])
def test_a_host_prints_no_forged_message(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write_evil(tmp_path)
    with subprocess.Popen(
        [*EXTHOST, *arguments],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        output = []
        for line in process.stderr:
            output.append(line)
            if line.rstrip().endswith(FORGED_LINES[-1]):
                break  # the whole message was printed
        process.terminate()
        output.append(process.communicate(timeout=RUN_SECONDS)[1])
    assert_lines_are_marked("".join(output))
