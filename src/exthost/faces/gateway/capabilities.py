"""The capabilities of a client, as it declared them, and as they are declared to MCP servers."""

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
        meta = params.get("_meta")
        declared = (
            meta.get(types.CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, Mapping) else None
        )
    return declared if isinstance(declared, Mapping) else {}


def read_client_info(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return name and version in the params of the first request of a client; {} without them."""
    info = params.get("clientInfo")
    if method != "initialize":
        meta = params.get("_meta")
        info = meta.get(types.CLIENT_INFO_META_KEY) if isinstance(meta, Mapping) else None
    return dict(info) if isinstance(info, Mapping) else {}


def declared_handlers(capabilities: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the handlers that declare these capabilities of a client to a server (see
    `dialects.mcp.handshake`)."""
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
