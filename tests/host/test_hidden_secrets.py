"""A secret that the config refers to is in nothing that a host writes.

An extension gets secrets as environment variables, from a file or a command. Here it writes them to
stderr, to stdout, and into its replies and schemas, in each form in which a program may write them.
The host must replace them by "***" in its logs, traces, events, errors and reports. All of these
are searched, except the list of tools, which callers get as the extension announced it.
"""

import base64
import json
import logging
import resource
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import exthost
from exthost.errors import ExthostError
from exthost.host.audit import Audit
from exthost.host.control.description import describe_extension, schema_warnings
from exthost.host.control.status_report import StatusReport
from exthost.host.extension_logs import ExtensionLogs
from tests.extensions.morphir_program import morphir_program

FILE_SECRET = "f1le+secret/with?odd=characters"
COMMAND_SECRET = "c0mmand secret & more"
LINES_SECRET = "-----BEGIN KEY-----\nabcdefgh01234567\nzyxwvuts98765432\n-----END KEY-----"

# An extension that writes its three secrets in several forms wherever it can. Its tools: `leak`
# replies with an error, `die` exits, and those called `wrong` have schemas that are invalid.
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
        # Schemas that are wrong, so that warnings quote them. A warning is shortened after 300
        # characters: with these lengths, it ends before, inside and after a secret.
        wrong_schemas = [{"type": form} for form in forms]
        wrong_schemas += [{"type": "x" * n + forms[0]} for n in range(150, 300, 7)]
        wrong_schemas += [{"$schema": "x" * n + forms[0]} for n in range(250, 300, 7)]
        wrong_schemas += [{"enum": [forms[0]]}]
        reply["result"] += [{"name": f"wrong{n}", "description": "x", "params_schema": schema}
                            for n, schema in enumerate(wrong_schemas)]
    elif method == "die":
        # The host cuts a line of stderr after 8192 bytes, here inside a secret.
        for length in range(8150, 8192):
            print("x" * length + forms[0], file=sys.stderr)
        sys.exit("dying with " + " ".join(forms))
    else:
        reply["error"] = "failed with " + " ".join(forms)
    print(json.dumps(reply), flush=True)
