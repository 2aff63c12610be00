"""`${…}` in the configs of other programs: what it stands for.

    ${NAME}, ${env:NAME}    a variable of the host
    ${NAME:-text}           the same, or the text if it is not set or empty
    ${workspaceFolder}      the folder of the config
    ${userHome}             the home folder of the user
    ${pathSeparator}, ${/}  /

Others, and variables that are not set, stay as they are. Pure: variables are given.
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["fill_placeholders"]

_PLACEHOLDER = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*|/)(?::-([^}]*))?\}", re.ASCII)
_WHOLE = re.compile(r"\$\{(?:env:)?[A-Za-z_]\w*\}", re.ASCII)
_FOLDERS = ("workspaceFolder", "workspaceRoot", "cwd")


def fill_placeholders(value: Any, environ: Mapping[str, str], folder: str | None) -> Any:
    """Return a value with the placeholders in its texts replaced.

    A member of `env` that is one variable and nothing else stays: it is read when a process is
    started, so that a secret is in no config.
    """
    if isinstance(value, str):
        return _filled(value, environ, folder)
    if isinstance(value, list):
        return [fill_placeholders(item, environ, folder) for item in value]
    if isinstance(value, dict):
        return {
            key: _filled_variables(item, environ, folder)
            if key in ("env", "environment") and isinstance(item, dict)
            else fill_placeholders(item, environ, folder)
            for key, item in value.items()
        }
    return value


def _filled_variables(
    variables: dict[Any, Any], environ: Mapping[str, str], folder: str | None
) -> dict[Any, Any]:
    return {
        name: value
        if isinstance(value, str) and _WHOLE.fullmatch(value)
        else fill_placeholders(value, environ, folder)
        for name, value in variables.items()
    }


def _filled(text: str, environ: Mapping[str, str], folder: str | None) -> str:
    def replace(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if name in _FOLDERS and folder is not None:
            return folder
        if name == "userHome":
            name = "HOME"
        if name in ("pathSeparator", "/"):
            return "/"
        if default is not None:
            return environ.get(name) or default
        return environ.get(name, match[0])

    return _PLACEHOLDER.sub(replace, text)
