"""Failures that authors and users plant by accident: files, a command line, and what it shows.

Each row is run in a folder of its own. Its output is compared with the snapshot of its name in
`tests/faces/cli/snapshots/`; `EXTHOST_UPDATE_SNAPSHOTS=1` writes them.
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

# A time limit of rows whose failure is silence, and one that no row is about.
SHORT = "2s"
LONG = "50s"


@dataclass(frozen=True)
class Failure:
    """One planted failure. `files` are relative to the folder; one that begins with `#!` is made
    executable, and so is what `executable` names."""

    name: str
    words: tuple[str, ...]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    executable: tuple[str, ...] = ()
    code: int = 5

    def write(self, folder: Path) -> None:
        """Write the files."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            path.write_bytes(data)
            if data.removeprefix(b"\xef\xbb\xbf").startswith(b"#!") and name != "plain.py":
                path.chmod(0o755)


def bad(verb: str, fault: str, dialect: str = "morphir", timeout: str = LONG) -> tuple[str, ...]:
    words = [*verb.split(), "--timeout", timeout, "--dialect", dialect]
    return (*words, "--", *PYTHON, str(BAD), dialect, fault, "state")


def script(name: str, *words: str, dialect: str = "morphir") -> tuple[str, ...]:
    return ("inspect", *words, "--timeout", LONG, "--dialect", dialect, "--", name)


def program(
    text: str, *words: str, dialect: str = "morphir", timeout: str = LONG
) -> tuple[str, ...]:
    return ("inspect", *words, "--timeout", timeout, "--dialect", dialect, "--", *PYTHON, text)


SHOUT = "shout text=hi"
WRONG_DIALECT = bad("inspect", "none")
NO_NETWORK = 'source = {type = "process", command = "./npx"}\npermissions = {network = false}'
NOT_SET = {"mcpServers": {"x": {"command": "true", "env": {"GITHUB_TOKEN": "${NOPE_TOKEN}"}}}}
LOOP = (
    "import json, sys\n"
    "for line in sys.stdin:\n"
    "    asked = json.loads(line)\n"
    "    print(json.dumps({'id': asked['id'], 'result': []}), flush=True)\n"
)
NEXO = '[plugin]\nid = "x"\nversion = "{version}"\n[capabilities]\ntools = ["t"]\n'
NEXO_END = '[transport]\nkind = "stdio"\ncommand = "./x.py"\n'
RODER = (
    'id = "x"\nname = "x"\nversion = "1.0.0"\napi_version = "^0.1"\n[launch]\ncommand = "python3"\n'
    'args = ["x.py"]\n[[provides]]\ntype = "{type}"\nid = "x-tools"\n[[provides.tools]]\n'
    'name = "t"\ndescription = "d"\nparameters = {{ type = "object" }}\n'
)
ECHO_RODER = (
    "import json, sys\n"
    "for line in sys.stdin:\n"
    "    asked = json.loads(line)\n"
    "    services = [{'type': 'tool_provider', 'id': 'x-tools', 'tools': [{'name': 't',\n"
    "        'description': 'd', 'parameters': {'type': 'object'}}]}]\n"
    "    result = {'protocolVersion': '0.2.0', 'extensionId': 'x', 'services': services,\n"
    "        'manifestChecksum': '0' * 16}\n"
    "    print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result}), flush=True)\n"
)


def plugin_json(text: str) -> dict[str, str]:
    return {"x/.synaps-plugin/plugin.json": text, "x/x.py": LOOP}


def synaps(permissions: list[str]) -> str:
    command = {"command": "python3", "args": ["x.py"], "runtime": "process"}
    extension = {"protocol_version": 1, "permissions": permissions, **command}
    return json.dumps({"name": "x", "version": "1.0.0", "extension": extension}, indent=2)


ENTRY = '[[extensions]]\nname = "x"\ndialect = "{dialect}"\n{more}\n'

