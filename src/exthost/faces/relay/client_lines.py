"""The lines of a client that matter beyond one host: its handshake, and its requests without reply.

The relay (`exthost gateway` on stdio) passes the lines of one MCP client on to a host. When a host
has ended, the next one must know the client as the last one did. `Handshake` keeps the lines that
this takes: `initialize`, the log level and the subscriptions. A line is read as JSON only if it
contains the name of one of those methods, and the handshake itself only when it is needed, because
importing `json` would take longer than everything else at the start.

A request without a reply is either sent to the next host (it was not read by the last one, or
answering it again does no harm), or gets an error (`make_error`), because a tool may have been
called.
"""

TYPE_CHECKING = False  # type checkers take it for True; importing `typing` would take longer
if TYPE_CHECKING:
    from typing import Any

# Requests that a client may send twice with the same result. `subscriptions/listen` is answered
# only at the end.
REPEATABLE = frozenset(
    {
        "initialize",
        "server/discover",
        "ping",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "resources/subscribe",
        "resources/unsubscribe",
        "prompts/list",
        "logging/setLevel",
        "subscriptions/listen",
    }
)

# A line that `Handshake` needs is shorter than this. Longer lines are not searched.
_MAX_BYTES = 64 * 1024

# The most subscriptions of one client that the next host gets.
_MAX_SUBSCRIPTIONS = 4096

_INTERNAL_ERROR = -32603


class Handshake:
    """The lines that the next host gets before all others."""

    __slots__ = ("_level", "_lines", "_subscriptions")

    def __init__(self) -> None:
        # The first two lines that contain "initialize": `initialize` and
        # `notifications/initialized`.
        self._lines: list[bytes] = []
        self._level: bytes = b""  # the last line that sets the log level
        self._subscriptions: dict[str, bytes] = {}  # by URI

    @property
    def is_complete(self) -> bool:
        """Whether the lines of the handshake itself are known."""
        return len(self._lines) == 2

    def note(self, line: bytes) -> None:
        """Keep the line if the next host needs it."""
        if len(line) > _MAX_BYTES:
            return
        if b"initialize" in line and len(self._lines) < 2:
            self._lines.append(line)
        # Parts of the names of methods, because JSON may escape the slash in a whole name.
        elif b"ubscribe" in line or b"setLevel" in line:
            self._note_method(line)

    def _note_method(self, line: bytes) -> None:
        message = parse(line)
        method, params = message.get("method"), message.get("params")
        if method == "logging/setLevel":
            self._level = line
        elif isinstance(params, dict) and isinstance(params.get("uri"), str):
            if method == "resources/unsubscribe":
                self._subscriptions.pop(params["uri"], None)
            elif method == "resources/subscribe" and len(self._subscriptions) < _MAX_SUBSCRIPTIONS:
                self._subscriptions[params["uri"]] = line

    def lines(self) -> "tuple[bytes, tuple[bytes, ...]]":
        """Return the line of `initialize`, b"" if the client has sent none, and those that follow
        its reply: `notifications/initialized`, the level and the subscriptions."""
        initialize = initialized = b""
        for line in self._lines:
            method = parse(line).get("method")
            if method == "initialize":
                initialize = line
            elif method == "notifications/initialized":
                initialized = line
        rest = (initialized, self._level, *self._subscriptions.values())
        return initialize, tuple(line for line in rest if line) if initialized else ()


def parse(line: bytes) -> "dict[str, Any]":
    """Return the JSON object in the line, and {} if it has none."""
    import json

    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def split_batch(line: bytes) -> "list[bytes]":
    """Return the messages in a line that begins with a bracket: the items of a JSON array, which
    the revision 2025-03-26 allows. An empty array is not a valid batch, and stays as it is."""
    import json

    try:
        return [json.dumps(message).encode() for message in json.loads(line)] or [line]
    except (ValueError, TypeError, RecursionError):
        return [line]


def make_error(message: "dict[str, Any]", reason: str) -> bytes:
    """Return the line of a JSON-RPC error that answers this request, or b"" if the message is not a
    request."""
    import json

    id = message.get("id")
    if "method" not in message or type(id) not in (int, str, float):
        return b""
    # JSON has no text for what 1e999 or NaN is read as.
    if type(id) is float and id - id != 0:
        return b""
    error = {"code": _INTERNAL_ERROR, "message": reason}
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode() + b"\n"
