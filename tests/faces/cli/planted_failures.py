"""Mistakes that authors and users often make, as data: the files, the command line, the exit code.

For each `Failure`, `test_planted_failures.py` writes the files into an empty folder, runs exthost
there and compares the output with the snapshot of the same name in `tests/faces/cli/snapshots/`, so
that each error message is reviewed as a user sees it. `EXTHOST_UPDATE_SNAPSHOTS=1` writes the
snapshots. Some mistakes do not prevent the verb from doing its work: it warns and exits with 0.

The exit codes are described in `exthost.faces.cli.verbs.EXIT_CODES`: 0 success, 1 an error of the
extension, 2 wrong usage or arguments, 3 an invalid config or manifest, 4 refused, 5 the start
failed, 6 a call timed out, 7 the extension died or broke the protocol.
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
    """One mistake: these arguments of exthost in a folder with these files.

    The names of `files` are relative to the folder. Scripts with `#!` and machine code are made
    executable, except `plain.py`, which is a script that is not executable by mistake.
    """

    name: str
    arguments: tuple[str, ...]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    code: int = 5  # the exit code; most of these extensions do not start
    around: str = ""  # shell text that runs the command line as "$@"; "" for none

    def write(self, folder: Path) -> None:
        """Write the files."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            path.write_bytes(data)
            programs = (b"#!", b"\x7fELF", b"MZ")
            if data.removeprefix(b"\xef\xbb\xbf").startswith(programs) and name != "plain.py":
                path.chmod(0o755)


def with_fault(
    verb: str, fault: str, dialect: str = "morphir", timeout: str = LONG
) -> tuple[str, ...]:
    """Return the arguments that run a verb with an extension that has this fault. The extension
    may keep the file "state", for a fault that depends on earlier starts."""
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
    # The extension would fail, but the call is rejected before: the argument `text` is required.
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


def config(text: str, *, name: str = "exthost.toml") -> dict[str, str]:
    """Return a config file with this text."""
    return {name: text}


def entry(more: str, *, name: str = "x", source: str = 'type = "process", command = "true"') -> str:
    """Return the config of one MCP server with these further lines."""
    return f'[[extensions]]\nname = "{name}"\ndialect = "mcp"\nsource = {{ {source} }}\n{more}\n'


