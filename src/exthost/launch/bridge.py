"""Plans the start of a remote MCP server (`url = "https://…"`, or `source = { type = "http", … }`).

A process of ours, `exthost bridge`, connects to the server, and speaks the stdio transport with the
host. For everything else it is the program of the extension: it is started, watched, sandboxed and
ended as any other. The tokens of a login are in a folder of their own for each URL, which is the
state folder of the extension.
"""

import hashlib
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

from exthost.errors import Evidence, Refused
from exthost.model.network_rules import parse_entry
from exthost.model.spec import Permissions, Spec
from exthost.process.state_root import state_root

# The variable that names the folder with the tokens of a login, for the bridge.
FOLDER_VARIABLE = "EXTHOST_BRIDGE_FOLDER"

# Variables of the host that a connection depends on: proxies and certificates.
_CONNECTION_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE")


def is_remote(spec: Spec) -> bool:
    """Return whether the extension is a remote server."""
    return spec.source == "http"


def bridge_command(spec: Spec) -> tuple[str, ...]:
    """Return the command of the bridge."""
    # With -P, Python does not import modules from the working folder.
    return (sys.executable, "-P", "-m", "exthost", "bridge", *spec.argv)


def bridge_variables(folder: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the bridge gets beside those of the config."""
    names = (*_CONNECTION_VARIABLES, *map(str.lower, _CONNECTION_VARIABLES))
    passed = {name: environ[name] for name in names if name in environ}
    return {**passed, FOLDER_VARIABLE: folder}


def token_folder(url: str, environ: Mapping[str, str]) -> str:
    """Return the folder with the tokens of a login at this URL."""
    digest = hashlib.sha256(url.encode()).hexdigest()[:32]
    return os.path.join(os.path.abspath(state_root(environ)), "bridge", digest)  # noqa: PTH100, PTH118


def server_host(spec: Spec) -> str:
    """Return the host and port of a remote server, as an entry of `permissions.network`; "" if the
    config does not contain its URL, or if the extension is not a remote server."""
    if not is_remote(spec) or spec.argv[0].startswith("-"):  # an option in place of the URL
        return ""
    try:
        parts = urlsplit(spec.argv[0])
        port = parts.port or (80 if parts.scheme == "http" else 443)
        return parse_entry(f"{_in_brackets(parts.hostname or '')}:{port}").text
    except ValueError:
        return ""


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def check_bridge(spec: Spec, policy: Permissions | None) -> None:
    """Raise Refused if a bridge cannot run here, or if it must not use the network. `policy` is the
    result of `enforced_policy`, which adds the host of a URL that the config contains."""
    if find_spec("mcp") is None:
        raise Refused(
            "X1804",
            "it is a remote server, and the package mcp is not installed",
            extension=spec.id,
            help="pip install 'exthost[bridge]'",
        )
    if policy is not None and not policy.network:
        raise Refused(
            "X1805",
            "it is a remote server at a URL that the config does not contain, and its permissions "
            "do not allow the network",
            extension=spec.id,
            help='add network = ["HOST:PORT"] of the server to its permissions',
            evidence=Evidence(key="permissions.network"),
        )
