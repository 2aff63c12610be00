"""The SDK imports only the standard library, and no module of the host.

An author can thus copy the SDK beside a program. `without_packages.py` runs a program (`sample.py`,
written with the SDK) and makes the import of any other module fail.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.authoring.sdk.programs import LONG_SECONDS, SAMPLE

WITHOUT_PACKAGES = Path(__file__).with_name("without_packages.py")
ROOT = Path(__file__).parents[3]
SOURCES = os.pathsep.join([str(ROOT / "src"), str(ROOT / "sdk" / "src")])


def run_without_packages(dialect: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the sample program in a dialect (protocol) until the end of its empty stdin."""
    return subprocess.run(
        [sys.executable, "-S", str(WITHOUT_PACKAGES), str(SAMPLE), "--dialect", dialect],
        env={"PYTHONPATH": SOURCES},
        input=b"",
        capture_output=True,
        timeout=LONG_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "mcp"])
def test_a_program_of_the_sdk_runs_without_other_packages(dialect: str) -> None:
    result = run_without_packages(dialect)
    assert (result.returncode, result.stderr) == (0, b"")


def test_without_protobuf_the_error_for_cigen_names_the_missing_package() -> None:
    result = run_without_packages("cigen")
    assert result.returncode == 2 and b"needs the package protobuf" in result.stderr
