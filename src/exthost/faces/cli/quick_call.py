"""`exthost call` through the running host, without importing what a plain call does not need.

A plain call, such as `exthost call shout text=hello`, has only names, k=v arguments, `--json` and
`--config`, and its result is not marked as an error. The parser of options, the dialects and the
event loop take twenty times as long to import as such a call takes.

Everything else is left to `call`. Without a running host, or with another option, it makes the
whole call. If the host has taken up a request, it continues on the same connection (`BegunCall`),
so that no tool is called twice: it shows events, asks questions and reports errors.

Like the relay of `exthost gateway` (`faces.relay`), this module imports `_socket` and `_json` in
place of `socket` and `json`, which import `enum` and `re`.
"""

import os
import sys
from _json import encode_basestring, encode_basestring_ascii, make_scanner

from exthost.faces.relay.host_link import Unjoinable, connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any

DEFAULT_CONFIG = "exthost.toml"

# A host that is neither stopped nor hung answers `hello` at once. Otherwise `call` tries it again
# with a longer limit, and reports it.
_HELLO_SECONDS = 2.0

_READ_BYTES = 64 * 1024

# The most digits of a number that is sent as it is written.
_MAX_DIGITS = 15

# The fields of an answer that are not printed, in addition to the result (`raw`).
_UNPRINTED_FIELDS = {"dialect", "raw", "result_limit", "warnings"}


class BegunCall:
    """A call that the running host has taken up, for `call` to continue with.

    socket    the connection
    host      the reply to `hello`
    tool      the reply to `find`; None if that is the reply that the host still has to send
    received  the bytes that were read and that are not handled yet
    """

    __slots__ = ("host", "received", "socket", "tool")

    def __init__(
        self, connected: "socket", host: "dict[str, Any]", tool: "Any", received: bytes
    ) -> None:
        self.socket = connected
        self.host = host
        self.tool = tool
        self.received = received


class _NotPlain(Exception):
    """Only `call` can handle these arguments, or this line of the host."""


