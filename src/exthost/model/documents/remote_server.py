"""A remote MCP server in a config: its URL, headers, token and transport.

    [[extensions]]
    name = "docs"
    source = { type = "http", url = "https://example.org/mcp", token = { from = "DOCS_TOKEN" } }

The host reaches the server through a process of its own, `exthost bridge`. `bridge_arguments`
returns the arguments and the environment variables of that process. Values that may be secrets are
passed in variables, because every user of a machine can read the arguments of a process.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from exthost.model.documents.keys import ANY_TEXT, TEXT, VARIABLES, Key, ValueType
from exthost.model.documents.problems import WRONG_VALUE, Place
from exthost.model.documents.readers import (
    HostEnvRef,
    SecretSource,
    quote_text,
    read_text,
    read_variables_or_references,
)

_URL = re.compile(r"(?i:https?)://[^/\s?#]+[^\s]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

# The transports, with the names that other programs have for them.
_TRANSPORTS = {
    "auto": "auto",
    "remote": "auto",
    "http": "http",
    "streamable_http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}


class BridgeArguments(NamedTuple):
    """The arguments of `exthost bridge`, and the environment variables that they name. `problem` is
    the reason why the server cannot be used, or ""."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    problem: str = ""


def bridge_arguments(fields: Mapping[str, Any]) -> BridgeArguments:
    """Return how the bridge of a server is started. `fields` are the values of `REMOTE_KEYS`; other
    keys are ignored."""
    url = fields.get("url") or ""
    problem = ""
    env: dict[str, str] = {}
    argv = [url]
    if isinstance(url, HostEnvRef):
        env["EXTHOST_BRIDGE_URL"] = url
        argv = ["--url-from", "EXTHOST_BRIDGE_URL"]
    for number, (name, value) in enumerate((fields.get("headers") or {}).items(), 1):
        if not _HEADER_NAME.fullmatch(name):
            problem = f"{quote_text(name)} is not the name of an HTTP header"
        variable = f"EXTHOST_BRIDGE_HEADER_{number}"
        env[variable] = value
        argv += ["--header", f"{name}={variable}"]
    if token := fields.get("token"):
        env["EXTHOST_BRIDGE_TOKEN"] = token
        argv += ["--token-from", "EXTHOST_BRIDGE_TOKEN"]
    named = fields.get("transport") or fields.get("type") or "auto"
    transport = _TRANSPORTS.get(named)
    if transport is None:
        problem = (
            f'transport {quote_text(named)} is not supported, only "auto", "http" and "sse" are'
        )
    elif transport != "auto":
        argv += ["--transport", transport]
    return BridgeArguments(tuple(argv), env, problem)


def keys_of_variables(argv: Sequence[str]) -> dict[str, str]:
    """Return the key of the config for each variable that these arguments name, except the URL."""
    keys = {"EXTHOST_BRIDGE_TOKEN": "token"}
    for option, value in pairwise(argv):
        if option == "--header":
            header, _, variable = value.rpartition("=")
            keys[variable] = f"headers.{header}"
    return keys


def _read_url(value: Any, place: Place) -> str | None:
    """Read a URL, or a reference to a variable of the host that has it."""
    if isinstance(value, Mapping):
        reference = _read_reference(value, place)
        if isinstance(reference, SecretSource):
            # The folder of the server's login is named after the URL, which must therefore be known
            # before the start. Secrets are read during the start.
            place.add_problem(WRONG_VALUE, 'must be a URL, or { from = "NAME" }')
            return None
        return reference
    url = read_text(value, place)
    if url is None or _URL.fullmatch(url):
        return url
    place.add_problem(
        WRONG_VALUE, f"{quote_text(url)} is not an http or https URL", "write https://host/path"
    )
    return None


def _read_reference(value: Any, place: Place) -> str | None:
    """Read text, or a reference to a secret."""
    if not isinstance(value, Mapping):
        return read_text(value, place)
    # References are read in a table of variables, here one with a single name.
    variables = read_variables_or_references({"value": value}, place)
    return None if variables is None else variables.get("value")


_TEXT_OR_REFERENCE = {
    "anyOf": [
        TEXT.schema,
        {
            "type": "object",
            "properties": {"from": TEXT.schema},
            "required": ["from"],
            "additionalProperties": False,
        },
    ]
}

REMOTE_KEYS: Mapping[str, Key] = {
    "url": Key(
        ValueType(_read_url, 'URL or { from = "NAME" }', _TEXT_OR_REFERENCE),
        "The address of a remote server, which a bridge process connects to.",
        '"https://example.org/mcp"',
    ),
    "headers": Key(
        VARIABLES,
        "HTTP headers for a remote server.",
        '{ X-Team = "docs", X-Key = { from = "TEAM_KEY" } }',
        "{}",
    ),
    "token": Key(
        ValueType(_read_reference, "text or reference", VARIABLES.schema["additionalProperties"]),
        "The bearer token for a remote server.",
        '{ from = "EXAMPLE_TOKEN" }',
        "(none)",
    ),
    "transport": Key(
        ANY_TEXT,
        "How a remote server is reached: http (streamable HTTP), sse, or auto, which tries both.",
        '"sse"',
        '"auto"',
    ),
}
