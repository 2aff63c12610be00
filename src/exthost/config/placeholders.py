"""Replaces `${…}` in the configs of other programs.

    ${NAME}, ${env:NAME}    an environment variable of the host
    ${NAME:-text}           the variable, or the text if the variable is not set or empty
    ${input:api-key}        the variable API_KEY, in place of a question of the other program
    ${workspaceFolder}      the folder of the config
    ${userHome}             the home folder of the user
    ${pathSeparator}, ${/}  /

Other placeholders, and variables that are not set, stay as they are. In the config of opencode they
have no `$` (see `with_dollars`).
"""

import re
from collections.abc import Mapping
from typing import Any

from exthost.model.names import variable_name

_PLACEHOLDER = re.compile(
    r"\$\{(?:(?:env:)?([A-Za-z_]\w*|/)(?::-([^}]*))?|input:([\w.-]+))\}", re.ASCII
)

# A value that consists of one placeholder. Without `env:` or `input:`, the name is in group 1, and
# may be one of _OTHER_NAMES.
_ONE_VARIABLE = re.compile(r"\$\{(?:([A-Za-z_]\w*)|env:[A-Za-z_]\w*|input:[\w.-]+)\}", re.ASCII)

# The placeholders of nexo manifests. `dialects/nexo/mcp_servers.py` replaces them.
_MANIFEST_NAMES = ("EXTENSION_ROOT", "EXTENSION_ID", "EXTENSION_VERSION", "AGENT_VERSION")

# The tables of a server whose values may be references to variables of the host.
_REFERENCE_TABLES = ("env", "environment", "headers", "http_headers")

# The section with the MCP servers in the config of opencode, and the beginning of its placeholders.
_OPENCODE_SECTION = "mcp"
_OPENCODE_PLACEHOLDER = re.compile(r"(?<!\$)\{(?=(?:env|file):)")

_FOLDER_NAMES = ("workspaceFolder", "workspaceRoot", "cwd")

# Placeholders that look like those of variables, but are not secret, and are always replaced.
_OTHER_NAMES = (*_FOLDER_NAMES, "userHome", "pathSeparator")


def find_placeholder(text: str) -> str | None:
    """Return the name of the variable in the first placeholder of a text; None if it has none. The
    placeholders of nexo manifests do not count.

    It finds placeholders that were not replaced: those of unset variables, and those in a config of
    exthost itself, which has no placeholders. The user is warned about them."""
    for match in _PLACEHOLDER.finditer(text):
        name = variable_name(match[3]) if match[3] else match[1]
        if name not in _MANIFEST_NAMES and name != "/":
            return name
    return None


def with_dollars(value: Any, section: str) -> Any:
    """Return the value of a section. In that of opencode, its placeholders `{env:NAME}` and
    `{file:PATH}` get the form that other programs have: `${env:NAME}`."""
    if section != _OPENCODE_SECTION:
        return value
    if isinstance(value, str):
        return _OPENCODE_PLACEHOLDER.sub("${", value)
    if isinstance(value, list):
        return [with_dollars(item, section) for item in value]
    if isinstance(value, dict):
        return {key: with_dollars(item, section) for key, item in value.items()}
    return value


def fill_placeholders(value: Any, environ: Mapping[str, str], folder: str | None) -> Any:
    """Return a value with the placeholders in all its texts replaced. `environ` has the variables
    of the host, and `folder` is the folder of the config.

    A variable or a header whose value is one `${NAME}` of an environment variable is kept. Its
    server's reader makes it a reference, which is resolved when a process starts, so that a secret
    does not become part of the config.
    """
    if isinstance(value, str):
        return _fill_text(value, environ, folder)
    if isinstance(value, list):
        return [fill_placeholders(item, environ, folder) for item in value]
    if isinstance(value, dict):
        return {
            key: _fill_variables(item, environ, folder)
            if key in _REFERENCE_TABLES and isinstance(item, dict)
            else fill_placeholders(item, environ, folder)
            for key, item in value.items()
        }
    return value


def _fill_variables(
    variables: dict[Any, Any], environ: Mapping[str, str], folder: str | None
) -> dict[Any, Any]:
    """Return a table of variables or headers with placeholders replaced, except for values that are
    one `${NAME}` of an environment variable."""
    return {
        name: value if _is_one_variable(value) else fill_placeholders(value, environ, folder)
        for name, value in variables.items()
    }


def _is_one_variable(value: Any) -> bool:
    match = _ONE_VARIABLE.fullmatch(value) if isinstance(value, str) else None
    return match is not None and match[1] not in _OTHER_NAMES


def _fill_text(text: str, environ: Mapping[str, str], folder: str | None) -> str:
    """Return a text with its placeholders replaced."""

    def replace(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if match[3]:
            return environ.get(variable_name(match[3]), match[0])
        if name in _FOLDER_NAMES and folder is not None:
            return folder
        if name == "userHome":
            name = "HOME"
        if name in ("pathSeparator", "/"):
            return "/"
        if default is not None:
            return environ.get(name) or default
        return environ.get(name, match[0])

    return _PLACEHOLDER.sub(replace, text)
