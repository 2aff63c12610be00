"""Mistakes that authors and users often make, as data: the files, the command line, the exit code.

`test_planted_failures.py` runs each mistake in an empty folder and compares the output with the
snapshot of the same name in `tests/faces/cli/snapshots/`. `EXTHOST_UPDATE_SNAPSHOTS=1` writes the
snapshots.
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

BAD = Path(__file__).parents[2] / "authoring" / "check" / "bad_extension.py"
PYTHON = (sys.executable, "-S", "-E")

# The time limit of extensions that never answer, and the limit of all others.
SHORT = "2s"
LONG = "50s"


@dataclass(frozen=True)
class Failure:
    """One mistake. The names of `files` are relative to the folder; a file that begins with `#!` is
    made executable, except `plain.py`."""

    name: str
    arguments: tuple[str, ...]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    code: int = 5  # the exit code

    def write(self, folder: Path) -> None:
        """Write the files."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            path.write_bytes(data)
            if data.removeprefix(b"\xef\xbb\xbf").startswith(b"#!") and name != "plain.py":
                path.chmod(0o755)


def with_fault(
    verb: str, fault: str, dialect: str = "morphir", timeout: str = LONG
) -> tuple[str, ...]:
    """Return the arguments that run a verb with an extension that has this fault."""
    arguments = [*verb.split(), "--timeout", timeout, "--dialect", dialect]
    return (*arguments, "--", *PYTHON, str(BAD), dialect, fault, "state")


def inspect_program(path: str) -> tuple[str, ...]:
    """Return the arguments that inspect an executable file."""
    return ("inspect", "--timeout", LONG, "--dialect", "morphir", "--", path)


def inspect_python(script: str, dialect: str = "morphir") -> tuple[str, ...]:
    """Return the arguments that inspect a Python script."""
    return ("inspect", "--timeout", LONG, "--dialect", dialect, "--", *PYTHON, script)


SHOUT = "shout text=hi"
WRONG_DIALECT = with_fault("inspect", "none")
NO_NETWORK = 'source = {type = "process", command = "./npx"}\npermissions = {network = false}'
UNSET_REFERENCE = {
    "mcpServers": {"x": {"command": "true", "env": {"GITHUB_TOKEN": "${NOPE_TOKEN}"}}}
}
# A morphir extension without tools.
EMPTY_EXTENSION = (
    "import json, sys\n"
    "for line in sys.stdin:\n"
    "    request = json.loads(line)\n"
    "    print(json.dumps({'id': request['id'], 'result': []}), flush=True)\n"
)
NEXO_MANIFEST = '[plugin]\nid = "x"\nversion = "{version}"\n[capabilities]\ntools = ["t"]\n'
NEXO_TRANSPORT = '[transport]\nkind = "stdio"\ncommand = "./x.py"\n'
RODER_MANIFEST = (
    'id = "x"\nname = "x"\nversion = "1.0.0"\napi_version = "^0.1"\n[launch]\ncommand = "python3"\n'
    'args = ["x.py"]\n[[provides]]\ntype = "{type}"\nid = "x-tools"\n[[provides.tools]]\n'
    'name = "t"\ndescription = "d"\nparameters = {{ type = "object" }}\n'
)
# A roder extension that returns a wrong checksum of its manifest.
WRONG_CHECKSUM = (
    "import json, sys\n"
    "for line in sys.stdin:\n"
    "    request = json.loads(line)\n"
    "    services = [{'type': 'tool_provider', 'id': 'x-tools', 'tools': [{'name': 't',\n"
    "        'description': 'd', 'parameters': {'type': 'object'}}]}]\n"
    "    result = {'protocolVersion': '0.2.0', 'extensionId': 'x', 'services': services,\n"
    "        'manifestChecksum': '0' * 16}\n"
    "    print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)\n"
)


def plugin_json(text: str) -> dict[str, str]:
    """Return the files of a synaps plugin with this manifest."""
    return {"x/.synaps-plugin/plugin.json": text, "x/x.py": EMPTY_EXTENSION}


def synaps_manifest(permissions: list[str]) -> str:
    """Return a synaps manifest with these permissions."""
    command = {"command": "python3", "args": ["x.py"], "runtime": "process"}
    extension = {"protocol_version": 1, "permissions": permissions, **command}
    return json.dumps({"name": "x", "version": "1.0.0", "extension": extension}, indent=2)


