"""`ext.documents`: documents that stay open, also in the process that replaces a crashed one."""

from exthost.dialects.caller import Caller
from exthost.dialects.steps import Exchanges
from exthost.model.messages import Notification
from exthost_language_server.positions import item, uri_of


class Documents:
    """The open documents of one extension."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._open: dict[str, tuple[str, int]] = {}  # URI → text and version

    async def open(self, path: str, text: str) -> str:
        """Open a document, or replace the text of one that is open. Return its URI."""
        uri = self._uri(path)
        if uri in self._open:
            version = self._open[uri][1] + 1
            self._open[uri] = (text, version)
            await self._caller.notify(
                "textDocument/didChange",
                {
                    "textDocument": {"uri": uri, "version": version},
                    "contentChanges": [{"text": text}],
                },
            )
        else:
            self._open[uri] = (text, 1)
            await self._caller.notify("textDocument/didOpen", {"textDocument": item(uri, text)})
        return uri

    async def close(self, path: str) -> None:
        """Close a document, if it is open."""
        uri = self._uri(path)
        if self._open.pop(uri, None) is not None:
            await self._caller.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def on_new_process(self) -> Exchanges:
        """Open every document again: a new process knows none of them."""
        for uri, (text, version) in self._open.items():
            document = item(uri, text, version)
            yield Notification("textDocument/didOpen", {"textDocument": document})

    def _uri(self, path: str) -> str:
        return uri_of(path, str(self._caller.offer.extra.get("folder", "/")))