# An MCP server with one tool, whose schema can be replaced.
MCP_SERVER = """import json, sys
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
for line in sys.stdin:
    if not line.strip():
        continue
    request = json.loads(line)
    if "id" not in request:
        continue
    if request["method"] == "initialize":
        info = {"name": "m", "version": "1"}
        capabilities = {"tools": {}}
        version = "2025-06-18"
        result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
    elif request["method"] == "tools/list":
        result = {"tools": [{"name": "shout", "inputSchema": SCHEMA}]}
    else:
        result = {"content": [{"type": "text", "text": "HI"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
SERVER = {"x.py": MCP_SERVER}
# The beginning of an ELF program (Linux), and the number of a processor that this machine does not
# have: aarch64, or x86-64 if this machine is an aarch64.
ELF_HEADER = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00"
OTHER_PROCESSOR = b"\xb7\x00" if os.uname().machine != "aarch64" else b"\x3e\x00"
# An `npx` that reports that it has no network, and then hangs, as the real one does.
NPX = "#!/bin/sh\necho 'npm error network reason: getaddrinfo ENOTFOUND registry' >&2\nsleep 30\n"

FAILURES += [
    # -- a program that does not do what the host expects --
    Failure("43-mcp-as-nexo", inspect_python("x.py", "nexo"), SERVER),
    Failure("44-mcp-as-cigen", inspect_python("x.py", "cigen"), SERVER),
    Failure("45-morphir-as-synaps", inspect_python("x.py", "synaps"), {"x.py": EMPTY_EXTENSION}),
    Failure(
        "46-npx-without-network",
        ("inspect", "--timeout", SHORT, "--dialect", "mcp", "--", "./npx", "-y", "server"),
        {"npx": NPX},
    ),
    Failure(
        "47-npx-without-network-silent",
        ("inspect", "--timeout", SHORT, "--dialect", "mcp", "--", "./npx", "-y", "server"),
        {"npx": "#!/bin/sh\nsleep 30\n"},
    ),
    Failure(
        "48-closes-stdout",
        inspect_python("x.py", "mcp"),
        {"x.py": "import os, time\nos.close(1)\ntime.sleep(60)\n"},
    ),
    Failure(
        "49-daemon",
        inspect_python("x.py", "mcp"),
        {"x.py": "import os\nos.fork() and os._exit(0)\n"},
    ),
    Failure(
        "50-memory-limit",
        ("inspect", "x"),
        {
            "x.py": "bytearray(900 * 2**20)\n",
            **config(
                entry(
                    'permissions = { max_memory = "200MiB" }',
                    source='type = "process", command = "python3", args = ["x.py"]',
                )
            ),
        },
    ),
    Failure(
        "51-invalid-schema-in-inspect",
        inspect_python("x.py", "mcp"),
        {"x.py": MCP_SERVER.replace('"object"', '"objct"')},
        code=0,
    ),
    Failure(
        "52-invalid-schema-in-doctor",
        ("doctor", "--runtime"),
        {
            "x.py": MCP_SERVER.replace('"object"', '"objct"'),
            **config(entry("", source='type = "process", command = "python3", args = ["x.py"]')),
        },
        code=0,
    ),
    Failure(
        "53-foreign-program",
        inspect_program("./x"),
        {"x": ELF_HEADER + OTHER_PROCESSOR + bytes(2000)},
    ),
    Failure("54-windows-program", inspect_program("./x.exe"), {"x.exe": b"MZ" + bytes(2000)}),
    Failure(
        "55-long-argument",
        ("inspect", "--dialect", "mcp", "--", "python3", "-c", "a" * 140_000),
    ),
    Failure(
        "56-home-in-command",
        ("inspect", "x"),
        config(entry("", source='type = "process", command = "~/bin/x"')),
    ),
    Failure(
        "57-home-in-args",
        ("inspect", "x"),
        config(entry("", source='type = "process", command = "python3", args = ["~/x.py"]')),
    ),
    Failure("58-folder-as-program", inspect_program("./x"), {"x/y": ""}),
    Failure(
        "59-working-folder-missing",
        ("inspect", "--cwd", "nosuch", "--dialect", "mcp", "--", "true"),
        code=2,
    ),
    Failure(
        "60-module-missing",
        inspect_python("x.py", "mcp"),
        {"x.py": "import nosuchmodule\n"},
    ),
    Failure("61-syntax-error", inspect_python("x.py", "mcp"), {"x.py": "def f(:\n"}),
    Failure(
        "62-usage-text",
        inspect_program("./x"),
        {"x": "#!/bin/sh\necho 'x: --stdio or --port is missing' >&2\nexit 2\n"},
    ),
    # -- a config --
    Failure("63-utf-16", ("list",), {"exthost.toml": "[[extensions]]\n".encode("utf-16")}, code=3),
    Failure("64-latin-1-config", ("list",), {"exthost.toml": b'# caf\xe9\nx = "\xe9"\n'}, code=3),
    Failure("65-single-brackets", ("list",), config('[extensions.a]\nname = "x"\n'), code=3),
    Failure("66-text-for-a-table", ("list",), config(entry('restart = "always"')), code=3),
    Failure("67-unit-without-quotes", ("list",), config(entry("limits = { call = 10x }")), code=3),
    Failure("68-unknown-unit", ("list",), config(entry('limits = { call = "10x" }')), code=3),
    Failure("69-placeholder", ("list",), config(entry('env = { A = "${FOO}" }')), code=3),
    Failure("70-number-as-variable", ("list",), config(entry("env = { PORT = 8080 }")), code=3),
    Failure("71-misspelt-setting", ("list",), config(entry("limts = { call = 5 }")), code=3),
    Failure("72-misspelt-section", ("list",), config("[default]\nstart = 'lazy'\n"), code=3),
    Failure("73-unknown-choice", ("list",), config(entry('sandbox = "on"')), code=3),
    Failure(
        "74-args-as-text",
        ("list",),
        config(entry("", source='type = "process", command = "a", args = "b"')),
        code=3,
    ),
    Failure("75-two-of-one-name", ("list",), config(entry("") + entry("")), code=3),
    Failure("76-no-command", ("list",), config(entry("", source='type = "process"')), code=3),
    Failure("77-repeated-key", ("list",), config(entry('start = "lazy"\nstart = "eager"')), code=3),
    Failure("78-unknown-dialect", ("inspect", "--dialect", "mpc", "--", "true"), code=2),
    Failure(
        "79-http-in-nexo",
        ("list",),
        config(
            entry("", source='type = "http", url = "https://example.org"').replace(
                '"mcp"', '"nexo"'
            )
        ),
        code=0,
    ),
    Failure(
        "80-unknown-rule", ("list",), config('[[rules]]\ntools = "*"\ndo = "forbid"\n'), code=3
    ),
    Failure(
        "81-memory-unit",
        ("list",),
        config(entry('permissions = { max_memory = "200 megs" }')),
        code=3,
    ),
    Failure("82-permissions-as-text", ("list",), config(entry('permissions = "network"')), code=3),
    Failure(
        "83-comma-in-json",
        ("list", "--config", "mcp.json"),
        config('{"mcpServers": {"x": {"command": "true",,}}}', name="mcp.json"),
        code=3,
    ),
    Failure(
        "84-list-in-json",
        ("list", "--config", "mcp.json"),
        config('{"mcpServers": []}', name="mcp.json"),
        code=3,
    ),
    Failure("85-no-config", ("list", "--config", "nosuch.toml"), code=3),
    Failure("86-folder-as-config", ("list", "--config", "x"), {"x/y": ""}, code=3),
    Failure(
        "87-misspelt-key-in-validate",
        ("validate", "x"),
        {
            "x/plugin.toml": NEXO_MANIFEST.format(version="1.0.0")
            + NEXO_TRANSPORT.replace("command", "comand")
        },
        code=3,
    ),
    Failure("88-empty-name", ("list",), config(entry("", name="")), code=3),
    # -- a command line --
    Failure("89-ps", ("ps",), code=2),
    Failure("90-version", ("version",), code=2),
    Failure("91-misspelt-verb", ("restrat", "x"), code=2),
    Failure("92-misspelt-option", ("list", "--jsn"), code=2),
    Failure(
        "93-unknown-tool",
        ("call", "--dialect", "mcp", "shot", "--", *PYTHON, "x.py"),
        SERVER,
        code=2,
    ),
    Failure(
        "94-missing-argument",
        ("call", "--dialect", "mcp", "shout", "--", *PYTHON, "x.py"),
        SERVER,
        code=2,
    ),
    Failure(
        "95-wrong-type",
        ("call", "--dialect", "mcp", "shout", "text=5", "--", *PYTHON, "x.py"),
        SERVER,
        code=2,
    ),
    Failure(
        "96-arguments-not-json",
        ("call", "--dialect", "mcp", "shout", "--args", "{text: 1}", "--", *PYTHON, "x.py"),
        SERVER,
        code=2,
    ),
    Failure("97-no-running-host", ("status",), config(entry("")), code=2),
    Failure(
        "98-unknown-extension", ("inspect", "y"), config(entry("", name="why") + entry("")), code=2
    ),
    Failure("99-time-without-unit", ("call", "--timeout", "soon", "shout"), SERVER, code=2),
    Failure("100-unknown-error-code", ("explain", "X9999"), code=2),
    Failure("101-missing-trace", ("replay", "nosuch.jsonl"), code=2),
    Failure("102-dialect-after-dashes", ("add", "x", "--", "true", "--dialect", "mcp"), code=0),
    Failure("103-name-in-use", ("add", "x", "--", "true"), config(entry("")), code=2),
    Failure("104-remove-unknown", ("remove", "y"), config(entry("")), code=2),
    Failure("105-logs-of-unknown", ("logs", "y"), config(entry("")), code=2),
    Failure("106-no-command-after-dashes", ("inspect", "--"), code=2),
    Failure("107-added-program-is-missing", ("add", "x", "--", "no-such-program"), code=0),
]

HOST = {
    "x.py": EMPTY_EXTENSION,
    **config(
        ENTRY.format(
            dialect="morphir",
            more='source = {type = "process", command = "python3", args = ["x.py"]}',
        )
    ),
}

FAILURES += [
    # -- files that are not what they should be --
    Failure("108-no-value", ("list",), config("x =\n"), code=3),
    Failure("109-open-quote", ("list",), config('[[extensions]]\nname = "x\n'), code=3),
    Failure("110-json-as-toml", ("list",), config('{"mcpServers": {}}\n'), code=3),
    Failure("111-yaml-as-toml", ("list",), config("# x\nextensions:\n  - name: x\n"), code=3),
    Failure("112-program-as-config", ("list",), {"exthost.toml": ELF_HEADER + b"\xff"}, code=3),
    Failure(
        "113-empty-json", ("list", "--config", "mcp.json"), config("\n", name="mcp.json"), code=3
    ),
    Failure(
        "114-json-without-servers",
        ("list", "--config", "mcp.json"),
        config("{}", name="mcp.json"),
        code=3,
    ),
    Failure("115-pipe-as-config", ("list",), code=3, around='mkfifo exthost.toml; "$@"'),
    Failure("116-broken-link", ("list",), code=2, around='ln -s nosuch.toml exthost.toml; "$@"'),
    Failure(
        "117-circular-link",
        ("list",),
        code=2,
        around='ln -s exthost.toml a; ln -s a exthost.toml; "$@"',
    ),
    Failure("118-byte-order-mark-in-config", ("list",), config("\ufeff" + entry("")), code=0),
    Failure(
        "119-windows-line-ends-in-config",
        ("list",),
        config(entry("").replace("\n", "\r\n")),
        code=0,
    ),
    # -- values of a config --
    Failure("120-number-for-entries", ("list",), config("extensions = 5\n"), code=3),
    Failure("121-number-as-name", ("list",), config(entry("").replace('"x"', "7", 1)), code=3),
    Failure("122-no-source", ("list",), config('[[extensions]]\nname = "x"\n'), code=3),
    Failure("123-misspelt-source", ("list",), config(entry("", source='type = "proces"')), code=3),
    Failure(
        "124-list-as-command",
        ("list",),
        config(entry("", source='type = "process", command = ["python3", "x.py"]')),
        code=3,
    ),
    Failure(
        "125-empty-command",
        ("list",),
        config(entry("", source='type = "process", command = ""')),
        code=3,
    ),
    Failure("126-negative-limit", ("list",), config(entry("limits = { call = -5 }")), code=3),
    Failure(
        "127-switched-off-in-overrides",
        ("list",),
        config("[discovery]\n[overrides.y]\nenabled = false\n"),
        code=3,
    ),
    Failure(
        "128-misspelt-server-key", ("list",), config('[mcp_servers.x]\ncomand = "a"\n'), code=3
    ),
    Failure("129-number-for-rules", ("list",), config("rules = 5\n"), code=3),
    # -- programs --
    Failure(
        "130-folder-after-dashes",
        ("inspect", "--dialect", "mcp", "--", "folder"),
        {"folder/x.py": ""},
    ),
    Failure(
        "131-missing-interpreter-path",
        inspect_program("./x.js"),
        {"x.js": "#!/usr/bin/nosuchnode22\n"},
    ),
    Failure("132-killed", inspect_program("./x"), {"x": "#!/bin/sh\nkill -9 $$\n"}),
    Failure(
        "133-deleted-working-folder",
        ("inspect", "--dialect", "mcp", "--", "true"),
        around='mkdir z; cd z; rmdir ../z; "$@"',
    ),
    Failure(
        "134-deleted-working-folder-of-a-config",
        ("list",),
        code=2,
        around='mkdir z; cd z; rmdir ../z; "$@"',
    ),
    # -- the machine --
    Failure(
        "136-state-folder-is-a-file",
        ("up", "-d"),
        {**HOST, "h": ""},
        code=4,
        around='EXTHOST_HOME=$PWD/h "$@"',
    ),
    Failure("137-full-output", ("list",), HOST, code=2, around='"$@" > /dev/full'),
    Failure(
        "139-argument-that-is-not-utf-8",
        ("call", "x", "shout"),
        HOST,
        code=2,
        around='"$@" "$(printf "text=\\377")"',
    ),
    Failure(
        "140-json-that-is-not-utf-8",
        ("call", "x", "shout", "--args"),
        HOST,
        code=2,
        around='"$@" "$(printf "{\\"text\\": \\"\\377\\"}")"',
    ),
    Failure("141-url-as-address", ("run", "--web", "https://localhost:443"), HOST, code=2),
    Failure("142-port-too-large", ("run", "--web", "99999"), HOST, code=2),
    Failure("143-address-without-brackets", ("run", "--web", "::1:8766"), HOST, code=2),
    Failure("144-address-without-port", ("run", "--web", "8.8.8.8"), HOST, code=2),
    Failure("145-address-of-another-machine", ("run", "--web", "192.0.2.7:8080"), HOST, code=2),
    Failure("146-unknown-option-for-tls", ("run", "--tls-cert", "x.pem"), HOST, code=2),
    Failure(
        "147-open-token-file",
        ("run", "--web", "0", "--token-file", "t"),
        {**HOST, "t": "secret\n"},
        code=3,
        around='chmod 644 t; "$@"',
    ),
    Failure("148-since-yesterday", ("logs", "x", "--since", "yesterday"), HOST, code=2),
    Failure("149-broken-pattern", ("logs", "x", "--grep", "["), HOST, code=2),
    Failure("150-unknown-level", ("logs", "x", "--level", "loud"), HOST, code=2),
    Failure("151-negative-time", ("call", "x", "shout", "--timeout", "-5"), HOST, code=2),
    Failure("152-word-without-value", ("call", "x", "shout", "text"), HOST, code=2),
    Failure("153-blank-in-a-name", ("add", "a b", "--", "true"), code=2),
    Failure("154-manifest-not-there", ("validate", "nosuch"), code=2),
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
    # Some versions of Python add the address to the error.
    text = re.sub(r" \(while attempting to bind .*\)$", "", text, flags=re.M)
    text = re.sub(r"/logs/[0-9a-f]{16}\b", "/logs/HASH", text)
    # The host kills a program that has closed its stdout, perhaps before the report.
    text = re.sub(r"(so the handshake is lost\n  ran:.*\n)  exit:.*\n", r"\1", text)
    text = re.sub(r"(held back: )(?!GITHUB_TOKEN\b).*", r"\1…", text)
    text = re.sub(r"\b\d+ (variables held back|passed)", r"N \1", text)
    text = re.sub(r"\b(Linux) on \w+|Linux program for \w+", "MACHINE", text)
    text = re.sub(r"\S+/python3: can't open", "python3: can't open", text)
    text = re.sub(r"^  sandbox: .*", "  sandbox: …", text, flags=re.M)
    text = text.replace(str(Path.home()) + "/", "HOME/")
    text = re.sub(r'File "[^"]*/(\w+\.py)"', r'File "\1"', text)
    text = re.sub(r"ran:    \S*/python3", "ran:    python3", text)
    # Lines that the extension wrote to stderr, "[x]   File …", and that are indented: those of a
    # traceback, which differ between versions of Python. The error at its end is not indented.
    text = re.sub(r"^\[\w+\]  .*\n", "", text, flags=re.M)
    return re.sub(r"[ \t]+$", "", text, flags=re.M)


UPDATE_SNAPSHOTS = bool(os.environ.get("EXTHOST_UPDATE_SNAPSHOTS"))
