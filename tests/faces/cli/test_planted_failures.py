"""The output of exthost for common mistakes is that of the snapshots (`snapshots/NAME.txt`).

`planted_failures.py` lists the mistakes, and says how to write the snapshots anew.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import (
    EXTHOST,
    RUN_SECONDS,
    host_process,
    run_inside,
    wait_for,
)
from tests.faces.cli.planted_failures import (
    CRASH_LOOP,
    FAILURES,
    UPDATE_SNAPSHOTS,
    Failure,
    normalise,
)

SNAPSHOTS = Path(__file__).parent / "snapshots"

# The numbers of failures that start several processes or wait for a time limit.
SLOW = {
    *("02", "03", "04", "08", "26", "27", "31", "32", "33", "34", "35", "40"),
    *("01", "06", "07", "10", "12", "14", "24", "29", "38"),
    *("44", "46", "47", "48", "49", "50", "52", "57"),
    *("115", "116", "117", "130", "131", "132", "133", "134", "136", "137", "139", "140"),
    *("145", "147"),
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(
            item,
            id=item.name,
            marks=[pytest.mark.more] if item.name.partition("-")[0] in SLOW else [],
        )
        for item in FAILURES
    ],
)
def test_the_report_of_a_failure_is_that_of_its_snapshot(failure: Failure, tmp_path: Path) -> None:
    failure.write(tmp_path)
    env = {**os.environ, **failure.env}
    if failure.around:
        command = ["sh", "-c", failure.around, "sh", *EXTHOST, *failure.arguments]
        result = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=RUN_SECONDS
        )
    else:
        result = run_inside(*failure.arguments, cwd=tmp_path, env=env)
    output = f"exit {result.returncode}\n{result.stdout}{result.stderr}"
    assert result.returncode == failure.code, output
    assert "t0p-secret" not in output
    _compare_with_snapshot(failure, output, tmp_path)


@pytest.mark.more
def test_the_report_of_a_crash_loop_is_that_of_its_snapshot(tmp_path: Path) -> None:
    CRASH_LOOP.write(tmp_path)
    with host_process(tmp_path) as host:
        last = wait_for(host, "x: failed")
        result = run_inside(*CRASH_LOOP.arguments, cwd=tmp_path, env=dict(os.environ))
    output = f"{last}exit {result.returncode}\n{result.stdout}{result.stderr}"
    assert result.returncode == CRASH_LOOP.code, output
    _compare_with_snapshot(CRASH_LOOP, output, tmp_path)


def _compare_with_snapshot(failure: Failure, output: str, folder: Path) -> None:
    snapshot = SNAPSHOTS / f"{failure.name}.txt"
    text = normalise(output, folder)
    if UPDATE_SNAPSHOTS:
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_text(text)
    assert text == snapshot.read_text()
    if failure.code:
        assert re.search(r"^  (help|also|fix):|: write |must be one of", text, re.MULTILINE)


def test_every_snapshot_belongs_to_a_failure() -> None:
    names = {path.stem for path in SNAPSHOTS.glob("*.txt")}
    assert names == {failure.name for failure in [*FAILURES, CRASH_LOOP]}
