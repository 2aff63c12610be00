"""The demo of `make demo` (`examples/demo.py`) runs: it calls a tool of an extension in each of the
six dialects (protocols), and shows how an extension recovers from a crash."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import RUN_SECONDS

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.mark.more  # it takes seconds: it starts seven processes and a sandbox
def test_the_demo_calls_six_dialects_and_recovers_from_a_crash() -> None:
    result = subprocess.run(
        [sys.executable, str(DEMO)],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    output = result.stdout
    for dialect in ("morphir", "nexo", "cigen", "synaps", "roder", "mcp"):
        assert f"    {dialect:<7} │ ext_" in output
    for part in ('{"text":"HELLO"}', "3 words", "[X1301]", "ZeroDivisionError", "6 / 3 = 2.0"):
        assert part in output
    assert "starting → ready" in output and "the password" not in output
