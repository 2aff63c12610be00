"""The key `envFile` of a server in an editor's config: a file with further environment variables.

    {"mcpServers": {"weather": {"command": "weather-server", "envFile": "weather.env"}}}

A line is `NAME=value`; `export` before it, quotes around the value, blank lines and lines that
begin with `#` are allowed. Variables in `env` take precedence.
"""

import re
from collections.abc import Callable
from typing import Any

# NAME=value, and a value in quotes.
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*", re.ASCII)
_QUOTED = re.compile(r"""(["'])(.*?)\1\s*(?:#.*)?""")


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables in the text of such a file. Other lines are ignored."""
    variables = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        quoted = _QUOTED.fullmatch(match[2])
        variables[match[1]] = quoted[2] if quoted else re.sub(r"\s+#.*", "", match[2])
    return variables


def merge_env_files(servers: Any, read: Callable[[str], str]) -> Any:
    """Return servers with the variables of their files in `env`. `read` returns the text of a file;
    a server whose file it cannot read (OSError or ValueError) keeps the key, which is then reported
    as ignored."""
    if not isinstance(servers, dict):
        return servers
    merged = {}
    for name, server in servers.items():
        if isinstance(server, dict) and isinstance(server.get("envFile"), str):
            env = server.get("env")
            try:
                variables = parse_env_file(read(server["envFile"]))
            except (OSError, ValueError):
                variables = None
            if variables is not None and isinstance(env, dict | None):
                rest = {key: value for key, value in server.items() if key != "envFile"}
                server = {**rest, "env": {**variables, **(env or {})}}
        merged[name] = server
    return merged
