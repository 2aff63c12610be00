"""The first replies that clients of the gateway got from a host last time, for clients of the next
host.

Importing the `mcp` package takes longer than the start of a host. So a host that was started for a
client answers the handshake and the first list of tools from a file, before the package is
imported. The package then handles the same lines; its replies to them are compared with those that
were sent, and are not sent again. If the list of tools differs, the client is notified.

The file is used only if the host offers the same as when the file was written: the same tools, and
the same capabilities and instructions of its MCP servers, in the same versions of exthost and the
package. It is in the state folder and written by the host alone. A file that is damaged, or that
another user can write, is ignored.

This module does not import the package. The lines that it returns for a relay begin with their kind
and a tab: `r` and a number for the reply to the line of that number, `m` for any other message.
"""

import hashlib
import importlib.util
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from exthost._version import __version__
from exthost.host.control.as_data import as_data
from exthost.host.host import Host
from exthost.host.known_offers import read_own_file, write_own_file
from exthost.wire import jsontext

_log = logging.getLogger("exthost.faces.gateway")

HANDSHAKE_METHODS = ("initialize", "server/discover")
LIST_METHOD = "tools/list"
_METHODS = (*HANDSHAKE_METHODS, LIST_METHOD)

# They need no reply, so they wait until the package is imported.
_SILENT_METHODS = ("notifications/initialized",)

# Clients send few lines before their first list of tools.
_MAX_LINES = 64

# The file has this many replies at most: those to the latest kinds of clients.
_MAX_REPLIES = 32

_LIST_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'


