"""The dialect cigen, which cigen's plugins speak: they generate the configuration of CI systems.

The messages are protobuf, each after its length, and have no ids: replies match requests by their
order. A facet is a group of operations that only extensions of this dialect have: `ext.typed`.
`docs/dialects/cigen.md` is the page for users. In reading order:

    dialect            handshake and methods, and the facet `ext.typed`
    blocking_facets    the same facet without `await`, for programs without an event loop
    codec              encodes the six request types and decodes replies by their order
    manifest           finds plugins on disk: executables with certain names
    messages           the generated message classes, under a short name
    proto              the mapping of the messages to and from JSON
    errors.toml        the error codes that only this dialect raises
    requirements.toml  the requirements of the dialect by id; tests name the ids that they cover
    vectors            test vectors: bytes and messages, each with the expected result
    hostile_peer       how the fault tests of `exthost.testing` speak this dialect
    conformance        how `exthost check` checks extensions of this dialect, by `check_rules.toml`

`PACKAGE` refers to these modules by strings, "module:attribute", so that they are imported only
when they are needed.
"""

from exthost.dialects.package import LENGTH_PREFIXED, Detection, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="cigen",
    dialect="exthost.dialects.cigen.dialect:DIALECT",
    manifest="exthost.dialects.cigen.manifest:FORMAT",
    # Dialects are tried in ascending order of rank.
    detection=Detection(rank=50),
    first_bytes=LENGTH_PREFIXED,
    errors="exthost.dialects.cigen",
    blocking_facets={"typed": "exthost.dialects.cigen.blocking_facets:SyncTyped"},
    hostile_peer="exthost.dialects.cigen.hostile_peer:PEER",
    vectors="exthost.dialects.cigen",
    conformance="exthost.dialects.cigen.conformance:CONFORMANCE",
)
