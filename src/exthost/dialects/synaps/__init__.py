"""synaps: JSON-RPC 2.0 in Content-Length frames, with permissions.

dialect        codec, handshake, tools, hooks and streams
offer          the answer to `initialize`, checked
types          payloads as values
facets         `ext.providers`, `ext.commands`, `ext.settings`, `ext.info`, `ext.sidecar`
host_requests  what a plugin may ask of its host: memory and config
manifest       plugin.json, hooks and permissions
"""

from exthost.dialects.synaps.dialect import DIALECT

__all__ = ["DIALECT"]