ENTRY = '[[extensions]]\nname = "x"\ndialect = "{dialect}"\n{more}\n'

FAILURES = [
    Failure("01-prints", with_fault(f"call {SHOUT}", "prints"), code=0),
    Failure(
        "02-wrong-id-in-a-reply",
        with_fault(f"call {SHOUT}", "wrong-id-in-call", timeout=SHORT),
        code=6,
    ),
    Failure("03-wrong-id", with_fault("inspect", "wrong-id")),
    Failure("04-no-flush", with_fault("inspect", "silent", timeout=SHORT)),
    Failure("05-exception", with_fault("call shout --args {}", "dies-of-arguments"), code=2),
    Failure("05-exception-in-a-handler", with_fault(f"call {SHOUT}", "dies-in-call"), code=7),
    Failure("06-invalid-schema", with_fault(f"call {SHOUT}", "invalid-input-schema"), code=0),
    Failure(
        "07-result-against-its-schema",
        with_fault(f"call {SHOUT}", "result-against-schema", "mcp"),
        code=7,
    ),
    Failure("08-slow-start", with_fault("inspect", "slow-start", timeout=SHORT)),
    Failure("09-missing-interpreter", ("inspect", "--dialect", "morphir", "--", "pyton3", "x.py")),
    Failure(
        "10-wrong-shebang", inspect_program("./x.py"), {"x.py": "#!/usr/bin/env nosuchpython\n"}
    ),
    Failure("11-windows-line-ends", inspect_program("./x.sh"), {"x.sh": "#!/bin/sh\r\necho\r\n"}),
    Failure(
        "12-windows-line-ends-env",
        inspect_program("./x.py"),
        {"x.py": "#!/usr/bin/env python3\r\n" + EMPTY_EXTENSION},
    ),
    Failure(
        "13-byte-order-mark-in-a-script",
        inspect_program("./x.py"),
        {"x.py": b"\xef\xbb\xbf#!/usr/bin/env python3\n"},
    ),
    Failure("14-byte-order-mark-on-stdout", with_fault(f"call {SHOUT}", "mark"), code=0),
    Failure(
        "15-variable-not-set",
        inspect_python("x.py"),
        {"x.py": "import os\nos.environ['WEATHER_API_KEY']\n"},
    ),
    Failure(
        "16-variable-held-back",
        inspect_python("x.py", dialect="mcp"),
        {
            "x.py": "import os, sys\n"
            "'GITHUB_TOKEN' in os.environ or sys.exit('GITHUB_TOKEN must be set')\n"
        },
        env={"GITHUB_TOKEN": "t0p-secret"},
    ),
    Failure(
        "17-missing-program",
        ("inspect", "x/plugin.toml"),
        {
            "x/plugin.toml": NEXO_MANIFEST.format(version="1.0.0")
            + NEXO_TRANSPORT
            + '[requires]\nbins = ["jqq"]\n'
        },
        code=4,
    ),
    Failure(
        "18-version",
        ("inspect", "x/plugin.toml"),
        {"x/plugin.toml": NEXO_MANIFEST.format(version="0.1") + NEXO_TRANSPORT},
        code=3,
    ),
    Failure(
        "19-misspelt-table",
        ("inspect", "x/plugin.toml"),
        {
            "x/plugin.toml": NEXO_MANIFEST.format(version="1.0.0").replace("plugin", "plugn")
            + NEXO_TRANSPORT
        },
        code=3,
    ),
    Failure(
        "20-misspelt-key",
        ("inspect", "x/plugin.toml"),
        {
            "x/plugin.toml": NEXO_MANIFEST.format(version="1.0.0")
            + NEXO_TRANSPORT.replace("command", "comand")
        },
        code=3,
    ),
    Failure(
        "21-toml-syntax",
        ("inspect", "x/plugin.toml"),
        {"x/plugin.toml": NEXO_MANIFEST.format(version="1.0.0") + "[transport\n"},
        code=3,
    ),
    # 22 needs a running host: see CRASH_LOOP.
    Failure(
        "23-not-executable", inspect_program("./plain.py"), {"plain.py": "#!/usr/bin/env python3\n"}
    ),
    Failure("24-script-not-there", inspect_python("nosuch.py")),
    Failure("25-wrong-dialect", (*WRONG_DIALECT[:4], "mcp", *WRONG_DIALECT[5:])),
    Failure("26-python-notation", with_fault("inspect", "python-notation")),
    Failure("27-id-as-text", with_fault("inspect", "text-id")),
    Failure("28-misspelt-result", with_fault("inspect", "misspelt")),
    Failure("29-no-list", with_fault("inspect", "no-list")),
    Failure("30-exits-after-one-answer", with_fault("inspect", "exits-after-one")),
    Failure("31-pretty", with_fault("inspect", "pretty")),
    Failure("32-latin-1", with_fault("inspect", "latin-1")),
    Failure("33-nan", with_fault("inspect", "nan")),
    Failure("34-hang", with_fault(f"call {SHOUT}", "hangs", timeout=SHORT), code=6),
    Failure("35-wrong-content-length", with_fault("inspect", "length-too-long", "synaps")),
    Failure(
        "36-json-comma",
        ("inspect", "x"),
        plugin_json(synaps_manifest(["tools.register"]).replace("}\n}", "},\n}")),
        code=3,
    ),
    Failure(
        "37-permission-typo",
        ("inspect", "x"),
        plugin_json(synaps_manifest(["tools.registr"])),
        code=3,
    ),
    Failure(
        "38-checksum",
        ("inspect", "roder-extension.toml"),
        {
            "roder-extension.toml": RODER_MANIFEST.format(type="tool_provider"),
            "x.py": WRONG_CHECKSUM,
        },
    ),
    Failure(
        "38-type-typo",
        ("inspect", "roder-extension.toml"),
        {"roder-extension.toml": RODER_MANIFEST.format(type="tool_provder")},
        code=3,
    ),
    Failure(
        "39-arguments-in-the-command",
        ("inspect", "x"),
        {
            "exthost.toml": ENTRY.format(
                dialect="mcp", more='source = {type = "process", command = "uvx mcp-server-git"}'
            )
        },
    ),
    Failure(
        "40-no-network",
        ("inspect", "x", "--timeout", SHORT),
        {
            "exthost.toml": ENTRY.format(
                dialect="mcp",
                more=NO_NETWORK,
            ),
            "npx": "#!/bin/sh\nsleep 30\n",
        },
    ),
    Failure(
        "41-misspelt-in-mcp-json",
        ("inspect", "x", "--config", "mcp.json"),
        {"mcp.json": '{\n  "mcpServers": {\n    "x": {"comand": "true"}\n  }\n}\n'},
        code=3,
    ),
    Failure(
        "42-reference-not-set",
        ("inspect", "x", "--config", "mcp.json"),
        {"mcp.json": json.dumps(UNSET_REFERENCE)},
        code=4,
    ),
]

