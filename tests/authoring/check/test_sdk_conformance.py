"""Programs without faults pass `exthost check`: a program of the SDK in every dialect (the protocol
of an extension), servers of other projects, and plugins that were written without the SDK.

SAMPLE is `sample.py`, with two tools, a stream and progress.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest

from exthost.authoring.check.findings import Report
from exthost.authoring.check.manifest_check import check_manifest
from exthost.authoring.check.run import run_checks
from exthost.authoring.check.settings import Settings
from exthost.config.discovery.extension_at_path import spec_at
from exthost.host.connection import connection_spec
from tests.authoring.sdk.programs import JSON_DIALECTS, SAMPLE, command, write_manifest

# Limits that are longer than any test takes.
LONG_LIMITS = Settings(
    seconds=180, reply_seconds=60, calls=(("add", {"a": 1, "b": 2}), ("work", {"steps": 2}))
)
SERVERS = Path(sys.executable).parent


def assert_passes(report: Report) -> None:
    # The speed depends on the machine.
    findings = [finding for finding in report.findings if finding.rule.name != "speed"]
    assert [(finding.rule.name, finding.message) for finding in findings] == []


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_one_program_passes_in_every_json_dialect(dialect: str, tmp_path: Path) -> None:
    argv = command(SAMPLE, dialect)
    if dialect != "roder":
        spec = connection_spec(argv, dialect, {})
    else:
        manifest = write_manifest(SAMPLE, dialect, tmp_path)
        argv[1] = str(tmp_path / SAMPLE.name)
        spec = connection_spec(argv, dialect, {"manifest": str(manifest)})
    report = await run_checks(spec, os.environ, LONG_LIMITS)
    assert_passes(report)
    assert {"handshake", "joined-frames", "unknown-tool", "result", "restart"} <= {
        outcome.rule.name for outcome in report.with_status("passed")
    }


@pytest.mark.more
@pytest.mark.parametrize("server", ["mcp-server-time", "mcp-server-git"])
async def test_servers_of_other_projects_pass(server: str) -> None:
    program = shutil.which(server, path=str(SERVERS))
    if program is None:
        pytest.skip(f"{server} is not installed")
    spec = connection_spec([program], "mcp", {})
    assert_passes(await run_checks(spec, os.environ, Settings(seconds=180, reply_seconds=60)))


@pytest.mark.more
@pytest.mark.parametrize("name", ["nexo_second/marks", "synaps_today/meter", "synaps_today/redact"])
async def test_plugins_of_current_contracts_pass(name: str) -> None:
    """These programs were written without the SDK, from the description of their contract."""
    if shutil.which("node") is None and name != "synaps_today/redact":
        pytest.skip("node is not installed")
    spec = spec_at(Path(__file__).parents[2] / "extensions" / name)
    report = await run_checks(spec, os.environ, Settings(seconds=180, reply_seconds=60))
    assert_passes(check_manifest(spec).add_to(report))


@pytest.mark.more
async def test_the_program_passes_in_the_second_contract_of_nexo() -> None:
    spec = connection_spec(command(SAMPLE, "nexo"), "nexo", {"options": {"contract": 2}})
    calls = (("sample_add", {"a": 1, "b": 2}),)
    settings = Settings(seconds=180, reply_seconds=60, calls=calls)
    assert_passes(await run_checks(spec, os.environ, settings))
