"""morphir: one JSON object a line, bare requests, errors that are plain strings.

In reading order:

    dialect            codec, handshake and calls
    errors.toml        the error codes of its own
    requirements.toml  the rules of the dialect, by id
    vectors            what goes over the wire, as data, each with what it means
    hostile_peer       its row of the fault tests
    conformance        its row of `exthost check`
"""

from exthost.dialects.package import JSON_LINES, Detection, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="morphir",
    dialect="exthost.dialects.morphir.dialect:DIALECT",
    detection=Detection(rank=30),
    first_bytes=JSON_LINES,
    errors="exthost.dialects.morphir",
    hostile_peer="exthost.dialects.morphir.hostile_peer:PEER",
    vectors="exthost.dialects.morphir",
    conformance="exthost.dialects.morphir.conformance:CONFORMANCE",
)
