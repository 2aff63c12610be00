"""The example extensions in the README and the docs that are written without the SDK are correct.

`exthost check`, which tests an extension against the rules of its dialect (protocol), finds no
fault.
"""

import os
import sys
from pathlib import Path

import pytest

from exthost.authoring.check.run import run_checks
from exthost.authoring.check.settings import Settings
from exthost.config.discovery.extension_at_path import spec_at
from exthost.host.connection import connection_spec
from exthost.model.spec import Spec
from tests.docs.test_docs import read_blocks, write_files

# Long limits, so that a busy machine causes no finding.
PATIENT = Settings(seconds=180, reply_seconds=60)


async def assert_passes(spec: Spec) -> None:
    """Check that `exthost check` finds no fault of an extension."""
    report = await run_checks(spec, os.environ, PATIENT)
    # The rule "speed" depends on the machine.
    findings = [finding for finding in report.findings if finding.rule.name != "speed"]
    assert [(finding.rule.name, finding.message) for finding in findings] == []
    # One of the rules that need an answer of the program: the checks were really made.
    assert "unknown-method" in {outcome.rule.name for outcome in report.with_status("passed")}


async def test_the_first_program_of_the_readme_passes_every_check(tmp_path: Path) -> None:
    write_files(read_blocks("README.md"), tmp_path)
    await assert_passes(connection_spec([sys.executable, str(tmp_path / "text.py")], "morphir", {}))


@pytest.mark.more  # each takes a second, and the programs rarely change
@pytest.mark.parametrize(
    ("page", "program"), [("dialects/morphir.md", "words.py"), ("howto/sandbox.md", "reader.py")]
)
async def test_the_programs_of_the_docs_pass_every_check(
    page: str, program: str, tmp_path: Path
) -> None:
    write_files(read_blocks(f"docs/{page}"), tmp_path)
    await assert_passes(connection_spec([sys.executable, str(tmp_path / program)], "morphir", {}))


@pytest.mark.more  # each takes a second, and the programs rarely change
@pytest.mark.parametrize("dialect", ["roder", "synaps"])
async def test_the_smallest_extension_of_a_dialect_passes_every_check(
    dialect: str, tmp_path: Path
) -> None:
    write_files(read_blocks(f"docs/dialects/{dialect}.md"), tmp_path)
    await assert_passes(spec_at(tmp_path / "shout"))
