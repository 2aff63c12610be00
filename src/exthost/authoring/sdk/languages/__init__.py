"""Creates new extensions in other languages than Python, from templates; they use no SDK.

Each language has one template in this folder for morphir, nexo and mcp, of at most forty lines. The
code that differs between these dialects is filled in from the table `_DIALECT_CODE`. synaps, whose
messages have a header with their length, roder, whose handshake repeats its manifest, and cigen,
whose messages are protobuf, have templates of their own. Those of cigen use no protobuf library.
"""

from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

from exthost.authoring.sdk.dialects import load_dialect
from exthost.authoring.sdk.errors import SdkUsageError

# The dialects with a common template, and the JSON field in which each announces the schema of a
# tool.
_SCHEMA_FIELDS = {"morphir": "params_schema", "nexo": "input_schema", "mcp": "inputSchema"}


class Language(NamedTuple):
    """How a program in this language is built and run.

    template      the file of the template for morphir, nexo and mcp
    program       the path of the program in the new folder
    command       the command that runs it, compiling it first if necessary
    needs         what must be installed
    build         the command that only checks whether it compiles; "" for none
    files         further files of the project, with their contents
    binary        the program that `build_binary` makes. It is the command for roder and synaps,
                  since their hosts pass on too few environment variables for a compiler, and wait
                  too short a time for it, and for cigen, whose plugins are programs
    """

    template: str
    program: str
    command: tuple[str, ...]
    needs: str
    build: str = ""
    files: Mapping[str, str] = {}
    binary: str = ""
    build_binary: str = ""


LANGUAGES = {
    "typescript": Language(
        "typescript.ts.template", "extension.ts", ("node", "extension.ts"), "Node 22.18 or later"
    ),
    "go": Language(
        "go.go.template",
        "main.go",
        ("go", "run", "."),
        "Go 1.21 or later",
        "go build -o /dev/null .",
        {"go.mod": "module {name}\n\ngo 1.21\n", ".gitignore": "/extension\n"},
        "./extension",
        "go build -o extension .",
    ),
    "rust": Language(
        "rust.rs.template",
        "src/main.rs",
        ("cargo", "run", "--quiet"),
        "Rust 1.70 or later",
        "cargo build --quiet",
        {
            "Cargo.toml": '[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n\n'
            '[dependencies]\nserde_json = "1"\n',
            ".gitignore": "target\n",
        },
        "target/debug/{name}",
        "cargo build --quiet",
    ),
    "sh": Language("sh.sh.template", "extension.sh", ("sh", "extension.sh"), "jq"),
}

