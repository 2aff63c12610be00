"""What an MCP client of the gateway declares about itself in its first request, and which of its
capabilities the gateway then declares to MCP servers.

A client declares for example `{"roots": {}, "elicitation": {"url": {}}}`: it can list the roots of
its workspace, and ask a person to fill in a form or to open a URL.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import mcp_types as types

from exthost.dialects.mcp.handshake import ELICITATION_URL, EXTENSION_PREFIX, SAMPLING_TOOLS
from exthost.wire import jsontext


def read_client_capabilities(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the capabilities in the params of the first request of a client: `initialize`, or
    `server/discover` of a stateless client (one without a session)."""
    if method == "initialize":
        declared = params.get("capabilities")
    else:
        declared = _read_meta(params, types.CLIENT_CAPABILITIES_META_KEY)
    return declared if isinstance(declared, Mapping) else {}


def read_client_info(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return name and version in the params of the first request of a client; {} without them."""
    if method == "initialize":
        info = params.get("clientInfo")
    else:
        info = _read_meta(params, types.CLIENT_INFO_META_KEY)
    return dict(info) if isinstance(info, Mapping) else {}


def _read_meta(params: Mapping[str, Any], key: str) -> Any:
    """Return the value of this key in the `_meta` of the params, or None."""
    meta = params.get("_meta")
    return meta.get(key) if isinstance(meta, Mapping) else None


def declared_handlers(capabilities: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the handlers that an extension needs to declare these capabilities of a
    client to its server. An extension declares a capability if it has the handler of this name (see
    `dialects.mcp.handshake`): a method such as "roots/list", or the constant of a part."""
    if "roots" in capabilities:
        yield "roots/list"
    if "sampling" in capabilities:
        yield "sampling/createMessage"
        if _has(capabilities["sampling"], "tools"):
            yield SAMPLING_TOOLS
    if "elicitation" in capabilities:
        yield "elicitation/create"
        if _has(capabilities["elicitation"], "url"):
            yield ELICITATION_URL
    extensions = capabilities.get("extensions")
    for name, settings in extensions.items() if isinstance(extensions, Mapping) else ():
        if isinstance(name, str) and " " not in name and isinstance(settings, Mapping):
            yield f"{EXTENSION_PREFIX}{name} {jsontext.encode(settings).decode()}"


def _has(capability: Any, part: str) -> bool:
    """Return whether a declared capability includes this part, such as "url" of elicitation."""
    return isinstance(capability, Mapping) and capability.get(part) is not None
