"""The features of a language server, as tools. Each is offered if the server announces it.

A tool opens the document if `text` is given, asks, and closes it again. It keeps nothing, so a new
process needs no notification. Without `text` the document is one that `ext.documents` has open,
or a file that the server reads itself.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from exthost.dialects.calls import ToolCall
from exthost.dialects.steps import Exchanges, GetOffer, WaitFor, result_of
from exthost.errors import ExthostError, UsageError
from exthost.model.messages import Notification, Request
from exthost.model.offer import Offer, Tool
from exthost_language_server.positions import item, markup_text, uri_of

_PLACE = {
    "path": {"type": "string", "description": "a file, or a URI"},
    "text": {"type": "string", "description": "the text of the document, if it is not open"},
    "line": {"type": "integer", "minimum": 0, "description": "from 0"},
    "character": {"type": "integer", "minimum": 0, "description": "from 0"},
}


def _schema(*names: str, required: tuple[str, ...]) -> dict[str, Any]:
    properties = {name: _PLACE[name] for name in names}
    return {"type": "object", "properties": properties, "required": list(required)}


_AT_PLACE = _schema("path", "text", "line", "character", required=("path", "line", "character"))
_OF_FILE = _schema("path", "text", required=("path",))
_OF_TEXT = _schema("path", "text", required=("path", "text"))


class _Kind(NamedTuple):
    """A tool: the capability that it needs, its schema, its request, and how its result is read."""

    capability: str
    description: str
    schema: dict[str, Any]
    method: str
    result: Callable[[Any], Any]


def _hover(result: Any) -> Any:
    return markup_text(result.get("contents")) if isinstance(result, dict) else ""


def _completion(result: Any) -> Any:
    items = result.get("items") if isinstance(result, dict) else result
    return [one.get("label") for one in items or [] if isinstance(one, dict)]


def _unchanged(result: Any) -> Any:
    return result


KINDS = {
    "hover": _Kind(
        "hoverProvider", "Describe the symbol at a place.", _AT_PLACE, "textDocument/hover", _hover
    ),
    "completion": _Kind(
        "completionProvider",
        "List completions at a place.",
        _AT_PLACE,
        "textDocument/completion",
        _completion,
    ),
    "definition": _Kind(
        "definitionProvider",
        "Find the definition of the symbol at a place.",
        _AT_PLACE,
        "textDocument/definition",
        _unchanged,
    ),
    "symbols": _Kind(
        "documentSymbolProvider",
        "List the symbols of a file.",
        _OF_FILE,
        "textDocument/documentSymbol",
        _unchanged,
    ),
}

# Every server publishes what is wrong with a document when it is opened, after a while.
_DIAGNOSTICS = Tool("diagnostics", "List the mistakes in a text.", _OF_TEXT)


def offered(capabilities: dict[str, Any]) -> tuple[Tool, ...]:
    """Return the tools of a server with these capabilities."""
    tools = [
        Tool(name, kind.description, kind.schema)
        for name, kind in KINDS.items()
        if capabilities.get(kind.capability) not in (None, False)
    ]
    return (*tools, _DIAGNOSTICS)


def call_tool(call: ToolCall) -> Exchanges:
    """Run one tool."""
    offer = yield GetOffer()
    assert isinstance(offer, Offer)
    arguments = call.arguments
    uri = uri_of(arguments["path"], str(offer.extra.get("folder", "/")))
    text = arguments.get("text")
    if text is None:
        return (yield from _request(call.name, uri, arguments))
    yield Notification("textDocument/didOpen", {"textDocument": item(uri, text)})
    close = Notification("textDocument/didClose", {"textDocument": {"uri": uri}})
    try:
        if call.name == _DIAGNOSTICS.name:
            result = yield from _diagnostics(uri)
        else:
            result = yield from _request(call.name, uri, arguments)
    except ExthostError:  # not `finally`: a call that was cancelled can send nothing more
        yield close
        raise
    yield close
    return result


def _request(name: str, uri: str, arguments: dict[str, Any]) -> Exchanges:
    kind = KINDS.get(name)
    if kind is None:  # only `diagnostics`, whose schema requires the text, is not a request
        raise UsageError("LS001", f"{name} needs the text of the document", help="pass text=…")
    params: dict[str, Any] = {"textDocument": {"uri": uri}}
    if "line" in arguments:
        params["position"] = {name: arguments[name] for name in ("line", "character")}
    return kind.result(result_of((yield Request(kind.method, params)), name))


def _diagnostics(uri: str) -> Exchanges:
    received = yield WaitFor(
        "textDocument/publishDiagnostics", lambda params: params.get("uri") == uri
    )
    assert isinstance(received, Notification)
    return received.params.get("diagnostics", [])
