"""The dialect mcp: the Model Context Protocol over stdio, as JSON-RPC 2.0 with one object per line.

exthost is the client, and each MCP server is an extension. The protocol has two eras: since
revision 2026-07-28 it is stateless, before that a handshake opens a session. A facet is a group of
operations that only extensions of this dialect have, such as `ext.resources`.
`docs/dialects/mcp.md` is the page for users. In reading order:

    dialect            notifications, and the `Dialect` object
    handshake          opens a session, in both eras
    codec              encodes and decodes messages; adds `_meta` to stateless requests
    calls              tool calls and other requests whose reply may request input from the host
    tasks              calls that a server runs in the background
    relayed            requests that the host passes on for another MCP client
    result             reads tool results, which are lists of content blocks
    facets             `ext.resources`, `ext.prompts`, `ext.completion`, `ext.logging`
    blocking_facets    the same facets without `await`, for programs without an event loop
    config_section     parses `[mcp_servers.NAME]` of a config
    json_config        converts the `{"mcpServers": …}` configs of other programs
    config_files       the paths of those configs
    errors.toml        the error codes that only this dialect raises
    requirements.toml  the requirements of the dialect by id; tests name the ids that they cover
    vectors            test vectors: bytes and messages, each with the expected result
    hostile_peer       how the fault tests of `exthost.testing` speak this dialect
    conformance        how `exthost check` checks extensions of this dialect, by `check_rules.toml`
    result_audit       checks results more strictly than the host does, for `exthost check`
    notification_audit checks notifications, for the same purpose

`PACKAGE` refers to these modules by strings, "module:attribute", so that they are imported only
when they are needed.
"""

from exthost.dialects.package import JSON_LINES, Detection, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="mcp",
    dialect="exthost.dialects.mcp.dialect:DIALECT",
    config_sections={"mcp_servers": "exthost.dialects.mcp.config_section:read_mcp_servers"},
    section_keys={"mcp_servers": "exthost.dialects.mcp.config_section:SECTION"},
    json_sections=("mcpServers", "mcp_servers", "servers", "context_servers", "mcp"),
    json_config="exthost.dialects.mcp.json_config:read_json_servers",
    toml_files=(".codex/config.toml",),
    # Dialects are tried in ascending order of rank.
    detection=Detection(rank=10),
    first_bytes=JSON_LINES,
    errors="exthost.dialects.mcp",
    blocking_facets={
        "resources": "exthost.dialects.mcp.blocking_facets:SyncResources",
        "prompts": "exthost.dialects.mcp.blocking_facets:SyncPrompts",
        "completion": "exthost.dialects.mcp.blocking_facets:SyncCompletion",
        "logging": "exthost.dialects.mcp.blocking_facets:SyncLogging",
    },
    hostile_peer="exthost.dialects.mcp.hostile_peer:PEER",
    vectors="exthost.dialects.mcp",
    conformance="exthost.dialects.mcp.conformance:CONFORMANCE",
)
