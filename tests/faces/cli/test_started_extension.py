"""Tests of `abridged_log`, which prints the stderr of an extension that a verb starts.

It leaves out the middle of a long log, which would otherwise hide the output of the verb. If the
verb fails, the log is complete.
"""

import json
import sys
from pathlib import Path

import pytest

from exthost.events import LogLine, Progressed
from exthost.faces.cli.started_extension import abridged_log
from tests.faces.cli.cli_process import run_inside


def write_lines(count: int, *, fails: bool = False) -> None:
    """Log lines as an extension that a verb has started; then the verb ends or fails."""
    with abridged_log() as bus:
        for number in range(count):
            bus.publish(LogLine("a", "stderr", 20, f"line {number}"))
        if fails:
            raise ValueError


def test_the_middle_of_a_long_log_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(80)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        *(f"[a] line {number}" for number in range(10)),
        "65 lines of its log left out",
        *(f"[a] line {number}" for number in range(75, 80)),
    ]


@pytest.mark.parametrize(("count", "fails"), [(15, False), (80, True)])
def test_a_short_log_and_that_of_a_failure_are_complete(
    count: int, fails: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        write_lines(count, fails=fails)
    except ValueError:
        assert fails
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"[a] line {number}" for number in range(count)]


def test_the_number_of_lines_that_were_left_out_counts_those_that_were_not_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_lines(5000)
    assert "4985 lines of its log left out" in capsys.readouterr().err
    with pytest.raises(ValueError):
        write_lines(5000, fails=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[10] == "3990 lines of its log left out" and lines[11] == "[a] line 4000"


def test_large_numbers_of_progress_are_shown_with_all_digits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with abridged_log() as bus:
        bus.publish(Progressed("a", "m", 1234567, 12345678, "bytes", None))
        bus.publish(Progressed("a", "m", 0.5, None, "", None))
    assert capsys.readouterr().err == "[a] m: 1234567 of 12345678 bytes\n[a] m: 0.5\n"


def test_inspect_leaves_out_the_middle_of_a_long_log(tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(
        "import json, sys\n"
        "for number in range(80):\n"
        "    print('line', number, file=sys.stderr)\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'id': json.loads(line)['id'], 'result': []}), flush=True)\n"
    )
    command = [sys.executable, "-S", "-E", str(server)]
    result = run_inside("inspect", "--json", "--dialect", "morphir", "--", *command, cwd=tmp_path)
    assert result.returncode == 0 and json.loads(result.stdout)["dialect"] == "morphir"
    assert "line 9\n" in result.stderr and "line 40" not in result.stderr
    assert "line 79\n" in result.stderr and "65 lines of its log left out" in result.stderr
