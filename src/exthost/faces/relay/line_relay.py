"""Moves lines between the pipes of an MCP client and the socket of a host.

A line is one JSON-RPC message, such as a tool call. `exthost gateway` on stdio is this relay: the
client has started it as its MCP server, and the host, another process, does the work.

Only whole lines reach the client, so a host that is killed in the middle of a line does no harm to
the client's stream. Each line of the client has a number, by which the host names the line that it
answers, so lines need not be read as JSON. Memory is bounded: neither end is read while much is
waiting to be written to the other.

A line to the host begins with its number and a tab. After the number, `!` marks the beginning of a
line that is too long. A line of the host begins with its kind, and a tab if a message follows: `r`
and a number (the reply to that line), `n` and a number (that line gets no reply), `s` (a request of
a server), `m` (another message), or `e` and a number (the last line that a host has read which is
ending in order).

When the host has ended, each request without a reply gets an error or goes to the next host (see
`client_lines`); none is answered twice. Then the next host is joined or started. After a host that
ended in order (`exthost down`), that is done when the client sends a line, or when another host
runs.

Modules such as `json` and `typing` are imported only where they are needed, because each import
delays the start of every client.
"""

import os
from select import PIPE_BUF, POLLERR, POLLHUP, POLLIN, POLLOUT, poll

from exthost.faces.relay.client_lines import (
    REPEATABLE,
    Handshake,
    make_error,
    parse,
    split_batch,
)

TYPE_CHECKING = False  # type checkers take it for True
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from exthost.faces.relay.host_link import HostLink

_STDIN, _STDOUT = 0, 1

# A buffer of twice this size would be requested from the system, and given back, for each read.
_READ_BYTES = 64 * 1024

# While more than this waits for one end, the other end is not read.
_HIGH_WATER_BYTES = 2**20

# The same limit as for the lines of extensions.
MAX_LINE_BYTES = 64 * 2**20

# The host gets this much of a line that is too long, to find the id of the request in it.
_HEAD_BYTES = 4096

# How often to look whether another host runs, while there is none and the client is silent.
_LOOK_MS = 1000

# How long a new host may take for the handshake that this process sends in place of the client.
_HANDSHAKE_SECONDS = 60.0

# A host that ends this often, each time so soon after it was joined, is started again only when the
# client sends a line.
_MAX_QUICK_ENDS = 3
_QUICK_SECONDS = 5.0

_BOM = b"\xef\xbb\xbf"

_LIST_CHANGED = b"".join(
    b'{"jsonrpc":"2.0","method":"notifications/%s/list_changed"}\n' % kind
    for kind in (b"tools", b"resources", b"prompts")
)


class NoNextHost(Exception):
    """No host runs, and none could be started. The text gives the reason."""


class _ClientGone(Exception):
    """The client has closed its end of stdout."""