class _ScannerOptions:
    """What `make_scanner` reads from its argument, as for `json.loads`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name: str) -> float:
        raise _NotPlain(name)


def start_call(arguments: "list[str]") -> "int | BegunCall | None":
    """Make the call, print its result, and return the exit code. Return a BegunCall if `call` must
    continue, and None if it must make the call: nothing was printed then."""
    try:
        config, wants_json, names, pairs = _read_arguments(arguments)
        connected, _ = connect(config)
    except (_NotPlain, Unjoinable, OSError):  # OSError: the working folder was deleted
        return None
    if connected is None:  # no host of this config is running
        return None
    try:
        connected.settimeout(_HELLO_SECONDS)
        connected.sendall(b'{"verb":"hello","name":""}\n')
        line, received = _read_line(connected, b"")
        host = _read_value(line)
        is_usable = host["ending"] is False and type(host["pid"]) is int
    except (OSError, _NotPlain, KeyError, TypeError):
        is_usable = False
    if not is_usable:
        connected.close()
        return None
    connected.settimeout(None)
    _say(f"through the running host, pid {host['pid']}\n")
    return _find_and_call(connected, host, received, names, pairs, wants_json)


def _find_and_call(
    connected: "socket",
    host: "dict[str, Any]",
    received: bytes,
    names: "list[str]",
    pairs: str,
    wants_json: bool,
) -> "int | BegunCall":
    """Send the requests `find` and `call`, and print the result. `received` was read already, and
    `pairs` are the arguments of the tool as members of a JSON object."""
    target = names[0] if len(names) == 2 else ""
    tool: dict[str, Any] | None = None
    # The last line of the host as long as it is not handled. If something unusual happens, `call`
    # gets this line again, and handles it.
    line = b""
    try:
        search = f'{{"tool":{_quote(names[-1])},"capability":null}}'
        request = f'{{"verb":"find","name":{_quote(target)},"params":{search}}}\n'
        connected.sendall(request.encode())
        line, received = _read_line(connected, received)
        found_tool = _read_value(line)
        extension, tool_name = _quote(found_tool["extension"]), _quote(found_tool["tool"])
        tool = found_tool  # only now is the reply handled
        confirm = '"confirm":true,' if sys.stderr.isatty() else ""
        params = (
            f'{{"tool":{tool_name},"context":{{}},"hooks":true,{confirm}"arguments":{{{pairs}}},'
            '"timeout":null,"progress":true,"log":true}'
        )
        line = b""
        request = f'{{"verb":"call","name":{extension},"params":{params}}}\n'
        connected.sendall(request.encode())
        line, received = _read_line(connected, received)
        answer = _read_value(line)
        if not answer.keys() <= _UNPRINTED_FIELDS:
            raise _NotPlain
        text = _format(answer["raw"], "" if wants_json else "\n")
    except (OSError, _NotPlain, KeyError, TypeError, AttributeError, RecursionError):
        return BegunCall(connected, host, tool, line + received)
    connected.close()
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.flush()
    return 0


def _read_arguments(arguments: "list[str]") -> "tuple[str, bool, list[str], str]":
    """Return the path of the config, whether there is --json, the words that are names, and the
    arguments of the tool as the members of a JSON object."""
    config, wants_json = "", False
    names: list[str] = []
    members: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument == "--json":
            wants_json = True
        elif argument == "--config":
            config = next(rest, "") or _refuse()
        elif argument.startswith("--config="):
            config = argument.partition("=")[2] or _refuse()
        elif argument.startswith(("-", "{")):  # an option, or JSON that `call` refuses
            _refuse()
        elif "=" in argument:
            key, _, value = argument.partition("=")
            members[_quote(key)] = _json_text(value)
        else:
            names.append(argument)
    if len(names) not in (1, 2):
        _refuse()
    pairs = ",".join(f"{key}:{value}" for key, value in members.items())
    return config or DEFAULT_CONFIG, wants_json, names, pairs


def _refuse() -> str:
    """Raise _NotPlain. A function, so that it can be used in an expression."""
    raise _NotPlain


def _json_text(value: str) -> str:
    """Return the value of an argument as JSON: the text itself if it is JSON, else as a string. A
    text that only a parser can tell apart is not plain."""
    if value in ("true", "false", "null"):
        return value
    digits = value.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS
    if is_number and (digits[0] != "0" or value == "0"):
        return value
    if value[:1] in tuple('{["-0123456789NI') or value != value.strip():
        raise _NotPlain
    return _quote(value)


def _quote(text: str) -> str:
    """Return a text as a JSON string."""
    if type(text) is not str or not text.isprintable():  # a lone surrogate is not printable either
        raise _NotPlain
    quoted: str = encode_basestring_ascii(text)
    return quoted


def _read_line(connected: "socket", received: bytes) -> "tuple[bytes, bytes]":
    """Return the next line, and what was read beyond it."""
    parts = [received]
    while b"\n" not in parts[-1]:
        data = connected.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError
        parts.append(data)
    end = parts[-1].index(b"\n") + 1
    rest = parts[-1][end:]
    parts[-1] = parts[-1][:end]
    return b"".join(parts), rest


def _read_value(line: bytes) -> "Any":
    """Return the value in a reply. An event and an error are not plain."""
    if not line.startswith(b'{"ok":'):
        raise _NotPlain
    try:
        reply, _ = _scan(line.decode(), 0)
    except (ValueError, StopIteration):
        raise _NotPlain from None
    return reply["ok"]


_scan = make_scanner(_ScannerOptions)  # type: ignore[arg-type]


def _format(value: "Any", newline: str) -> str:
    """Return a value as `json.dumps` does with `ensure_ascii=False`, and with `indent=2` if
    `newline` is not "": it is the line break and the indentation. Text that could control a
    terminal is not plain."""
    if value is None or value is True or value is False:
        return "null" if value is None else "true" if value else "false"
    kind = type(value)
    if kind is str:
        text: str = encode_basestring(value)
        if not text.isprintable():
            raise _NotPlain
        return text
    if kind is int:
        return int.__repr__(value)
    if kind is float and value - value == 0:  # neither infinite nor "not a number"
        return float.__repr__(value)
    inner = newline and newline + "  "  # "" stays ""
    if kind is list:
        items = [_format(item, inner) for item in value]
        opening, closing = "[", "]"
    elif kind is dict:
        items = [f"{_format(key, inner)}: {_format(item, inner)}" for key, item in value.items()]
        opening, closing = "{", "}"
    else:
        raise _NotPlain
    if not items:
        return opening + closing
    separator = f",{inner}" if newline else ", "
    return f"{opening}{inner}{separator.join(items)}{newline}{closing}"


def _say(text: str) -> None:
    try:
        sys.stderr.write(text)
    except OSError:
        # `call` continues without messages. Flushing them at exit must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
