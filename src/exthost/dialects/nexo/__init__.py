"""nexo: JSON-RPC 2.0, one object a line, read leniently.

In reading order:

    dialect            codec, handshake, calls and hooks
    manifest           plugin.toml
    mcp_servers        the MCP servers that a manifest declares
    errors.toml        the error codes of its own
    requirements.toml  the rules of the dialect, by id
    vectors            what goes over the wire, as data, each with what it means
    hostile_peer       its row of the fault tests
    conformance        its row of `exthost check`
"""

from exthost.dialects.package import JSON_LINES, Detection, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="nexo",
    dialect="exthost.dialects.nexo.dialect:DIALECT",
    manifest="exthost.dialects.nexo.manifest:FORMAT",
    detection=Detection(rank=40),
    first_bytes=JSON_LINES,
    errors="exthost.dialects.nexo",
    hostile_peer="exthost.dialects.nexo.hostile_peer:PEER",
    vectors="exthost.dialects.nexo",
    conformance="exthost.dialects.nexo.conformance:CONFORMANCE",
)