class LineRelay:
    """The relay of one client. `link` is the connection to the host that it has joined. `find_host`
    joins the next host, and starts one if its argument is True. It returns None if no host runs and
    none is to be started, and raises NoNextHost if none could be started."""

    def __init__(self, link: "HostLink", find_host: "Callable[[bool], HostLink | None]") -> None:
        self._find_host = find_host
        self._handshake = Handshake()
        self._host: HostLink | None = None
        self._hosts = 0  # how many hosts were joined so far
        self._quick_ends = 0
        self._poll = poll()
        self._poll_stdout = poll()
        self._poll_stdout.register(_STDOUT, POLLOUT)
        self._masks: dict[int, int] = {}  # the events that `_poll` waits for, by descriptor
        self._to_client = bytearray()
        self._to_host = bytearray()
        self._client_parts: list[bytes] = []  # of a line that is not complete
        self._client_bytes = 0  # in those parts
        self._host_parts: list[bytes] = []  # the same of a line of the host
        self._is_skipping = False  # inside a line that is too long
        self._is_first_line = True
        self._number = 0  # of the last line that was sent
        self._open: dict[int, bytes] = {}  # the lines without a reply, by number
        self._asked: set[Any] = set()  # ids of requests of servers that the client has not answered
        # The number of the last line that the host has read, as a host reports that ends in order;
        # -1 if it has reported nothing.
        self._last_read = -1
        self._is_quiet = False  # whether nothing waits to be written, as between most calls
        self._has_ended = False  # whether stdin has ended
        self._is_shut = False  # whether the end of stdin was passed on to the host
        self._joined_at = 0.0
        self._join(link)

    def run(self) -> None:
        """Relay until the client has closed stdin and its requests are answered, or until it has
        closed its end of stdout."""
        try:
            while self._step():
                pass
            while self._to_client:
                self._flush_client()
                if self._to_client:
                    self._poll_stdout.poll()
        except (_ClientGone, BrokenPipeError):
            pass

    def _step(self) -> bool:
        """Wait for something to do, and do it. Return False at the end."""
        host = self._host
        if self._is_quiet and not (self._to_client or self._to_host or self._has_ended):
            events = self._poll.poll()  # the descriptors are watched as they were before
        else:
            events = self._wait(host)
        for fd, event in events:
            if fd == _STDIN:
                self._read_client()
            elif fd == _STDOUT:
                if event & (POLLERR | POLLHUP):
                    raise _ClientGone
                self._flush_client()
            elif host is not None and self._host is host:  # not one that has just ended
                if event & POLLOUT:
                    self._flush_host()
                if event & ~POLLOUT:
                    self._read_host()
        if host is None and self._host is None:
            if self._has_ended:
                return False
            if not events:  # nothing has happened for _LOOK_MS
                self._look_for_host()
        return not (self._has_ended and self._host is None and not self._to_client)

    def _wait(self, host: "HostLink | None") -> "list[tuple[int, int]]":
        """Choose what to watch, and wait for it."""
        if self._has_ended and not self._to_host and not self._is_shut and host is not None:
            self._is_shut = True
            try:
                host.socket.shutdown(1)  # SHUT_WR: nothing more is sent
            except OSError:
                pass  # the host has ended; reading reports that
        has_room = (
            len(self._to_client) < _HIGH_WATER_BYTES and len(self._to_host) < _HIGH_WATER_BYTES
        )
        self._watch(_STDIN, POLLIN if has_room and not self._has_ended else -1)
        # With 0, `poll` reports only errors: after the end of stdin, that the client has gone.
        self._watch(_STDOUT, POLLOUT if self._to_client else 0 if self._has_ended else -1)
        if host is not None:
            mask = POLLIN if len(self._to_client) < _HIGH_WATER_BYTES else 0
            self._watch(host.socket.fileno(), mask | POLLOUT if self._to_host else mask)
        # If so, only stdin and the host are watched, and `_step` need not choose again.
        self._is_quiet = host is not None and not (
            self._to_client or self._to_host or self._has_ended
        )
        return self._poll.poll(None if host is not None else _LOOK_MS)

    def _watch(self, fd: int, mask: int) -> None:
        """Watch a descriptor for these events; -1 stops watching."""
        if self._masks.get(fd, -1) == mask:
            return
        if mask < 0:
            self._poll.unregister(fd)
            del self._masks[fd]
        else:
            self._poll.register(fd, mask)
            self._masks[fd] = mask

    # -- the client --------------------------------------------------------------------------

    def _read_client(self) -> None:
        """Read from stdin, and handle the lines that are complete."""
        try:
            data = os.read(_STDIN, _READ_BYTES)
        except OSError:  # a terminal that was closed
            data = b""
        if not data:
            self._has_ended = True
            return
        if self._is_plain_call(data):
            self._send_now(data)
            return
        if b"\n" not in data:
            self._keep_part(data)
            return
        if self._client_parts:
            first, _, data = data.partition(b"\n")
            self._keep_part(first)
            line, self._client_parts, self._client_bytes = b"".join(self._client_parts), [], 0
            self._take_line(line)
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._take_line(line)
        if rest:
            self._keep_part(rest)
        self._flush_host()

    def _is_plain_call(self, data: bytes) -> bool:
        """Return whether this is one whole line with a call that need only be sent, as nearly all
        lines are. A line that may contain a subscription must also be noted by `Handshake`."""
        return (
            data[:1] == b"{"
            and b'"tools/call"' in data
            and data.find(b"\n") == len(data) - 1
            and self._handshake.is_complete
            and b"ubscribe" not in data
            and not (self._client_parts or self._to_host or self._is_skipping)
            and self._host is not None
        )

    def _send_now(self, data: bytes) -> None:
        """Send one line to the host at once. No earlier line must be waiting to be sent."""
        assert self._host is not None
        self._number = number = self._number + 1
        self._open[number] = data
        sent = b"%d\t%b" % (number, data)
        try:
            count = self._host.socket.send(sent)
        except OSError:  # it is full, or it has ended; reading reports that
            count = 0
        if count != len(sent):
            self._to_host += sent[count:]

    def _keep_part(self, data: bytes) -> None:
        """Keep a part of a line. Of a line that is too long, only the beginning is kept."""
        self._client_bytes += len(data)
        if self._is_skipping:
            return
        self._client_parts.append(data)
        if self._client_bytes > MAX_LINE_BYTES:
            self._client_parts = [b"".join(self._client_parts)[:_HEAD_BYTES]]
            self._is_skipping = True

    def _take_line(self, line: bytes) -> None:
        """Handle a line of the client, or the beginning of one that is too long."""
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if self._is_skipping:
            self._is_skipping = False
            self._send(line, b"!")
            return
        if not line or line.isspace():
            return
        if line.lstrip()[:1] == b"[":
            for message in split_batch(line):
                self._take_message(message)
        else:
            self._take_message(line)

    def _take_message(self, line: bytes) -> None:
        """Handle one message of the client."""
        if self._is_answer(line):
            if self._asked:
                self._asked.discard(_hashable(parse(line).get("id")))
            if self._host is None:
                return  # to a request of a host that has ended
            answer = self._restore_id(line) if self._hosts > 1 else line
            if answer is not None:
                self._send(answer)
            return
        self._handshake.note(line)
        self._send(line)

    def _is_answer(self, line: bytes) -> bool:
        """Return whether this is the answer to a request of a server: a message without a method.
        An answer may have a field of this name, such as in a form."""
        if b'"method"' not in line:
            return True
        message = parse(line) if self._asked else {}
        return bool(message) and "method" not in message

    def _send(self, line: bytes, mark: bytes = b"") -> None:
        """Send a line to the host, which is started if none runs."""
        if self._host is None:
            try:
                self._join(self._find_host(True), without=line)
            except NoNextHost as reason:
                self._answer_error(line, str(reason))
                return
        self._number = number = self._number + 1
        self._open[number] = line if not mark else b""
        self._to_host += b"%d%b\t%b\n" % (number, mark, line)

    def _answer_error(self, line: bytes, reason: str) -> None:
        self._to_client += make_error(parse(line), reason)

    def _flush_client(self) -> None:
        unwritten = self._to_client
        # A pipe that `poll` reports as writable takes PIPE_BUF bytes without blocking.
        while unwritten and self._poll_stdout.poll(0):
            with memoryview(unwritten) as view, view[:PIPE_BUF] as chunk:
                count = os.write(_STDOUT, chunk)
            del unwritten[:count]

    # -- the host ----------------------------------------------------------------------------

    def _flush_host(self) -> None:
        if self._host is None or not self._to_host:
            return
        try:
            count = self._host.socket.send(self._to_host)
        except BlockingIOError:
            return
        except OSError:
            return  # the host has ended; reading reports that, after its last lines
        del self._to_host[:count]

    def _read_host(self) -> None:
        """Read from the socket, and handle the lines that are complete, or the end of the host."""
        assert self._host is not None
        try:
            data = self._host.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._on_host_gone()
            return
        # One whole line with a reply, as most reads give, needs no splitting.
        if data[:1] == b"r" and not self._host_parts and data.find(b"\n") == len(data) - 1:
            head, _, message = data.partition(b"\t")
            if self._open.pop(int(head[1:]), None) is not None:
                self._to_client += message
            if self._to_client:
                self._flush_client()
            return
        for line in self._complete_lines(data):
            self._take_host_line(line)
        if self._to_client:
            self._flush_client()

    def _complete_lines(self, data: bytes) -> "list[bytes]":
        """Return the lines of the host that are complete with this data."""
        if b"\n" not in data:
            self._host_parts.append(data)
            return []
        if self._host_parts:
            data = b"".join((*self._host_parts, data))
        *lines, rest = data.split(b"\n")
        self._host_parts = [rest] if rest else []
        return lines

    def _take_host_line(self, line: bytes) -> None:
        """Handle a line of the host by its kind (see the docstring of this module)."""
        head, _, message = line.partition(b"\t")
        kind = head[:1]
        if kind == b"r":
            if self._open.pop(int(head[1:]), None) is not None:
                self._to_client += message
                self._to_client += b"\n"
        elif kind == b"n":
            self._open.pop(int(head[1:]), None)
        elif kind == b"s":
            self._to_client += self._note_request(message) + b"\n"
        elif kind == b"e":
            self._last_read = int(head[1:])
        else:
            if b'"notifications/cancelled"' in message:
                message = self._note_cancellation(message)
            self._to_client += message
            self._to_client += b"\n"

    def _join(self, link: "HostLink | None", without: bytes = b"") -> None:
        """Go on with this host. Each host but the first gets the handshake of the client first,
        except the line `without`, which the caller sends afterwards."""
        assert link is not None
        from time import monotonic

        self._host = link
        self._is_quiet = False
        self._hosts += 1
        self._joined_at = monotonic()
        self._is_shut = False
        self._last_read = -1
        self._host_parts = []
        if self._hosts > 1:
            self._repeat_handshake(link, without)
        link.socket.setblocking(False)

    def _repeat_handshake(self, link: "HostLink", without: bytes) -> None:
        """Send the handshake of the client to a new host. Notify the client that all lists may have
        changed, if it has completed its handshake."""
        initialize, rest = self._handshake.lines()
        if not initialize or initialize is without:
            return
        link.socket.settimeout(_HANDSHAKE_SECONDS)
        try:
            self._exchange(link, [initialize])
            self._exchange(link, [line for line in rest if line is not without])
        except OSError:
            return  # it has ended, too; reading reports that
        if rest:
            self._to_client += _LIST_CHANGED

    def _exchange(self, link: "HostLink", lines: "list[bytes]") -> None:
        """Send these lines and wait until the host has handled each of them. The replies are not
        passed on. Raises OSError."""
        unhandled = set()
        for line in lines:
            self._number += 1
            unhandled.add(self._number)
            link.socket.sendall(b"%d\t%b\n" % (self._number, line))
        while unhandled:
            data = link.socket.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError
            for line in self._complete_lines(data):
                head = line.partition(b"\t")[0]
                if head[:1] in (b"r", b"n"):
                    unhandled.discard(int(head[1:]))
                else:
                    self._take_host_line(line)

    # -- the end of a host -------------------------------------------------------------------

    def _on_host_gone(self) -> None:
        """Handle the end of the host, and join the next one if it is needed now."""
        from time import monotonic

        host, self._host = self._host, None
        assert host is not None
        self._is_quiet = False
        self._watch(host.socket.fileno(), -1)
        host.socket.close()
        is_orderly = self._last_read >= 0
        lines_for_next_host = self._settle_open_lines()
        for id in self._asked:
            self._to_client += _cancel_notification(id)
        self._asked.clear()
        is_quick = monotonic() - self._joined_at < _QUICK_SECONDS
        self._quick_ends = self._quick_ends + 1 if is_quick else 0
        # Otherwise the next host is joined only when the client sends a line (see `_send`).
        is_host_wanted = not (is_orderly or self._quick_ends >= _MAX_QUICK_ENDS)
        if not lines_for_next_host and (self._has_ended or not is_host_wanted):
            return
        try:
            self._join(self._find_host(True))
        except NoNextHost as reason:
            for line in lines_for_next_host:
                self._answer_error(line, str(reason))
            return
        for line in lines_for_next_host:
            self._send(line)
        self._flush_host()

    def _settle_open_lines(self) -> "list[bytes]":
        """Answer the requests that the host has left without a reply. Return those that the next
        host gets."""
        open_lines, self._open = self._open, {}
        # The host cannot have read the lines that are unsent, and has not read those after the last
        # line that it reported.
        unsent = self._to_host.count(b"\n")
        self._to_host.clear()
        first_unread = self._number - unsent + 1
        if self._last_read >= 0:
            first_unread = min(first_unread, self._last_read + 1)
        lines_for_next_host = []
        for number, line in open_lines.items():
            message = parse(line)
            if "method" not in message:
                continue  # the answer to a request of a server that is gone
            is_unread = number >= first_unread
            if is_unread or message["method"] in REPEATABLE:
                # A notification that the host has read needs no reply, and is not repeated.
                if is_unread or "id" in message:
                    lines_for_next_host.append(line)
            else:
                self._answer_error(
                    line,
                    "the host ended before it answered; the call may have been carried out [X1075]",
                )
        return lines_for_next_host

    def _look_for_host(self) -> None:
        try:
            link = self._find_host(False)
        except NoNextHost:
            return
        if link is not None:
            self._join(link)

    # -- requests of servers -----------------------------------------------------------------

    def _note_request(self, line: bytes) -> bytes:
        """Remember a request of a server. Return it with an id that no earlier host has used: that
        of the third host, for example, becomes "3/ID"."""
        message = parse(line)
        if self._hosts > 1:
            import json

            message["id"] = self._make_id(message.get("id"))
            line = json.dumps(message).encode()
        self._asked.add(_hashable(message.get("id")))
        return line

    def _note_cancellation(self, line: bytes) -> bytes:
        """Forget the request of a server that this message cancels, if it does so. Return the
        message with the id that the client knows."""
        message = parse(line)
        params = message.get("params")
        if message.get("method") != "notifications/cancelled" or not isinstance(params, dict):
            return line
        if self._hosts > 1:
            import json

            params["requestId"] = self._make_id(params.get("requestId"))
            line = json.dumps(message).encode()
        self._asked.discard(_hashable(params.get("requestId")))
        return line

    def _make_id(self, id: "Any") -> str:
        """Return the id for a request of the current host, which is not the first one."""
        import json

        return f"{self._hosts}/{json.dumps(id)}"

    def _restore_id(self, line: bytes) -> "bytes | None":
        """Return the client's answer with the id that the current host has used; None if it answers
        a request of an earlier host."""
        import json

        message = parse(line)
        host, slash, id = str(message.get("id")).partition("/")
        if "id" not in message or not slash:
            return None
        if host != str(self._hosts):
            return None
        try:
            message["id"] = json.loads(id)
        except (ValueError, RecursionError):
            return None
        return json.dumps(message).encode()


def _cancel_notification(id: "Any") -> bytes:
    import json

    params = {"requestId": id, "reason": "the host has ended"}
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    return json.dumps(cancelled).encode() + b"\n"


def _hashable(id: "Any") -> "Any":
    """Return the id, or None for an invalid id, such as a list, which a set cannot contain."""
    return id if isinstance(id, int | str) else None
