"""The dialect nexo, which the agent extensions of nexo speak: JSON-RPC 2.0, one object per line.

    {"jsonrpc":"2.0","method":"tools/call","params":{"name":"add","arguments":{}},"id":1}

nexo has two contracts: two versions of its protocol that have little in common. An extension is a
folder with a manifest, `plugin.toml`. `docs/dialects/nexo.md` is the page for users. In reading
order:

    codec              the messages, which are the same in both contracts
    hooks              the events and replies of hooks, which are the same in both contracts
    progress           the progress of a call, which is the same in both contracts
    dialect            the first contract: handshake, calls and hooks; and the choice between both
    second_contract    the second contract, of extensions with manifest version 2
    manifest           parses and checks plugin.toml in its first, flat shape
    manifest_v2        parses and checks the shape of the second contract
    manifest_parts     what both shapes have in common
    mcp_servers        parses the MCP servers that a manifest declares
    errors.toml        the error codes that only this dialect raises
    requirements.toml  the requirements of the dialect by id; tests name the ids that they cover
    vectors            test vectors: bytes and messages, each with the expected result
    hostile_peer       how the fault tests of `exthost.testing` speak this dialect
    conformance        how `exthost check` checks extensions of this dialect, by `check_rules.toml`

`PACKAGE` refers to these modules by strings, "module:attribute", so that they are imported only
when they are needed.
"""

from exthost.dialects.package import JSON_LINES, Detection, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="nexo",
    dialect="exthost.dialects.nexo.dialect:DIALECT",
    manifest="exthost.dialects.nexo.manifest:FORMAT",
    host_variables=("NEXO_PLUGIN_INIT_TIMEOUT_MS", "NEXO_PLUGIN_TOOL_TIMEOUT_MS"),
    # Dialects are tried in ascending order of rank.
    detection=Detection(rank=40),
    first_bytes=JSON_LINES,
    errors="exthost.dialects.nexo",
    hostile_peer="exthost.dialects.nexo.hostile_peer:PEER",
    vectors="exthost.dialects.nexo",
    conformance="exthost.dialects.nexo.conformance:CONFORMANCE",
)
