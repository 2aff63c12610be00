"""Tests of situations that a new user of the command line meets: a misspelt verb, no config, an
extension that does not start, a closed stdout, Ctrl-C."""

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
from tests.extensions.morphir_program import morphir_program
from tests.faces.cli.cli_process import EXTHOST, RUN_SECONDS, run_process
from tests.faces.cli.cli_process import run_inside as run
from tests.faces.cli.test_cli import PYTHON, run_json
from tests.host.test_host import TEXT

CATALOG = error_catalog.load(*find.iter_error_tables())
ROOT = Path(__file__).parents[3]

# An extension in the dialect morphir with control characters in the description of its tool.
HOSTILE_DESCRIPTION = morphir_program(
    tools=[{"name": "t", "description": "one\n\ttwo \x1b[2Jthree\u202e"}]
)

# The beginning of the help of the error, by the arguments of exthost.
SUGGESTIONS = {
    ("lst",): "did you mean list?",
    ("list", "--jsn"): "did you mean --json?",
    ("logs", "x", "-n", "-5"): "see exthost logs --help",
    ("logs", "x", "-n", "many"): "see exthost logs --help",
    ("trace", "--count", "-3"): "see exthost trace --help",
    ("gateway", "--http", "99999999"): "see exthost gateway --help",
    ("list", "--", "python3"): "exthost inspect -- COMMAND ARGS…",
    ("explain", "--", "python3"): "exthost inspect -- COMMAND ARGS…",
}


