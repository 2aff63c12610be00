"""The dialect roder, which inference engines, subagents and task executors of roder speak: JSON-RPC
2.0, one object per line.

The manifest, `roder-extension.toml`, lists everything that an extension provides, and the handshake
must repeat it. A facet is a group of operations that only extensions of this dialect have, such as
`ext.inference`. `docs/dialects/roder.md` is the page for users. In reading order:

    dialect            codec, handshake, tools, events and streams
    manifest           parses and checks roder-extension.toml
    handshake_check    compares the reply to the handshake with the manifest
    types              the payloads of messages as dataclasses
    messages           the names of the methods, and their params and results as dataclasses
    facets             `ext.inference`, `ext.subagents`, `ext.tasks`
    blocking_facets    the same facets without `await`, for programs without an event loop
    config_section     parses `[[process_extensions]]` of a config
    errors.toml        the error codes that only this dialect raises
    requirements.toml  the requirements of the dialect by id; tests name the ids that they cover
    vectors            test vectors: bytes and messages, each with the expected result
    hostile_peer       how the fault tests of `exthost.testing` speak this dialect
    conformance        how `exthost check` checks extensions of this dialect, by `check_rules.toml`

`PACKAGE` refers to these modules by strings, "module:attribute", so that they are imported only
when they are needed.
"""

from exthost.dialects.package import JSON_LINES, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="roder",
    dialect="exthost.dialects.roder.dialect:DIALECT",
    manifest="exthost.dialects.roder.manifest:FORMAT",
    config_sections={
        "process_extensions": "exthost.dialects.roder.config_section:read_process_extensions"
    },
    section_keys={"process_extensions": "exthost.dialects.roder.config_section:SECTION"},
    # No `detection`: a handshake needs the manifest, and a bare command has none.
    first_bytes=JSON_LINES,
    errors="exthost.dialects.roder",
    blocking_facets={
        "inference": "exthost.dialects.roder.blocking_facets:SyncInference",
        "subagents": "exthost.dialects.roder.blocking_facets:SyncSubagents",
        "tasks": "exthost.dialects.roder.blocking_facets:SyncTasks",
    },
    hostile_peer="exthost.dialects.roder.hostile_peer:PEER",
    vectors="exthost.dialects.roder",
    conformance="exthost.dialects.roder.conformance:CONFORMANCE",
)