class ReplyStore:
    """The replies of the hosts of one config. `path` is their file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._fingerprint = ""  # of the host that the replies depend on (`compute_fingerprint`)
        self._replies: dict[str, Any] = {}  # results, by the key of their request
        self._has_warned = False

    def read(self) -> None:
        """Read the file."""
        try:
            document = jsontext.decode(read_own_file(str(self._path)))
            fingerprint, replies = document["fingerprint"], document["replies"]
            if not isinstance(fingerprint, str) or not isinstance(replies, dict):
                raise ValueError("it has another form")  # noqa: TRY004 - reported like bad JSON
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("%s is ignored: %s", self._path, error)
            return
        self._fingerprint, self._replies = fingerprint, replies

    @property
    def is_empty(self) -> bool:
        return not self._replies

    def find(self, fingerprint: str, key: str) -> Any:
        """Return the result of a request, or None if it is unknown."""
        return self._replies.get(key) if fingerprint == self._fingerprint else None

    def record(self, fingerprint: str, key: str, result: Any) -> None:
        """Remember the result of a request."""
        if self.find(fingerprint, key) == result:
            return
        if fingerprint != self._fingerprint:
            self._fingerprint, self._replies = fingerprint, {}
        self._replies.pop(key, None)
        self._replies[key] = result
        while len(self._replies) > _MAX_REPLIES:
            del self._replies[next(iter(self._replies))]
        document = {"fingerprint": fingerprint, "replies": self._replies}
        try:
            write_own_file(self._path, jsontext.encode(document))
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("the first replies to clients are not stored: %s", error)


class FirstReplies:
    """The first replies to one client.

    plain_names        see `ClientStream`
    on_package_needed  called when the package should be imported: a request has no stored reply, or
                       the list of tools was answered
    may_answer         whether stored replies are sent; otherwise replies are only stored
    client_info        name and version of the client, as it declared them
    """

    def __init__(
        self,
        store: ReplyStore,
        host: Host,
        plain_names: bool,
        on_package_needed: Callable[[], object],
    ) -> None:
        self._store = store
        self._host = host
        # The text that the key of the next request is made from, besides the request: at first
        # this, and after the handshake the key of the handshake, because a list depends on it.
        self._handshake = f"plain_names={plain_names}"
        self._requests: dict[int, tuple[str, str]] = {}  # method and key, by number of the line
        self._sent: dict[int, Any] = {}  # results, by number of the line
        self._lines = 0
        self._has_listed = False
        self._on_package_needed = on_package_needed
        self.may_answer = False
        self.client_info: dict[str, Any] = {}

    @property
    def is_over(self) -> bool:
        """Whether no further line or reply has to be passed to this object."""
        return not self._requests and (self._has_listed or self._lines >= _MAX_LINES)

    def receive(self, number: int, line: bytes) -> bytes | None:
        """Return the line that answers this line of the client, or None without a stored reply."""
        self._lines += 1
        if self._has_listed or self._lines > _MAX_LINES:
            self._on_package_needed()
            return None
        try:
            message = jsontext.decode(line)
        except jsontext.NotJson:
            message = None
        method = message.get("method") if isinstance(message, dict) else None
        if method in _SILENT_METHODS:
            return None
        result = None
        if method in _METHODS and type(message.get("id")) in (int, str):
            result = self._find(number, method, message.get("params", {}))
        if result is None or self._has_listed:
            self._on_package_needed()
        if result is None:
            # So that replies keep their order, all later ones come from the package, too.
            self.may_answer = False
            return None
        self._sent[number] = result
        return jsontext.encode({"jsonrpc": "2.0", "id": message["id"], "result": result}) + b"\n"

    def _find(self, number: int, method: str, params: Any) -> Any:
        """Return the stored result of a request, or None. Remember the request."""
        if not isinstance(params, dict):
            return None
        key = self._make_key(method, params)
        self._requests[number] = (method, key)
        self._has_listed = method == LIST_METHOD
        return self._store.find(compute_fingerprint(self._host), key) if self.may_answer else None

    def _make_key(self, method: str, params: Mapping[str, Any]) -> str:
        """Return the key of a request: everything that its result depends on, besides the host."""
        known = {name: value for name, value in params.items() if name != "clientInfo"}
        if method == "initialize" and isinstance(params.get("clientInfo"), dict):
            self.client_info = params["clientInfo"]
        meta = params.get("_meta")
        if isinstance(meta, dict):
            known["_meta"] = {k: v for k, v in meta.items() if not k.endswith("clientInfo")}
        text = f"{self._handshake} {method} {jsontext.canonical(known)}"
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if method in HANDSHAKE_METHODS:
            self._handshake = key
        return key

    def settle(self, number: int, line: bytes) -> bytes:
        """Take the package's reply to the line of this number, and store it. Return the line for
        the relay: the reply itself, or b"" if a stored reply was sent. If that was a different list
        of tools, return the notification that the list has changed."""
        request = self._requests.pop(number, None)
        if request is None:
            return b"r%d\t%b" % (number, line)
        method, key = request
        sent = self._sent.pop(number, None)
        reply = jsontext.decode(line)
        result = reply.get("result") if isinstance(reply, dict) else None
        if result is not None:
            self._store.record(compute_fingerprint(self._host), key, result)
        if sent is None:
            return b"r%d\t%b" % (number, line)
        if method == LIST_METHOD and result != sent:
            return b"m\t" + _LIST_CHANGED
        return b""


def compute_fingerprint(host: Host) -> str:
    """Return a digest of everything about a host that the first replies depend on."""
    package = importlib.util.find_spec("mcp")
    parts = [
        __version__,
        _file_state(package.origin if package is not None else None),
        [(name, tool.tool, tool.extension, tool.description) for name, tool in host.tools.items()],
        [
            as_data((tool.input_schema, tool.output_schema, dict(tool.extra)))
            for tool in host.tools.values()
        ],
        [
            (extension.id, extension.internals.serves, as_data(dict(extension.offer.extra)))
            for extension in host.extensions
            if extension.spec.dialect == "mcp"
        ],
    ]
    return hashlib.sha256(jsontext.encode(parts)).hexdigest()


def _file_state(path: str | None) -> list[Any]:
    """Return values that differ after a package was installed again."""
    try:
        status = os.stat(path or "")  # noqa: PTH116
    except OSError:
        return []
    return [path, status.st_ino, status.st_mtime_ns]
