"""The dialect synaps, which the agent plugins of synaps speak: JSON-RPC 2.0 in Content-Length
frames, with requests in both directions.

A plugin is synaps' name for an extension. It is a folder with a manifest, `plugin.json`, which
lists its permissions and hooks. A facet is a group of operations that only extensions of this
dialect have, such as `ext.providers`. `docs/dialects/synaps.md` is the page for users. In reading
order:

    dialect            codec, handshake, tools and streams
    hooks              the request of a hook, and the actions in its reply
    result             reads the results of tools
    offer              checks the reply to `initialize`, and makes the Offer from it
    types              the payloads of messages as dataclasses
    stream_events      parses the events of providers and commands
    facets             `ext.providers`, `ext.commands`, `ext.settings`, `ext.info`, `ext.sidecar`
    blocking_facets    the same facets without `await`, for programs without an event loop
    host_requests      parses the requests of a plugin to its host: memory and config
    manifest           parses plugin.json; the tables of hooks and permissions
    errors.toml        the error codes that only this dialect raises
    requirements.toml  the requirements of the dialect by id; tests name the ids that they cover
    vectors            test vectors: bytes and messages, each with the expected result
    hostile_peer       how the fault tests of `exthost.testing` speak this dialect
    conformance        how `exthost check` checks extensions of this dialect, by `check_rules.toml`

`PACKAGE` refers to these modules by strings, "module:attribute", so that they are imported only
when they are needed.
"""

from exthost.dialects.package import CONTENT_LENGTH, Detection, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="synaps",
    dialect="exthost.dialects.synaps.dialect:DIALECT",
    manifest="exthost.dialects.synaps.manifest:FORMAT",
    host_variables=("SYNAPS_HOOK_SESSION_ID",),
    # Dialects are tried in ascending order of rank.
    detection=Detection(rank=20),
    first_bytes=CONTENT_LENGTH,
    errors="exthost.dialects.synaps",
    blocking_facets={
        "providers": "exthost.dialects.synaps.blocking_facets:SyncProviders",
        "commands": "exthost.dialects.synaps.blocking_facets:SyncCommands",
        "settings": "exthost.dialects.synaps.blocking_facets:SyncSettings",
        "info": "exthost.dialects.synaps.blocking_facets:SyncInfo",
        "sidecar": "exthost.dialects.synaps.blocking_facets:SyncSidecar",
    },
    hostile_peer="exthost.dialects.synaps.hostile_peer:PEER",
    vectors="exthost.dialects.synaps",
    conformance="exthost.dialects.synaps.conformance:CONFORMANCE",
)
