"""roder: JSON-RPC 2.0, one object a line; the handshake must repeat the manifest.

In reading order:

    dialect            codec, handshake, tools, events and streams
    manifest           roder-extension.toml
    manifest_check     the comparison of the handshake with the manifest
    types              payloads as values
    facets             `ext.inference`, `ext.subagents`, `ext.tasks`
    blocking_facets    the same, blocking
    config_section     `[[process_extensions]]` of a config
    errors.toml        the error codes of its own
    requirements.toml  the rules of the dialect, by id
    vectors            what goes over the wire, as data, each with what it means
    hostile_peer       its row of the fault tests
    conformance        its row of `exthost check`
"""

from types import MappingProxyType

from exthost.dialects.package import JSON_LINES, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="roder",
    dialect="exthost.dialects.roder.dialect:DIALECT",
    manifest="exthost.dialects.roder.manifest:FORMAT",
    config_sections=MappingProxyType(
        {"process_extensions": "exthost.dialects.roder.config_section:read_process_extensions"}
    ),
    section_keys=MappingProxyType(
        {"process_extensions": "exthost.dialects.roder.config_section:SECTION"}
    ),
    # Not detected by trial: a handshake needs the manifest.
    first_bytes=JSON_LINES,
    errors="exthost.dialects.roder",
    blocking_facets=MappingProxyType(
        {
            "inference": "exthost.dialects.roder.blocking_facets:SyncInference",
            "subagents": "exthost.dialects.roder.blocking_facets:SyncSubagents",
            "tasks": "exthost.dialects.roder.blocking_facets:SyncTasks",
        }
    ),
    hostile_peer="exthost.dialects.roder.hostile_peer:PEER",
    vectors="exthost.dialects.roder",
    conformance="exthost.dialects.roder.conformance:CONFORMANCE",
)
