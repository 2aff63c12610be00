"""cigen: protobuf messages behind a length; replies are matched by their order.

In reading order:

    dialect            handshake and methods; `ext.typed`
    blocking_facets    `ext.typed`, blocking
    codec              the six exchanges; the order of frames says to which one a frame belongs
    manifest           plugins on disk: executables recognised by their names
    messages           the generated messages
    proto              the .proto, its generated code, and the mapping to and from JSON
    errors.toml        the error codes of its own
    requirements.toml  the rules of the dialect, by id
    vectors            what goes over the wire, as data, each with what it means
    hostile_peer       its row of the fault tests
    conformance        its row of `exthost check`
"""

from types import MappingProxyType

from exthost.dialects.package import LENGTH_PREFIXED, Detection, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="cigen",
    dialect="exthost.dialects.cigen.dialect:DIALECT",
    manifest="exthost.dialects.cigen.manifest:FORMAT",
    detection=Detection(rank=50),
    first_bytes=LENGTH_PREFIXED,
    errors="exthost.dialects.cigen",
    blocking_facets=MappingProxyType({"typed": "exthost.dialects.cigen.blocking_facets:SyncTyped"}),
    hostile_peer="exthost.dialects.cigen.hostile_peer:PEER",
    vectors="exthost.dialects.cigen",
    conformance="exthost.dialects.cigen.conformance:CONFORMANCE",
)
