"""synaps: JSON-RPC 2.0 in Content-Length frames, with permissions.

In reading order:

    dialect            codec, handshake, tools, hooks and streams
    offer              the answer to `initialize`, checked
    types              payloads as values
    stream_events      reads the events of providers and commands
    facets             `ext.providers`, `ext.commands`, `ext.settings`, `ext.info`, `ext.sidecar`
    blocking_facets    the same, blocking
    host_requests      requests of a plugin to its host: memory and config
    manifest           plugin.json, hooks and permissions
    errors.toml        the error codes of its own
    requirements.toml  the rules of the dialect, by id
    vectors            what goes over the wire, as data, each with what it means
    hostile_peer       its row of the fault tests
    conformance        its row of `exthost check`
"""

from types import MappingProxyType

from exthost.dialects.package import CONTENT_LENGTH, Detection, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="synaps",
    dialect="exthost.dialects.synaps.dialect:DIALECT",
    manifest="exthost.dialects.synaps.manifest:FORMAT",
    detection=Detection(rank=20),
    first_bytes=CONTENT_LENGTH,
    errors="exthost.dialects.synaps",
    blocking_facets=MappingProxyType(
        {
            "providers": "exthost.dialects.synaps.blocking_facets:SyncProviders",
            "commands": "exthost.dialects.synaps.blocking_facets:SyncCommands",
            "settings": "exthost.dialects.synaps.blocking_facets:SyncSettings",
            "info": "exthost.dialects.synaps.blocking_facets:SyncInfo",
            "sidecar": "exthost.dialects.synaps.blocking_facets:SyncSidecar",
        }
    ),
    hostile_peer="exthost.dialects.synaps.hostile_peer:PEER",
    vectors="exthost.dialects.synaps",
    conformance="exthost.dialects.synaps.conformance:CONFORMANCE",
)