FAILURES = [
    Failure("01-prints", bad(f"call {SHOUT}", "prints"), code=0),
    Failure(
        "02-wrong-id-in-a-reply", bad(f"call {SHOUT}", "wrong-id-in-call", timeout=SHORT), code=6
    ),
    Failure("03-wrong-id", bad("inspect", "wrong-id")),
    Failure("04-no-flush", bad("inspect", "silent", timeout=SHORT)),
    Failure("05-exception", bad("call shout --args {}", "dies-of-arguments"), code=2),
    Failure("05-exception-in-a-handler", bad(f"call {SHOUT}", "dies-in-call"), code=7),
    Failure("06-invalid-schema", bad(f"call {SHOUT}", "invalid-input-schema"), code=0),
    Failure(
        "07-result-against-its-schema", bad(f"call {SHOUT}", "result-against-schema", "mcp"), code=7
    ),
    Failure("08-slow-start", bad("inspect", "slow-start", timeout=SHORT)),
    Failure("09-missing-interpreter", ("inspect", "--dialect", "morphir", "--", "pyton3", "x.py")),
    Failure("10-wrong-shebang", script("./x.py"), {"x.py": "#!/usr/bin/env nosuchpython\n"}),
    Failure("11-windows-line-ends", script("./x.sh"), {"x.sh": "#!/bin/sh\r\necho\r\n"}),
    Failure(
        "12-windows-line-ends-env", script("./x.py"), {"x.py": "#!/usr/bin/env python3\r\n" + LOOP}
    ),
    Failure(
        "13-byte-order-mark-in-a-script",
        script("./x.py"),
        {"x.py": b"\xef\xbb\xbf#!/usr/bin/env python3\n"},
    ),
    Failure("14-byte-order-mark-on-stdout", bad(f"call {SHOUT}", "mark"), code=0),
    Failure(
        "15-variable-not-set",
        program("x.py"),
        {"x.py": "import os\nos.environ['WEATHER_API_KEY']\n"},
    ),
    Failure(
        "16-variable-held-back",
        program("x.py", dialect="mcp"),
        {
            "x.py": "import os, sys\n"
            "'GITHUB_TOKEN' in os.environ or sys.exit('GITHUB_TOKEN must be set')\n"
        },
        env={"GITHUB_TOKEN": "t0p-secret"},
    ),
    Failure(
        "17-missing-program",
        ("inspect", "x/plugin.toml"),
        {"x/plugin.toml": NEXO.format(version="1.0.0") + NEXO_END + '[requires]\nbins = ["jqq"]\n'},
        code=4,
    ),
    Failure(
        "18-version",
        ("inspect", "x/plugin.toml"),
        {"x/plugin.toml": NEXO.format(version="0.1") + NEXO_END},
        code=3,
    ),
    Failure(
        "19-misspelt-table",
        ("inspect", "x/plugin.toml"),
        {"x/plugin.toml": NEXO.format(version="1.0.0").replace("plugin", "plugn") + NEXO_END},
        code=3,
    ),
    Failure(
        "20-misspelt-key",
        ("inspect", "x/plugin.toml"),
        {"x/plugin.toml": NEXO.format(version="1.0.0") + NEXO_END.replace("command", "comand")},
        code=3,
    ),
    Failure(
        "21-toml-syntax",
        ("inspect", "x/plugin.toml"),
        {"x/plugin.toml": NEXO.format(version="1.0.0") + "[transport\n"},
        code=3,
    ),
    # 22 needs a host that runs: see LOOPS.
    Failure("23-not-executable", script("./plain.py"), {"plain.py": "#!/usr/bin/env python3\n"}),
    Failure("24-script-not-there", program("nosuch.py")),
    Failure("25-wrong-dialect", (*WRONG_DIALECT[:4], "mcp", *WRONG_DIALECT[5:])),
    Failure("26-python-notation", bad("inspect", "python-notation")),
    Failure("27-id-as-text", bad("inspect", "text-id")),
    Failure("28-misspelt-result", bad("inspect", "misspelt")),
    Failure("29-no-list", bad("inspect", "no-list")),
    Failure("30-exits-after-one-answer", bad("inspect", "exits-after-one")),
    Failure("31-pretty", bad("inspect", "pretty")),
    Failure("32-latin-1", bad("inspect", "latin-1")),
    Failure("33-nan", bad("inspect", "nan")),
    Failure("34-hang", bad(f"call {SHOUT}", "hangs", timeout=SHORT), code=6),
    Failure("35-wrong-content-length", bad("inspect", "length-too-long", "synaps")),
    Failure(
        "36-json-comma",
        ("inspect", "x"),
        plugin_json(synaps(["tools.register"]).replace("}\n}", "},\n}")),
        code=3,
    ),
    Failure("37-permission-typo", ("inspect", "x"), plugin_json(synaps(["tools.registr"])), code=3),
    Failure(
        "38-checksum",
        ("inspect", "roder-extension.toml"),
        {"roder-extension.toml": RODER.format(type="tool_provider"), "x.py": ECHO_RODER},
    ),
    Failure(
        "38-type-typo",
        ("inspect", "roder-extension.toml"),
        {"roder-extension.toml": RODER.format(type="tool_provder")},
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
        {"mcp.json": json.dumps(NOT_SET)},
        code=4,
    ),
]

# A crash loop shows in a host that runs, and to whoever calls through that host.
LOOPS = Failure(
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


def normalised(text: str, folder: Path) -> str:
    """Return the output without what differs from run to run and from machine to machine."""
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


UPDATES = bool(os.environ.get("EXTHOST_UPDATE_SNAPSHOTS"))