# By language and dialect: the code that is filled into the template for the methods, a result, an
# error, and the JSON field with the version of JSON-RPC.
_DIALECT_CODE: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "typescript": {
        "morphir": {
            "methods": "  initialize: () => ({}),\n  capabilities: () => [shout],\n"
            '  shout: (params) => callTool("shout", params),',
            "result": "given.text.toUpperCase()",
            "unknown": "`unknown: ${method}`",
            "failure": "String(error)",
            "version": "",
        },
        "nexo": {
            "methods": '  initialize: () => ({ server_version: "0.1.0", tools: [shout] }),\n'
            '  "tools/list": () => ({ tools: [shout] }),\n'
            '  "tools/call": ({ name, arguments: given }) => callTool(name, given),',
            "result": "given.text.toUpperCase()",
            "unknown": "{ code: -32601, message: `unknown: ${method}` }",
            "failure": "{ code: -32602, message: String(error) }",
            "version": 'jsonrpc: "2.0", ',
        },
        "mcp": {
            "methods": "  initialize: ({ protocolVersion }) => ({\n    protocolVersion,\n"
            "    capabilities: { tools: {} },\n"
            '    serverInfo: { name: "NAME", version: "0.1.0" },\n  }),\n'
            "  ping: () => ({}),\n"
            '  "tools/list": () => ({ tools: [shout] }),\n'
            '  "tools/call": ({ name, arguments: given }) => callTool(name, given),',
            "result": '{ content: [{ type: "text", text: given.text.toUpperCase() }] }',
            "unknown": "{ code: -32601, message: `unknown: ${method}` }",
            "failure": "{ code: -32602, message: String(error) }",
            "version": 'jsonrpc: "2.0", ',
        },
    },
    "go": {
        "morphir": {
            "methods": '\ttext, ok := params["text"].(string)\n\tswitch {\n'
            '\tcase method == "initialize":\n\t\treturn object{}, true\n'
            '\tcase method == "capabilities":\n\t\treturn []any{shout}, true\n'
            '\tcase method == "shout" && ok:\n\t\treturn strings.ToUpper(text), true',
            "failure": '"no such method, or no text: " + request.Method',
            "version": "",
        },
        "nexo": {
            "methods": '\tgiven, _ := params["arguments"].(object)\n'
            '\ttext, ok := given["text"].(string)\n\tswitch {\n'
            '\tcase method == "initialize" || method == "tools/list":\n'
            '\t\treturn object{"server_version": "0.1.0", "tools": []any{shout}}, true\n'
            '\tcase method == "tools/call" && params["name"] == "shout" && ok:\n'
            "\t\treturn strings.ToUpper(text), true",
            "failure": 'object{"code": -32602, "message": "no such method, tool or text"}',
            "version": ', "jsonrpc": "2.0"',
        },
        "mcp": {
            "methods": '\tgiven, _ := params["arguments"].(object)\n'
            '\ttext, ok := given["text"].(string)\n\tswitch {\n'
            '\tcase method == "initialize":\n'
            '\t\tabout := object{"name": "NAME", "version": "0.1.0"}\n'
            '\t\treturn object{"protocolVersion": params["protocolVersion"], "serverInfo": about, '
            '"capabilities": object{"tools": object{}}}, true\n'
            '\tcase method == "ping":\n\t\treturn object{}, true\n'
            '\tcase method == "tools/list":\n\t\treturn object{"tools": []any{shout}}, true\n'
            '\tcase method == "tools/call" && params["name"] == "shout" && ok:\n'
            '\t\treturn object{"content": []any{object{"type": "text", '
            '"text": strings.ToUpper(text)}}}, true',
            "failure": 'object{"code": -32601, "message": "no such method, tool or text"}',
            "version": ', "jsonrpc": "2.0"',
        },
    },
    "rust": {
        "morphir": {
            "methods": '        "initialize" => Ok(json!({})),\n'
            '        "capabilities" => Ok(json!([shout()])),\n'
            '        "shout" => call_tool("shout", params),',
            "result": "json!(text)",
            "failure": "json!(why)",
            "version": "",
        },
        "nexo": {
            "methods": '        "initialize" | "tools/list" => '
            'Ok(json!({"server_version": "0.1.0", "tools": [shout()]})),\n'
            '        "tools/call" => '
            'call_tool(params["name"].as_str().unwrap_or(""), &params["arguments"]),',
            "result": "json!(text)",
            "failure": 'json!({"code": -32602, "message": why})',
            "version": ', "jsonrpc": "2.0"',
        },
        "mcp": {
            "methods": '        "initialize" => Ok(json!({"protocolVersion": '
            'params["protocolVersion"], "capabilities": {"tools": {}},\n'
            '            "serverInfo": {"name": "NAME", "version": "0.1.0"}})),\n'
            '        "ping" => Ok(json!({})),\n'
            '        "tools/list" => Ok(json!({"tools": [shout()]})),\n'
            '        "tools/call" => '
            'call_tool(params["name"].as_str().unwrap_or(""), &params["arguments"]),',
            "result": 'json!({"content": [{"type": "text", "text": text}]})',
            "failure": 'json!({"code": -32602, "message": why})',
            "version": ', "jsonrpc": "2.0"',
        },
    },
    "sh": {
        "morphir": {
            "methods": '    if .method == "initialize" then {}\n'
            '    elif .method == "capabilities" then [shout]\n'
            '    elif .method == "shout" then call_tool("shout"; .params)',
            "result": "($given.text | ascii_upcase)",
            "failure": ".",
            "version": "",
        },
        "nexo": {
            "methods": '    if .method == "initialize" then '
            '{server_version: "0.1.0", tools: [shout]}\n'
            '    elif .method == "tools/list" then {tools: [shout]}\n'
            '    elif .method == "tools/call" then call_tool(.params.name; .params.arguments)',
            "result": "($given.text | ascii_upcase)",
            "failure": "{code: -32602, message: .}",
            "version": 'jsonrpc: "2.0", ',
        },
        "mcp": {
            "methods": '    if .method == "initialize" then {\n'
            "      protocolVersion: .params.protocolVersion, capabilities: {tools: {}},\n"
            '      serverInfo: {name: "NAME", version: "0.1.0"}}\n'
            '    elif .method == "ping" then {}\n'
            '    elif .method == "tools/list" then {tools: [shout]}\n'
            '    elif .method == "tools/call" then call_tool(.params.name; .params.arguments)',
            "result": '{content: [{type: "text", text: ($given.text | ascii_upcase)}]}',
            "failure": "{code: -32602, message: .}",
            "version": 'jsonrpc: "2.0", ',
        },
    },
}

