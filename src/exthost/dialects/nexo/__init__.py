"""nexo: JSON-RPC 2.0, one object a line, read with great tolerance.

dialect      codec, handshake, calls and hooks
manifest     plugin.toml
mcp_servers  the MCP servers that a manifest brings along
"""

from exthost.dialects.nexo.dialect import DIALECT

__all__ = ["DIALECT"]
