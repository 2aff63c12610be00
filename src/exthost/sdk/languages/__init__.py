"""New extensions in other languages than Python: a program without an SDK, by template.

Each language has a template beside this module, at most forty lines, for morphir, nexo and mcp.
What differs between these dialects is filled in from the tables below. synaps, which has frames,
and roder, whose handshake repeats its manifest, have templates of their own.
"""

from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

from exthost.sdk.errors import UsageError

DIALECTS = ("morphir", "nexo", "mcp", "synaps", "roder")

_SCHEMAS = {"morphir": "params_schema", "nexo": "input_schema", "mcp": "inputSchema"}


class Language(NamedTuple):
    """How a language is built and run. `files` are further files of a project.

    `binary` is the program that `build_binary` makes. A host of roder or synaps passes few
    variables on and waits a short time: that is too little for a compiler.
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

# What each language writes, by dialect: the methods, a result, an error and the version member.
_PARTS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
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
# Builds the extension, holds it to the rules of its dialect, and calls it.
set -e
cd "$(dirname "$0")"
{build}exthost check {target}
test "$(exthost call {target} shout text=hi --text)" = HI
echo passed
"""

_README = """# {name}

An extension in the {dialect} dialect, in {language}. It needs {needs}.

{first}    sh test.sh                                  # its own test
    exthost inspect {target}
    exthost call {target} shout text=hi
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

# By dialect: the file that says what is run, and its form.
_FORMS = {
    "morphir": ("exthost.toml", _CONFIG),
    "nexo": ("plugin.toml", _MANIFEST),
    "mcp": ("exthost.toml", _CONFIG),
    "synaps": (".synaps-plugin/plugin.json", _SYNAPS_MANIFEST),
    "roder": ("roder-extension.toml", _RODER_MANIFEST),
}


def language_files(name: str, dialect: str, language: str) -> dict[str, str]:
    """Return the files of a new extension in another language. Raises UsageError."""
    if dialect not in DIALECTS:
        raise UsageError(
            f"in {language} there are templates for {', '.join(DIALECTS)}; "
            f"for {dialect} there is --lang python"
        )
    known = LANGUAGES[language]
    command, build = known.command, known.build
    if dialect not in _SCHEMAS and known.binary:
        command, build = (known.binary.format(name=name),), known.build_binary
    about = {
        "name": name,
        "dialect": dialect,
        "language": {"typescript": "TypeScript", "sh": "shell, with jq"}.get(
            language, language.capitalize()
        ),
        "needs": known.needs,
        "target": ".",
        "command": command[0],
        "args": ", ".join(f'"{word}"' for word in command[1:]),
        "build": f"{build}\n" if build else "",
        "first": f"    {build:<43} # after each change\n" if command != known.command else "",
    }
    manifest, form = _FORMS[dialect]
    return {
        known.program: _program(name, dialect, language),
        **{path: content.format(name=name) for path, content in known.files.items()},
        manifest: form.format(**about),
        "test.sh": _TEST.format(**about),
        "README.md": _README.format(**about),
    }


def _program(name: str, dialect: str, language: str) -> str:
    """Return the program of a new extension."""
    template = LANGUAGES[language].template
    folder = resources.files("exthost.sdk.languages")
    if dialect not in _SCHEMAS:
        own = template.replace(language, f"{language}_{dialect}", 1)
        return folder.joinpath(own).read_text("utf-8").replace("NAME", name)
    parts = {key: value.replace("NAME", name) for key, value in _PARTS[language][dialect].items()}
    text = folder.joinpath(template).read_text("utf-8")
    return text.format(name=name, dialect=dialect, schema=_SCHEMAS[dialect], **parts)
