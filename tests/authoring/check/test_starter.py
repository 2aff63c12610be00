"""The environment variables with which `exthost check` starts a program: those that a host would
pass. With PYTHONUNBUFFERED, a program that does not flush its output would seem to work. Secrets
among them are not in the report.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.authoring.check.junit import junit_text
from exthost.authoring.check.ledger import Ledger
from exthost.authoring.check.run import run_checks
from exthost.authoring.check.settings import Settings
from exthost.authoring.check.starter import Starter
from exthost.config import spec_from_mapping
from exthost.dialects.conformance import Conformance
from exthost.dialects.find import find_dialect
from exthost.host.connection import connection_spec
from exthost.model.spec import HostEnvRef


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, None),
        ({"PYTHONUNBUFFERED": "1"}, "1"),
        ({"PYTHONUNBUFFERED": HostEnvRef("PYTHONUNBUFFERED")}, "x"),
    ],
)
async def test_pythonunbuffered_is_passed_only_if_it_is_configured(
    env: dict[str, Any], expected: str | None
) -> None:
    spec = connection_spec([sys.executable, "-S", "-c", ""], "morphir", {})
    spec = dataclasses.replace(spec, env=env)
    conformance = Conformance()
    starter = Starter(
        spec,
        find_dialect("morphir"),
        conformance,
        {"PATH": "/bin", "PYTHONUNBUFFERED": "x", "LANG": "C"},
        Ledger(conformance),
        reply_seconds=60,
    )
    try:
        process = await starter.start()
    finally:
        await starter.release_all()
    assert process.launch.plan.env.get("PYTHONUNBUFFERED") == expected
    assert process.launch.plan.env["LANG"] == "C"


# Writes its secret to stdout, in two pieces, and to stderr, and exits.
LEAKY = """
import os, sys, time
token = os.environ["TOKEN"]
sys.stdout.write(f"token: {token[:12]}")
sys.stdout.flush()
sys.stdin.readline()
print(token[12:], f'{{"id": "{token}"}}', flush=True)
sys.exit(f"not valid: {token}")
"""


async def test_a_report_has_no_secret_of_the_extension(tmp_path: Path) -> None:
    secret = "s3cr3t-0123456789-value"
    token = tmp_path / "token"
    token.write_text(secret)
    token.chmod(0o600)
    source = {"type": "process", "command": sys.executable, "args": ["-S", "-E", "-c", LEAKY]}
    entry = {"name": "leaky", "source": source, "env": {"TOKEN": {"file": str(token)}}}
    report = await run_checks(spec_from_mapping(entry), {"PATH": "/bin"}, Settings())
    text = json.dumps(report.as_dict()) + junit_text(report)
    assert "token: ***" in text and "not valid: ***" in text
    assert "s3cr3t" not in text and "9-value" not in text
