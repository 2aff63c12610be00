"""`ext.documents` for programs without an event loop."""

from exthost.dialects.blocking_methods import SyncFacet, forward
from exthost_language_server.documents import Documents


class SyncDocuments(SyncFacet):
    """The open documents of one extension, blocking."""

    open = forward(Documents.open)
    close = forward(Documents.close)
