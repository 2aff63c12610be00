"""The extension's end of each dialect: one file each, imported when it is spoken.

- `endpoint`: what an endpoint is
- `jsonrpc`: what those that speak JSON-RPC 2.0 have in common
- `morphir`, `nexo`, `synaps`, `roder`, `mcp`, `cigen`: the registry in the words of a dialect
- `first_message`: which of them a host speaks
- `providers`: what providers yield, in the words of synaps and roder
- `mcp_content`, `mcp_exchange`: results of MCP, and what its requests say about themselves
"""

import importlib
from typing import TYPE_CHECKING

from exthost.sdk.errors import UsageError

if TYPE_CHECKING:
    from exthost.sdk.dialects.endpoint import Endpoint

NAMES = ("morphir", "nexo", "synaps", "roder", "mcp", "cigen")


def endpoint_type(name: str) -> "type[Endpoint]":
    """Return the endpoint of a dialect. Raises UsageError."""
    if name not in NAMES:
        raise UsageError(f"there is no dialect {name!r}; there are: {', '.join(NAMES)}")
    found: type[Endpoint] = importlib.import_module(f"exthost.sdk.dialects.{name}").ENDPOINT
    return found
