"""roder: JSON-RPC 2.0, one object a line; the handshake must repeat the manifest.

dialect         codec, handshake, tools, events and streams
manifest        roder-extension.toml
manifest_check  the comparison of the handshake with the manifest
types           payloads as values
facets          `ext.inference`, `ext.subagents`, `ext.tasks`
"""

from exthost.dialects.roder.dialect import DIALECT

__all__ = ["DIALECT"]
