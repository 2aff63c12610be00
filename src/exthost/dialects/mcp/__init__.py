"""mcp: the Model Context Protocol over stdio, in both of its eras.

In reading order:

    dialect            notifications, and the parts put together
    handshake          the opening of a session, in both eras
    codec              messages, and the envelope of stateless requests
    calls              tools, and requests whose reply may request input
    relayed            requests passed on for another client
    result             tool results: content blocks
    facets             `ext.resources`, `ext.prompts`, `ext.completion`, `ext.logging`
    blocking_facets    the same, blocking
    config_section     `[mcp_servers.NAME]` of a config
    json_config        `{"mcpServers": …}` files of other programs
    config_files       where those files are
    errors.toml        the error codes of its own
    requirements.toml  the rules of the dialect, by id
    vectors            what goes over the wire, as data, each with what it means
    hostile_peer       its row of the fault tests
    conformance        its row of `exthost check`
"""

from types import MappingProxyType

from exthost.dialects.package import JSON_LINES, Detection, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="mcp",
    dialect="exthost.dialects.mcp.dialect:DIALECT",
    config_sections=MappingProxyType(
        {"mcp_servers": "exthost.dialects.mcp.config_section:read_mcp_servers"}
    ),
    section_keys=MappingProxyType({"mcp_servers": "exthost.dialects.mcp.config_section:SECTION"}),
    json_sections=("mcpServers", "mcp_servers", "servers", "context_servers", "mcp"),
    json_config="exthost.dialects.mcp.json_config:read_json_servers",
    toml_files=(".codex/config.toml",),
    detection=Detection(rank=10),
    first_bytes=JSON_LINES,
    errors="exthost.dialects.mcp",
    blocking_facets=MappingProxyType(
        {
            "resources": "exthost.dialects.mcp.blocking_facets:SyncResources",
            "prompts": "exthost.dialects.mcp.blocking_facets:SyncPrompts",
            "completion": "exthost.dialects.mcp.blocking_facets:SyncCompletion",
            "logging": "exthost.dialects.mcp.blocking_facets:SyncLogging",
        }
    ),
    hostile_peer="exthost.dialects.mcp.hostile_peer:PEER",
    vectors="exthost.dialects.mcp",
    conformance="exthost.dialects.mcp.conformance:CONFORMANCE",
)
