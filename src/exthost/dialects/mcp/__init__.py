"""mcp: the Model Context Protocol over stdio, in both of its eras.

dialect  handshake and notifications
codec    messages, and the envelope of stateless requests
calls    tools, and requests that the server may answer with a question
result   tool results: content blocks
facets   `ext.resources`, `ext.prompts`, `ext.completion`, `ext.logging`
"""

from exthost.dialects.mcp.dialect import DIALECT

__all__ = ["DIALECT"]
