"""Failures that people plant by accident: messages say what was seen, whose fault, and the fix."""

import os
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import run_inside, running, wait_for
from tests.faces.cli.planted_failures import FAILURES, LOOPS, UPDATES, Failure, normalised

SNAPSHOTS = Path(__file__).parent / "snapshots"

# Those that start several processes, or end by a time limit.
SLOW = {
    *("02", "03", "04", "08", "26", "27", "31", "32", "33", "34", "35", "40"),
    *("01", "06", "07", "10", "12", "14", "24", "29", "38"),
}


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(item, id=item.name, marks=[pytest.mark.more] if item.name[:2] in SLOW else [])
        for item in FAILURES
    ],
)
def test_a_planted_failure_is_still_reported(failure: Failure, tmp_path: Path) -> None:
    failure.write(tmp_path)
    done = run_inside(*failure.words, cwd=tmp_path, env={**os.environ, **failure.env})
    shown = f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.returncode == failure.code, shown
    assert "t0p-secret" not in shown
    _compare(failure, shown, tmp_path)


@pytest.mark.more
def test_a_crash_loop_is_still_reported(tmp_path: Path) -> None:
    LOOPS.write(tmp_path)
    with running(tmp_path) as host:
        last = wait_for(host, "x: failed")
        done = run_inside(*LOOPS.words, cwd=tmp_path, env=dict(os.environ))
    shown = f"{last}exit {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.returncode == LOOPS.code, shown
    _compare(LOOPS, shown, tmp_path)


def _compare(failure: Failure, shown: str, folder: Path) -> None:
    snapshot = SNAPSHOTS / f"{failure.name}.txt"
    text = normalised(shown, folder)
    if UPDATES:
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_text(text)
    assert text == snapshot.read_text()
    if failure.code:
        assert "  help:   " in text or "also:" in text  # the next step


def test_every_snapshot_belongs_to_a_failure() -> None:
    names = {path.stem for path in SNAPSHOTS.glob("*.txt")}
    assert names == {failure.name for failure in [*FAILURES, LOOPS]}
