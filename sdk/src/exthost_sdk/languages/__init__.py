"""Creates new extensions in languages other than Python, from templates. They use no SDK.

Each language has one template, of at most forty lines, for morphir, nexo and mcp; `languages.toml`
contains the code that differs between these dialects. The other dialects need separate templates:
messages of synaps have a header with their length, the handshake of roder repeats the manifest, and
cigen uses protobuf, which its templates encode without a library.
"""

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

from exthost_sdk.dialects import load_dialect
from exthost_sdk.errors import SdkUsageError

# The dialects with a common template. In each, a tool announces the schema of its arguments in this
# JSON field.
_SCHEMA_FIELDS = {"morphir": "params_schema", "nexo": "input_schema", "mcp": "inputSchema"}


class Language(NamedTuple):
    """How a program in this language is built and run.

    template      the file of the template for morphir, nexo and mcp
    program       the path of the program in the new folder
    command       the command that runs it, compiling it first if necessary
    needs         the software that must be installed
    build         the command that compiles the program; "" if none is needed to run it
    files         further files of the project, with their contents
    publish       the command that publishes the program, for the README; "" if there is none
    version_file  the file with the version
    code          by dialect: the code that is filled into the template for the methods, a result,
                  an error, and the JSON field with the version of JSON-RPC
    """

    template: str
    program: str
    command: tuple[str, ...]
    needs: str
    code: Mapping[str, Mapping[str, str]]
    build: str = ""
    files: Mapping[str, str] = {}
    publish: str = ""
    version_file: str = ""


def _read_text(file: str) -> str:
    return resources.files(__name__).joinpath(file).read_text("utf-8")


def _read_language(row: Mapping[str, Any]) -> Language:
    return Language(**{**row, "command": tuple(row["command"])})


LANGUAGES = {
    name: _read_language(row) for name, row in tomllib.loads(_read_text("languages.toml")).items()
}

# Where GitHub looks for the steps of continuous integration.
WORKFLOW = ".github/workflows/check.yml"

# What the README of an MCP server says about `exthost pack`, which refuses other extensions and
# programs in shell.
PACK_NOTE = "\n`exthost pack` writes what registries of MCP servers want."

# The templates of manifests, by dialect. The other dialects use a config (exthost.toml) instead.
_MANIFESTS = {
    "nexo": "nexo_manifest.toml.template",
    "synaps": "synaps_manifest.json.template",
    "roder": "roder_manifest.toml.template",
}

# An example call for the README, and the same call as a line of test.sh.
_CALL = "exthost call . shout text=hi"
_CALL_TEST = 'test "$(exthost call . shout text=hi --text)" = HI'
_GENERATE = """exthost call . generate schema='{"version": "1", "jobs": [{"id": "build"}]}'"""
_GENERATE_TEST = f"{_GENERATE} | grep -q build.yml"


def language_files(name: str, dialect: str, language: str) -> dict[str, str]:
    """Return the files of a new extension in another language."""
    traits = LANGUAGES[language]
    command = [word.format(name=name) for word in traits.command]
    build = traits.build.format(name=name)
    manifest = load_dialect(dialect).manifest_file or "exthost.toml"
    values = {
        "name": name,
        "dialect": dialect,
        "language": {"typescript": "TypeScript", "sh": "shell"}.get(
            language, language.capitalize()
        ),
        "needs": "od, dd, awk and fold" if (language, dialect) == ("sh", "cigen") else traits.needs,
        "call": _GENERATE if dialect == "cigen" else _CALL,
        "test": _GENERATE_TEST if dialect == "cigen" else _CALL_TEST,
        "target": ".",  # the path that `exthost check` gets in the README and in test.sh
        "command": command[0],
        "args": ", ".join(f'"{argument}"' for argument in command[1:]),
        # A line for each command: `set -e` ignores the failure of a command before `&&`.
        "build": f"{build}\n".replace(" && ", "\n") if build else "",
        # Padded, so that the comments of the README's commands begin in one column.
        "build_step": f"    {build:<43} # first, and after each change\n" if build else "",
        "publish": f"    {traits.publish:<43} # publish it\n" if traits.publish else "",
        "pack": PACK_NOTE if dialect == "mcp" and language != "sh" else "",
        "version_file": traits.version_file or traits.program,
        # A package of npm contains only the files that it names.
        "manifest_file": "" if manifest == "exthost.toml" else f', "{manifest}"',
    }
    files = dict(traits.files)
    if dialect == "cigen" and "Cargo.toml" in files:  # its template needs no crates
        files["Cargo.toml"] = files["Cargo.toml"].partition("\n[dependencies]")[0]
    return {
        traits.program: _program_text(name, dialect, language),
        **{path: content.format(**values) for path, content in files.items()},
        WORKFLOW: _read_text("workflow.yml.template").format(**values),
        manifest: _read_text(_MANIFESTS.get(dialect, "config.toml.template")).format(**values),
        "test.sh": _read_text("test.sh.template").format(**values),
        "README.md": _read_text("readme.md.template").format(**values),
    }


def _program_text(name: str, dialect: str, language: str) -> str:
    """Return the source code of a new extension."""
    template = LANGUAGES[language].template
    if dialect not in _SCHEMA_FIELDS:
        # "go.go.template" becomes "go_synaps.go.template".
        template = template.replace(language, f"{language}_{dialect}", 1)
        try:
            return _read_text(template).replace("NAME", name)
        except FileNotFoundError:
            reason = f"there is no template in {language} for the {dialect} dialect"
            raise SdkUsageError(reason) from None
    dialect_code = LANGUAGES[language].code[dialect]
    code = {key: value.replace("NAME", name) for key, value in dialect_code.items()}
    return _read_text(template).format(
        name=name, dialect=dialect, schema=_SCHEMA_FIELDS[dialect], **code
    )
