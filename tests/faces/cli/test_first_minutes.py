"""What somebody types who has never used it: slips, no config, a full stdout, Ctrl-C."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from exthost.dialects import find
from exthost.faces.cli.verbs import VERBS
from exthost.model import error_catalog
from tests.faces.cli.cli_process import EXTHOST, RUN_SECONDS, run_process
from tests.faces.cli.cli_process import run_inside as run
from tests.faces.cli.test_cli import PYTHON, run_json
from tests.host.test_host import TEXT

CATALOG = error_catalog.load(*find.iter_error_tables())
HOSTILE_WORDS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    tool = {"name": "t", "description": "one\\n\\ttwo \\x1b[2Jthree\\u202e"}
    result = [tool] if asked["method"] == "capabilities" else {}
    print(json.dumps({"id": asked["id"], "result": result}), flush=True)
"""

SLIPS = {
    ("lst",): "did you mean list?",
    ("list", "--jsn"): "did you mean --json?",
    ("logs", "x", "-n", "-5"): "see exthost logs --help",
    ("logs", "x", "-n", "many"): "see exthost logs --help",
    ("trace", "--count", "-3"): "see exthost trace --help",
    ("gateway", "--http", "99999999"): "see exthost gateway --help",
    ("list", "--", "python3"): "exthost inspect -- COMMAND ARGS…",
    ("explain", "--", "python3"): "exthost inspect -- COMMAND ARGS…",
}


