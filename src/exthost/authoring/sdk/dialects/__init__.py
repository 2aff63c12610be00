"""The extension's side of each dialect, one module per dialect, lazily imported.

An endpoint translates between the messages of one dialect and the handlers that the author
registered (`sdk.registry`). In reading order:

- `endpoint`: the base class of all endpoints
- `jsonrpc`: the base class of the endpoints that speak JSON-RPC 2.0
- `morphir`, `nexo`, `synaps`, `roder`, `mcp`, `cigen`: one endpoint class each. Each module assigns
  its class to `ENDPOINT`, where `load_endpoint_class` looks for it
- `nexo_second`: names and manifest in nexo's second contract
- `first_message`: detects which dialect a host speaks, from its first bytes
- `providers`: encodes what providers (handlers that run a model) yield, for synaps and roder
- `mcp_content`: encodes the results of MCP tools and resources
- `mcp_exchange`: parses the `_meta` field of an MCP request
"""

import importlib
from typing import TYPE_CHECKING

from exthost.authoring.sdk.errors import SdkUsageError

if TYPE_CHECKING:
    from exthost.authoring.sdk.dialects.endpoint import Endpoint

DIALECT_NAMES = ("morphir", "nexo", "synaps", "roder", "mcp", "cigen")


def load_endpoint_class(name: str) -> "type[Endpoint]":
    """Import the module of a dialect and return its endpoint class. Raises UsageError if there is
    no such dialect."""
    if name not in DIALECT_NAMES:
        raise SdkUsageError(f"there is no dialect {name!r}; there are: {', '.join(DIALECT_NAMES)}")
    module = importlib.import_module(f"exthost.authoring.sdk.dialects.{name}")
    endpoint_class: type[Endpoint] = module.ENDPOINT
    return endpoint_class