_TEST = """#!/bin/sh
# Builds the extension, checks it against the rules of its dialect, and calls it.
set -e
cd "$(dirname "$0")"
{build}exthost check {target}
{test}
echo passed
"""

_README = """# {name}

An extension in the {dialect} dialect, in {language}. It needs {needs}.

{first}    sh test.sh                                  # its own test
    exthost inspect {target}
    {call}
    exthost check {target}                      # whether it keeps to the rules of {dialect}
    exthost dev {target}                        # starts it again on every save
"""

_CONFIG = """[[extensions]]
name = "{name}"
dialect = "{dialect}"
source = {{ type = "process", command = "{command}", args = [{args}] }}
"""

_MANIFEST = """[plugin]
id = "{name}"
version = "0.1.0"
description = "What it is for"

[capabilities]
tools = ["shout"]

[transport]
kind = "stdio"
command = "{command}"
args = [{args}]
"""


_SYNAPS_MANIFEST = """{{
  "name": "{name}",
  "version": "0.1.0",
  "extension": {{
    "protocol_version": 1,
    "runtime": "process",
    "command": "{command}",
    "args": [{args}],
    "permissions": ["tools.register"]
  }}
}}
"""

_RODER_MANIFEST = """id = "{name}"
name = "{name}"
version = "0.1.0"
api_version = "^0.1"

[launch]
command = "{command}"
args = [{args}]

[[provides]]
type = "tool_provider"
id = "text"

[[provides.tools]]
name = "shout"
description = "Upper case"

[provides.tools.parameters]
type = "object"
properties = {{ text = {{ type = "string" }} }}
required = ["text"]
"""

# The templates of manifests, by dialect. The other dialects have a config.
_MANIFESTS = {"nexo": _MANIFEST, "synaps": _SYNAPS_MANIFEST, "roder": _RODER_MANIFEST}

# A call of a new extension, and the line of its test that makes the same call.
_CALL = "exthost call . shout text=hi"
_CALL_TEST = 'test "$(exthost call . shout text=hi --text)" = HI'
_GENERATE = """exthost call . generate schema='{"version": "1", "jobs": [{"id": "build"}]}'"""
_GENERATE_TEST = f"{_GENERATE} | grep -q build.yml"


def language_files(name: str, dialect: str, language: str) -> dict[str, str]:
    """Return the files of a new extension in another language."""
    traits = LANGUAGES[language]
    command, build = traits.command, traits.build
    if dialect not in _SCHEMA_FIELDS and traits.binary:
        command, build = (traits.binary.format(name=name),), traits.build_binary
    values = {
        "name": name,
        "dialect": dialect,
        "language": {"typescript": "TypeScript", "sh": "shell"}.get(
            language, language.capitalize()
        ),
        "needs": "od, dd, awk and fold" if (language, dialect) == ("sh", "cigen") else traits.needs,
        "call": _GENERATE if dialect == "cigen" else _CALL,
        "test": _GENERATE_TEST if dialect == "cigen" else _CALL_TEST,
        "target": ".",
        "command": command[0],
        "args": ", ".join(f'"{argument}"' for argument in command[1:]),
        "build": f"{build}\n" if build else "",
        "first": f"    {build:<43} # after each change\n" if command != traits.command else "",
    }
    files = dict(traits.files)
    if dialect == "cigen" and "Cargo.toml" in files:
        files["Cargo.toml"] = files["Cargo.toml"].partition("\n[dependencies]")[0]
    manifest = load_dialect(dialect).manifest_file or "exthost.toml"
    return {
        traits.program: _program_text(name, dialect, language),
        **{path: content.format(name=name) for path, content in files.items()},
        manifest: _MANIFESTS.get(dialect, _CONFIG).format(**values),
        "test.sh": _TEST.format(**values),
        "README.md": _README.format(**values),
    }


def _program_text(name: str, dialect: str, language: str) -> str:
    """Return the source code of a new extension."""
    template = LANGUAGES[language].template
    folder = resources.files("exthost.authoring.sdk.languages")
    if dialect not in _SCHEMA_FIELDS:
        template = template.replace(language, f"{language}_{dialect}", 1)
        file = folder.joinpath(template)
        if not file.is_file():
            raise SdkUsageError(f"there is no template in {language} for the {dialect} dialect")
        return file.read_text("utf-8").replace("NAME", name)
    dialect_code = _DIALECT_CODE[language][dialect]
    code = {key: value.replace("NAME", name) for key, value in dialect_code.items()}
    text = folder.joinpath(template).read_text("utf-8")
    return text.format(name=name, dialect=dialect, schema=_SCHEMA_FIELDS[dialect], **code)