@pytest.mark.parametrize("arguments", SUGGESTIONS)
def test_a_misspelling_is_reported_with_a_suggestion(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "exthost.toml").touch()
    result = run(*arguments, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error[X1316]: ")
    assert f"help:   {SUGGESTIONS[arguments]}" in result.stderr


def test_the_error_for_an_unknown_verb_is_json_with_the_json_option() -> None:
    error = run_json("lst", code=2)["error"]
    assert (error["code"], error["help"]) == ("X1316", "did you mean list?")


@pytest.mark.parametrize("verb", VERBS)
def test_help_before_the_verb_is_the_same_as_the_help_option(verb: str) -> None:
    result = run("help", verb)
    assert result.returncode == 0
    assert result.stdout == run(verb, "--help").stdout
    assert result.stdout.startswith(f"usage: exthost {verb} ")


@pytest.mark.parametrize("verb", ["list", "tools", "validate", "run", "gateway"])
def test_without_a_config_these_verbs_have_the_same_error(verb: str, tmp_path: Path) -> None:
    error = run_json(verb, code=2, cwd=tmp_path)["error"]
    assert (error["code"], error["message"]) == ("X1316", "there is no exthost.toml here")
    assert error["help"].startswith("`exthost add NAME --dialect D -- COMMAND` writes one")
    assert ("a command after --" in error["help"]) == (verb == "tools")


def test_doctor_checks_the_machine_without_a_config(tmp_path: Path) -> None:
    report = run_json("doctor", cwd=tmp_path)
    assert report["ok"] and report["extensions"] == [] and "strict" in report["sandbox"]
    assert "only the machine was checked" in report["findings"][0]["message"]


@pytest.mark.parametrize("verb", ["list", "tools", "validate"])
def test_a_config_without_extensions_is_reported_on_stderr(verb: str, tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").touch()
    result = run(verb, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "")
    assert "no " in result.stderr


# On Windows, modules such as fcntl cannot be imported.
ON_WINDOWS = """
import os, pathlib, sys
from exthost.faces.cli import main

os.name, sys.modules["fcntl"] = "nt", None
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("verb", ["list", "new", "call"])
def test_on_windows_a_verb_says_that_windows_is_not_supported(verb: str) -> None:
    command = [sys.executable, "-S", "-c", ON_WINDOWS, verb]
    folders = [str(ROOT / "src"), str(ROOT / "sdk" / "src")]
    result = subprocess.run(
        command,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(folders)),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr == "error: exthost does not run on Windows: install and run it in WSL2\n"


def test_explain_lists_the_codes_in_order() -> None:
    assert list(run_json("explain")) == sorted(CATALOG)


def test_explain_accepts_the_kind_of_an_error() -> None:
    codes = {code for code, entry in CATALOG.items() if entry.kind == "CallTimeout"}
    assert set(run_json("explain", "calltimeout")) == codes and len(codes) > 1
    assert "did you mean CallTimeout?" in run("explain", "CallTimout").stderr


def test_output_that_was_already_shown_is_not_repeated_by_the_error() -> None:
    program = "import sys; print('I need', 'a key', file=sys.stderr, flush=True); sys.exit(3)"
    result = run("call", "x", "--dialect", "morphir", "--", *PYTHON, "-c", program)
    assert result.returncode == 5 and result.stderr.count("I need a key") == 1


def test_the_error_of_an_entry_without_a_dialect_names_the_assumed_dialect(tmp_path: Path) -> None:
    program = "print('{}', flush=True)"
    for dialect, is_reported in (("", True), ('dialect = "morphir"', False)):
        (tmp_path / "exthost.toml").write_text(
            f'[[extensions]]\nname = "a"\n{dialect}\nsource = {{ type = "process", '
            f"command = {json.dumps(sys.executable)}, args = {json.dumps(['-c', program])} }}\n"
        )
        result = run("inspect", "a", cwd=tmp_path)
        assert result.returncode == 5
        assert ("names no dialect, so morphir was assumed" in result.stderr) == is_reported


def test_a_misspelt_source_type_is_reported_with_a_suggestion(tmp_path: Path) -> None:
    text = '[[extensions]]\nname = "a"\nsource = { type = "proces", command = "a" }\n'
    (tmp_path / "exthost.toml").write_text(text)
    assert 'did you mean "process"?' in run("list", cwd=tmp_path).stderr


def test_control_characters_of_an_extension_are_escaped_in_a_table(
    tmp_path: Path,
) -> None:
    (tmp_path / "ext.py").write_text(HOSTILE_DESCRIPTION)
    command = ("--dialect", "morphir", "--", *PYTHON, str(tmp_path / "ext.py"))
    for verb in (("inspect",), ("tools", "--start")):
        lines = run(*verb, *command).stdout.splitlines()
        assert len(lines) == 2
        assert lines[1].endswith("one two \\x1b[2Jthree\\u202e")


def test_failed_starts_are_part_of_the_json_output() -> None:
    report = run_json("tools", "--start", "--dialect", "morphir", "--", "no-such-program", code=5)
    assert report["tools"] == []
    assert [item["code"] for item in report["failed"]] == ["X0401"]


def test_failed_starts_are_shown_with_the_next_step() -> None:
    stderr = run("tools", "--start", "--dialect", "morphir", "--", "no-such-program").stderr
    error, *_, help, more = stderr.splitlines()
    assert error.startswith("error[X0401]: ") and more.endswith("exthost explain X0401")
    assert help.startswith("  help:   ") and "PATH" in help


def test_tools_shows_why_a_program_ended(tmp_path: Path) -> None:
    (tmp_path / "ext.py").write_text("import sys\nsys.exit('no module: frobnicate')\n")
    command = ("--dialect", "mcp", "--", *PYTHON, str(tmp_path / "ext.py"))
    result = run("tools", "--start", *command)
    assert result.returncode == 5
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error[X0501]: ext: ")
    assert "  exit:   exited with 1" in lines
    assert "  stderr: no module: frobnicate" in lines


@pytest.mark.more
@pytest.mark.sampled
@pytest.mark.parametrize("arguments", [("explain",), ("inspect",), ("call", "echo", "n=1")])
def test_a_closed_or_full_stdout_causes_no_traceback(arguments: tuple[str, ...]) -> None:
    command = () if arguments == ("explain",) else ("--dialect", "morphir", "--", *PYTHON, TEXT)
    line = shlex.join([*EXTHOST, *arguments, *command])
    for redirection, code in ((">&-", 0), ("<&- >&- 2>&-", 0), (">/dev/full", 2)):
        result = subprocess.run(
            ["/bin/sh", "-c", f"{line} {redirection}"],
            stderr=subprocess.PIPE,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert "Traceback" not in result.stderr and "Exception" not in result.stderr
        assert result.returncode == code, result.stderr
        assert ("error[X1379]" in result.stderr) == (code == 2)  # writing to stdout failed


def test_an_interrupt_during_imports_causes_no_traceback(tmp_path: Path) -> None:
    # This module replaces argparse and interrupts its own import; the real import is too short.
    (tmp_path / "argparse.py").write_text(
        f"import os, signal\nos.kill(os.getpid(), {int(signal.SIGINT)})\nwhile True: pass\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    result = run_process("list", env={**os.environ, "PYTHONPATH": path})
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")