# A crash loop is reported by the running host, and by a call that uses this host.
CRASH_LOOP = Failure(
    "22-crash-loop",
    ("call", "x", "shout"),
    {
        "x.py": "import json, sys\n"
        "for id in (0, 1):\n"
        "    sys.stdin.readline()\n"
        "    print(json.dumps({'id': id, 'result': []}), flush=True)\n"
        "sys.exit('the disk is full')\n",
        "exthost.toml": ENTRY.format(
            dialect="morphir",
            more='source = {type = "process", command = "python3", args = ["x.py"]}\n'
            'restart = {strategy = "immediate", max_retries = 3}',
        ),
    },
    code=7,
)


def normalise(text: str, folder: Path) -> str:
    """Return the output without the parts that differ between runs and machines."""
    for path, name in ((str(folder), "DIR"), (str(BAD), "BAD")):
        text = text.replace(path, name)
    text = re.sub(rf"{re.escape(sys.executable)}(3(\.\d+)?)?\b", "python3", text)
    text = re.sub(r"\b\d+(\.\d+)? ms\b", "N ms", text)
    text = re.sub(r"\bpid \d+", "pid N", text)
    text = re.sub(r"(held back: ).*", r"\1…", text) if "t0p" in text else text
    text = re.sub(r'File "[^"]*/(\w+\.py)"', r'File "\1"', text)
    text = re.sub(r"ran:    \S*/python3", "ran:    python3", text)
    text = re.sub(r"^\[\w+\]  .*\n", "", text, flags=re.M)  # tracebacks differ between versions
    return re.sub(r"[ \t]+$", "", text, flags=re.M)


UPDATE_SNAPSHOTS = bool(os.environ.get("EXTHOST_UPDATE_SNAPSHOTS"))
