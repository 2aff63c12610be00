"""Language servers: JSON-RPC 2.0 in Content-Length frames.

In reading order:

    dialect          codec, handshake, what the server may send unasked, how it is shut down
    tools            hover, completion and the others as tools
    documents        `ext.documents`: documents that stay open
    blocking_facets  `ext.documents`, blocking
    positions        file names, document items and the results for people
    conformance      how `exthost check` checks a server
    vectors          what goes over the pipe, as data, each with what it means
"""

from exthost.dialects.package import CONTENT_LENGTH, Detection, DialectPackage

__all__ = ["PACKAGE"]

PACKAGE = DialectPackage(
    name="language-server",
    dialect="exthost_language_server.dialect:DIALECT",
    # After the built-in dialects: a server that does not know our opening may stay silent.
    detection=Detection(rank=90),
    first_bytes=CONTENT_LENGTH,
    errors={
        "LS001": {
            "kind": "UsageError",
            "title": "a document without text",
            "meaning": "A language server checks text, not files. The call names a file that is "
            "not open, and has no text.",
            "fix": "Pass `text`, or open the file first with ext.documents.open.",
        }
    },
    blocking_facets={"documents": "exthost_language_server.blocking_facets:SyncDocuments"},
    vectors="exthost_language_server",
    conformance="exthost_language_server.conformance:CONFORMANCE",
)
