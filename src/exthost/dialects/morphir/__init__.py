"""The dialect morphir, which is simple enough for scripts: one JSON object per line, without
`jsonrpc`; errors are plain strings.

    {"id": 1, "method": "count", "params": {"text": "a b"}}    a request of the host
    {"id": 1, "result": 2}                                     the reply

`docs/dialects/morphir.md` is the page for users. In reading order:

    dialect            codec, handshake and calls
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
    name="morphir",
    dialect="exthost.dialects.morphir.dialect:DIALECT",
    # Dialects are tried in ascending order of rank.
    detection=Detection(rank=30),
    first_bytes=JSON_LINES,
    errors="exthost.dialects.morphir",
    hostile_peer="exthost.dialects.morphir.hostile_peer:PEER",
    vectors="exthost.dialects.morphir",
    conformance="exthost.dialects.morphir.conformance:CONFORMANCE",
)
