"""The environment variables with which `exthost check` starts a program: those that a host would
pass. With PYTHONUNBUFFERED, a program that does not flush its output would seem to work. Secrets
among them are not in the report.
"""

import asyncio
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.authoring.check.junit import junit_text
from exthost.authoring.check.ledger import Ledger
from exthost.authoring.check.life_checks import LifeChecks
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


# Answers nothing, and repeats its input on stderr.
REPEATS_INPUT = "import sys; sys.exit(sys.stdin.readline())"


async def test_a_report_has_no_secret_of_the_config_of_the_extension() -> None:
    source = {"type": "process", "command": sys.executable, "args": ["-S", "-c", REPEATS_INPUT]}
    config = {"account": {"api_key": "s3cr3t-0123456789-value", "name": "public-name"}}
    entry = {"name": "leaky", "source": source, "config": config}
    report = await run_checks(spec_from_mapping(entry), {"PATH": "/bin"}, Settings())
    text = json.dumps(report.as_dict()) + junit_text(report)
    assert "public-name" in text
    assert "s3cr3t" not in text and "9-value" not in text


# Prints a token only once.
ONE_TOKEN = """
import os, sys
os.rename(sys.argv[1], sys.argv[1] + ".used")
print("s3cr3t-0123456789-value")
"""


async def test_an_early_end_is_not_checked_if_the_program_cannot_be_started_again(
    tmp_path: Path,
) -> None:
    ticket = tmp_path / "ticket"
    ticket.write_text("")
    command = [sys.executable, "-S", "-c", ONE_TOKEN, str(ticket)]
    source = {"type": "process", "command": sys.executable, "args": ["-S", "-c", ""]}
    entry = {"name": "once", "source": source, "env": {"TOKEN": {"command": command}}}
    conformance = Conformance()
    ledger = Ledger(conformance)
    starter = Starter(
        spec_from_mapping(entry), find_dialect("morphir"), conformance, {"PATH": "/bin"}, ledger, 60
    )
    life = LifeChecks(starter, ledger, 60)
    await life.check_early_end()
    await life.check_early_end()
    assert "did not start again" in ledger._skipped["early-end"]


# Writes its secret to stderr and, as a line that is not a message, to stdout. It answers only the
# handshake.
ANSWERS_AND_LEAKS = """
import json, os, sys
token = os.environ["TOKEN"]
print(token, file=sys.stderr, flush=True)
print("token", token)
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] not in ("initialize", "capabilities"):
        sys.exit()
    print(json.dumps({"id": request["id"], "result": []}), flush=True)
"""

# Prints another token at each run.
NEW_TOKEN = """
import os, sys
count = len(os.listdir(sys.argv[1]))
open(os.path.join(sys.argv[1], str(count)), "w").close()
print(f"s3cr3t-{count:03}-0123456789-value")
"""


def test_a_report_has_no_secret_of_an_earlier_start(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", NEW_TOKEN, str(tmp_path)]
    source = {"type": "process", "command": sys.executable, "args": ["-S", "-c", ANSWERS_AND_LEAKS]}
    entry = {"name": "leaky", "source": source, "env": {"TOKEN": {"command": command}}}
    report = asyncio.run(run_checks(spec_from_mapping(entry), {"PATH": "/bin"}, Settings()))
    assert len(list(tmp_path.iterdir())) > 1
    text = json.dumps(report.as_dict()) + junit_text(report)
    assert "token ***" in text
    assert "s3cr3t" not in text and "9-value" not in text