@pytest.mark.parametrize("words", SLIPS)
def test_a_misspelling_is_reported_with_a_suggestion(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "exthost.toml").touch()
    done = run(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[X1316]: ")
    assert f"help:   {SLIPS[words]}" in done.stderr


def test_the_error_for_an_unknown_verb_is_json_for_readers_of_json() -> None:
    error = run_json("lst", code=2)["error"]
    assert (error["code"], error["help"]) == ("X1316", "did you mean list?")


@pytest.mark.parametrize("verb", VERBS)
def test_help_comes_before_or_behind_the_verb(verb: str) -> None:
    before = run("help", verb)
    assert before.returncode == 0
    assert before.stdout == run(verb, "--help").stdout
    assert before.stdout.startswith(f"usage: exthost {verb} ")


@pytest.mark.parametrize("verb", ["list", "tools", "validate", "doctor", "run", "gateway"])
def test_without_a_config_every_verb_says_the_same(verb: str, tmp_path: Path) -> None:
    error = run_json(verb, code=2, cwd=tmp_path)["error"]
    assert (error["code"], error["message"]) == ("X1316", "there is no exthost.toml here")
    assert ("after --" in error["help"]) == (verb == "tools")


@pytest.mark.parametrize("verb", ["list", "tools", "validate"])
def test_a_config_without_extensions_is_not_met_with_silence(verb: str, tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").touch()
    done = run(verb, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no " in done.stderr


def test_codes_are_listed_in_order() -> None:
    assert list(run_json("explain")) == sorted(CATALOG)


def test_a_kind_of_error_is_explained_by_its_codes() -> None:
    codes = {code for code, entry in CATALOG.items() if entry.kind == "CallTimeout"}
    assert set(run_json("explain", "calltimeout")) == codes and len(codes) > 1
    assert "did you mean CallTimeout?" in run("explain", "CallTimout").stderr


def test_output_that_was_already_shown_is_not_repeated_by_the_error() -> None:
    program = "import sys; print('I need', 'a key', file=sys.stderr, flush=True); sys.exit(3)"
    done = run("call", "x", "--dialect", "morphir", "--", *PYTHON, "-c", program)
    assert done.returncode == 5 and done.stderr.count("I need a key") == 1


def test_an_entry_without_a_dialect_is_reported_with_the_assumed_one(tmp_path: Path) -> None:
    program = "print('{}', flush=True)"
    source = {"type": "process", "command": sys.executable, "args": ["-c", program]}
    for more, is_told in (("", True), ('dialect = "morphir"', False)):
        words = f"command = {json.dumps(source['command'])}, args = {json.dumps(source['args'])}"
        text = f'[[extensions]]\nname = "a"\n{more}\nsource = {{ type = "process", {words} }}\n'
        (tmp_path / "exthost.toml").write_text(text)
        done = run("inspect", "a", cwd=tmp_path)
        assert done.returncode == 5
        assert ("names no dialect, so morphir was assumed" in done.stderr) == is_told


def test_a_misspelt_source_type_is_reported_with_a_suggestion(tmp_path: Path) -> None:
    text = '[[extensions]]\nname = "a"\nsource = { type = "proces", command = "a" }\n'
    (tmp_path / "exthost.toml").write_text(text)
    assert 'did you mean "process"?' in run("list", cwd=tmp_path).stderr


def test_control_characters_of_an_extension_are_shown_in_a_table_instead_of_obeyed(
    tmp_path: Path,
) -> None:
    (tmp_path / "ext.py").write_text(HOSTILE_WORDS)
    command = ("--dialect", "morphir", "--", *PYTHON, str(tmp_path / "ext.py"))
    for verb in (("inspect",), ("tools", "--start")):
        lines = run(*verb, *command).stdout.splitlines()
        assert len(lines) == 2
        assert lines[1].endswith("one two \\x1b[2Jthree\\u202e")


def test_failed_starts_are_part_of_the_json_output() -> None:
    listed = run_json("tools", "--start", "--dialect", "morphir", "--", "no-such-program", code=5)
    assert listed["tools"] == []
    assert [item["code"] for item in listed["failed"]] == ["X0401"]


def test_failed_starts_are_shown_with_the_next_step() -> None:
    shown = run("tools", "--start", "--dialect", "morphir", "--", "no-such-program").stderr
    error, *_, help, more = shown.splitlines()
    assert error.startswith("error[X0401]: ") and more.endswith("exthost explain X0401")
    assert help.startswith("  help:   ") and "PATH" in help


def test_tools_shows_why_a_program_ended(tmp_path: Path) -> None:
    (tmp_path / "ext.py").write_text("import sys\nsys.exit('no module: frobnicate')\n")
    command = ("--dialect", "mcp", "--", *PYTHON, str(tmp_path / "ext.py"))
    shown = run("tools", "--start", *command)
    assert shown.returncode == 5
    lines = shown.stderr.splitlines()
    assert lines[0].startswith("error[X0501]: ext: ")
    assert "  exit:   exited with 1" in lines
    assert "  stderr: no module: frobnicate" in lines


@pytest.mark.sampled
@pytest.mark.parametrize("words", [("explain",), ("inspect",), ("call", "echo", "n=1")])
def test_a_stdout_that_is_closed_or_full_makes_no_traceback(words: tuple[str, ...]) -> None:
    command = () if words == ("explain",) else ("--dialect", "morphir", "--", *PYTHON, TEXT)
    line = shlex.join([*EXTHOST, *words, *command])
    for end, code in ((">&-", 0), ("<&- >&- 2>&-", 0), (">/dev/full", 2)):
        done = subprocess.run(
            ["/bin/sh", "-c", f"{line} {end}"],
            stderr=subprocess.PIPE,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert "Traceback" not in done.stderr and "Exception" not in done.stderr
        assert done.returncode == code, done.stderr
        assert ("error[X1379]" in done.stderr) == (code == 2)


def test_an_interrupt_while_it_is_being_imported_makes_no_traceback(tmp_path: Path) -> None:
    # Stands for the moment in which argparse is imported, which is too short to be hit.
    (tmp_path / "argparse.py").write_text(
        f"import os, signal\nos.kill(os.getpid(), {int(signal.SIGINT)})\nwhile True: pass\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = run_process("list", env={**os.environ, "PYTHONPATH": path})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
