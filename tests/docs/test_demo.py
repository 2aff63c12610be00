"""`make demo` shows what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.mark.more  # seven processes and a sandbox: seconds
def test_the_demo_calls_six_dialects_recovers_from_a_crash_and_refuses() -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    for dialect in ("morphir", "nexo", "cigen", "synaps", "roder", "mcp"):
        assert f"    {dialect:<7} │ ext_" in shown
    for part in ('{"text":"HELLO"}', "3 words", "[X1301]", "ZeroDivisionError", "6 / 3 = 2.0"):
        assert part in shown
    assert "starting → ready" in shown and "the password" not in shown