"""


def base64_inside_of_longer_texts(secret: str) -> list[str]:
    """Return what the base64 of a text that contains the secret has in common with that of the
    secret. Three bytes are four digits, so there is one form for each remainder of the bytes before
    the secret. Four digits at each end are left out, because they also depend on other bytes."""
    encoded = [base64.b64encode(b"x" * before + secret.encode()).decode() for before in range(3)]
    return [digits[4:-4] for digits in encoded]


def forms_of(secret: str) -> list[str]:
    """Return the forms to search for: each line, percent codes and base64."""
    encoded = base64.b64encode(secret.encode()).decode()
    whole = [secret, encoded, quote(secret, ""), quote(secret)]
    return [*secret.splitlines(), *whole, *base64_inside_of_longer_texts(secret)]


def find_secrets(text: str) -> list[str]:
    """Return the forms of secrets that are in this text."""
    secrets = (FILE_SECRET, COMMAND_SECRET, LINES_SECRET)
    parts = [FILE_SECRET[:12], FILE_SECRET[-12:]]  # of a secret that was cut in two
    forms = [form for secret in secrets for form in forms_of(secret)]
    return [form for form in (*forms, *parts) if form in text]


def describe(extension: exthost.Extension) -> dict[str, Any]:
    """Return the description without the tools: callers get these as the extension announced
    them, because the host changes no schema. Warnings that quote a schema are in the result."""
    description = describe_extension(extension)
    return {key: value for key, value in description.items() if key != "tools"}


def write_leaky_extension(folder: Path) -> dict[str, Any]:
    """Write PROGRAM and the files with its secrets, and return its config entry."""
    for name, text in (("token", FILE_SECRET), ("lines", f"{LINES_SECRET}\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    program = folder / "program.py"
    program.write_text(PROGRAM)
    return {
        "name": "leaky",
        "source": {"command": sys.executable, "args": [str(program)]},
        "env": {
            "FILE": {"file": str(folder / "token")},
            "COMMAND": {"command": [sys.executable, "-c", f"print({COMMAND_SECRET!r})"]},
            "LINES": {"file": str(folder / "lines")},
        },
        "restart": {"strategy": "never"},
    }


async def call_all_tools(host: exthost.Host, extension: exthost.Extension) -> list[str]:
    """Call the tools, all of which fail, and return the texts of the errors."""
    texts: list[str] = []
    wrong_tools = [name for name in extension.tools if name.startswith("wrong")]
    for tool in ("leak", *wrong_tools, "die", "leak"):  # the last one fails: the program has exited
        try:
            await host.call_tool(f"leaky:{tool}", {"text": "x"}, timeout=60)
        except ExthostError as error:
            texts += [str(error), repr(error), json.dumps(error.as_dict()), error.help]
    return texts


@pytest.mark.more  # calls a tool for each of almost fifty wrong schemas
@pytest.mark.parametrize("permissions", [None, {}], ids=["no sandbox", "sandbox"])
async def test_no_secret_is_found_in_what_a_host_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, permissions: object
) -> None:
    caplog.set_level(logging.DEBUG)
    inputs, outputs = tmp_path / "inputs", tmp_path / "outputs"
    for folder in (inputs, outputs):
        folder.mkdir()
    entry = write_leaky_extension(inputs)
    if permissions is not None:
        entry["permissions"] = permissions
    texts: list[str] = []  # everything that the host publishes, raises or reports
    environ = {"PATH": "/usr/bin:/bin", "EXTHOST_HOME": str(outputs)}
    config = {"extensions": [entry]}
    trace = outputs / "trace.jsonl"
    async with exthost.Host.from_config(config, environ=environ, trace=trace) as host:
        audit = Audit(str(outputs / "audit.jsonl"), host.events)
        logs = ExtensionLogs(host.events, lambda id: str(outputs / f"{id}.log"))
        report = StatusReport(host)
        host.events.subscribe(exthost.events.EVERYTHING, lambda event: texts.append(repr(event)))
        extension = host["leaky"]
        await extension.start()
        assert any("arguments are not checked" in text for text in schema_warnings(extension))
        texts += schema_warnings(extension)
        texts += await call_all_tools(host, extension)
        texts += [repr(extension.spec), repr(extension), repr(extension.cause), repr(host)]
        texts += [repr(extension.stats), repr(extension.environment), repr(extension.enforced)]
        texts += [repr(extension.argv)]
        texts += [json.dumps(report.rows()), json.dumps(describe(extension), default=str)]
        logs.close()
        audit.close()
    texts += [record.getMessage() for record in caplog.records]
    texts += [path.read_text("utf-8", "replace") for path in outputs.rglob("*") if path.is_file()]
    assert any("dying with" in text for text in texts)  # the program did write its secrets
    written = {path.name for path in outputs.rglob("*") if path.is_file()}
    assert {"trace.jsonl", "audit.jsonl", "leaky.log"} <= written
    leaks = [(form, text) for text in texts for form in find_secrets(text)]
    assert not leaks, leaks[:3]


LIMIT_PROGRAM = morphir_program(
    "import resource; result = resource.getrlimit(resource.RLIMIT_CORE)"
)


@pytest.mark.parametrize(
    "settings",
    [{}, {"lifetime": "plain"}, {"permissions": {}}],
    ids=["tree", "plain", "sandbox"],
)
async def test_a_program_with_a_secret_leaves_no_core_file(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """With a limit of 0, the kernel writes no file, but passes the memory of the program to one
    that collects core files (`core_pattern`). With 1 it does neither."""
    token = tmp_path / "token"
    token.write_text(FILE_SECRET)
    token.chmod(0o600)
    source = {"command": sys.executable, "args": ["-S", "-E", "-c", LIMIT_PROGRAM]}
    entry = {"name": "a", "dialect": "morphir", "source": source, **settings}
    entry["env"] = {"TOKEN": {"file": str(token)}}
    limit = 0 if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0 else 1
    async with exthost.Host.from_config({"extensions": [entry]}) as host:
        assert await host["a"].call("limit", {}) == [limit, limit]
