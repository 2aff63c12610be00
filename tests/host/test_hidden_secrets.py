"""A secret that the config refers to is in nothing that a host writes: a search of everything."""

import base64
import json
import logging
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import exthost
from exthost.errors import ExthostError
from exthost.host.audit import Audit
from exthost.host.control.description import describe_extension
from exthost.host.control.status_report import StatusReport
from exthost.host.extension_logs import ExtensionLogs

FILE_SECRET = "f1le+secret/with?odd=characters"
COMMAND_SECRET = "c0mmand secret & more"
LINES_SECRET = "-----BEGIN KEY-----\nabcdefgh01234567\nzyxwvuts98765432\n-----END KEY-----"

PROGRAM = """
import base64, json, os, sys, urllib.parse
secrets = [os.environ[name] for name in ("FILE", "COMMAND", "LINES")]
forms = []
for secret in secrets:
    forms += [secret, base64.b64encode(secret.encode()).decode(), urllib.parse.quote(secret, "")]
    forms += [base64.b64encode(b"user:" + secret.encode()).decode(), urllib.parse.quote(secret)]
for form in forms:
    print(form, file=sys.stderr, flush=True)
print("stray", *forms, flush=True)
for line in sys.stdin:
    request = json.loads(line)
    method, reply = request["method"], {"id": request["id"]}
    if method == "initialize":
        reply["result"] = None
    elif method == "capabilities":
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        reply["result"] = [{"name": "leak", "description": "x", "params_schema": schema},
                           {"name": "die", "description": "x", "params_schema": schema}]
    elif method == "die":
        sys.exit("dying with " + " ".join(forms))
    else:
        reply["error"] = "failed with " + " ".join(forms)
    print(json.dumps(reply), flush=True)
"""


def forms_of(secret: str) -> list[str]:
    lines = [line for line in secret.splitlines() if "KEY" not in line]
    encoded = base64.b64encode(secret.encode()).decode()
    return [*lines, secret, encoded, quote(secret, ""), quote(secret), encoded[4:-4]]


def search(text: str) -> list[str]:
    secrets = (FILE_SECRET, COMMAND_SECRET, LINES_SECRET)
    return [form for secret in secrets for form in forms_of(secret) if form in text]


@pytest.mark.more
@pytest.mark.parametrize("permissions", [None, {}])
async def test_no_secret_is_found_in_what_a_host_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, permissions: object
) -> None:
    caplog.set_level(logging.DEBUG)
    inputs, outputs = tmp_path / "inputs", tmp_path / "outputs"
    for folder in (inputs, outputs):
        folder.mkdir()
    for name, text in (("token", FILE_SECRET), ("lines", f"{LINES_SECRET}\n")):
        (inputs / name).write_text(text)
        (inputs / name).chmod(0o600)
    program = inputs / "program.py"
    program.write_text(PROGRAM)
    entry: dict[str, Any] = {
        "name": "leaky",
        "source": {"command": sys.executable, "args": [str(program)]},
        "env": {
            "FILE": {"file": str(inputs / "token")},
            "COMMAND": {"command": [sys.executable, "-c", f"print({COMMAND_SECRET!r})"]},
            "LINES": {"file": str(inputs / "lines")},
        },
        "restart": {"strategy": "never"},
    }
    if permissions is not None:
        entry["permissions"] = permissions
    texts: list[str] = []
    environ = {"PATH": "/usr/bin:/bin", "EXTHOST_HOME": str(outputs)}
    config = {"extensions": [entry]}
    trace = outputs / "trace.jsonl"
    async with exthost.Host.from_config(config, environ=environ, trace=trace) as host:
        audit = Audit(str(outputs / "audit.jsonl"), host.events)
        logs = ExtensionLogs(host.events, lambda id: str(outputs / f"{id}.log"))
        report = StatusReport(host)
        host.events.subscribe(exthost.events.EVERYTHING, lambda event: texts.append(repr(event)))
        extension = host["leaky"]
        for tool in ("leak", "die", "leak"):
            try:
                await host.call_tool(f"leaky:{tool}", {"text": "x"}, timeout=60)
            except ExthostError as error:
                texts += [str(error), repr(error), json.dumps(error.as_dict()), error.help]
        texts += [repr(extension.spec), repr(extension), repr(extension.cause), repr(host)]
        texts += [repr(extension.stats), repr(extension.environment), repr(extension.enforced)]
        texts += [repr(extension.argv)]
        texts += [json.dumps(report.rows()), json.dumps(describe_extension(extension), default=str)]
        logs.close()
        audit.close()
    texts += [record.getMessage() for record in caplog.records]
    texts += [path.read_text("utf-8", "replace") for path in outputs.rglob("*") if path.is_file()]
    assert any("dying with" in text for text in texts)  # the program did write its secrets
    written = {path.name for path in outputs.rglob("*") if path.is_file()}
    assert {"trace.jsonl", "audit.jsonl", "leaky.log"} <= written
    found = [(form, text) for text in texts for form in search(text)]
    assert not found, found[:3]
