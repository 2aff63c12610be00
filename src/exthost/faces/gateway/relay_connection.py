"""The host's end of the socket of a relay, which stands for one client (see `faces.relay`).

A relay is `exthost gateway` on stdio: an MCP client has started it, and it passes the lines of the
client on to the host that runs.

It does not import the `mcp` package, so that a client is accepted before the package is imported.
If a client does not read its output, its lines are not read, either; so it fills neither the memory
of the host nor the time of other clients.

A line from the relay begins with its number and a tab. After the number, `!` marks the beginning of
a line that is too long. A line to the relay begins with its kind, and a tab if a message follows:
`r` and a number (the reply to that line), `n` and a number (that line gets no reply), `s` (a
request of a server), `m` (another message), or `e` and a number (the last line that was read).
"""

import asyncio
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from exthost.faces.gateway.client_stream import ClientLine
from exthost.faces.gateway.first_replies import FirstReplies
from exthost.host.control.line_connection import LineConnection
from exthost.wire.framing import Broken, Item, Skipped

# The limit for the lines of a client, with room for the number before it.
MAX_LINE_BYTES = 64 * 2**20 + 64

# Reading pauses while this many lines wait for the package (back-pressure).
MAX_UNHANDLED_LINES = 64

# Reading pauses while the client leaves more than this unread.
MAX_UNREAD_BYTES = 8 * 2**20

# The pause between two checks of `watch_client`.
CHECK_SECONDS = 1.0


class RelayConnection(LineConnection):
    """The connection to one relay. Implements `ClientStream`.

    pid          the process of the relay
    plain_names  see `ClientStream`
    """

    def __init__(self, connected: socket.socket, pid: int, *, plain_names: bool) -> None:
        super().__init__(connected, MAX_LINE_BYTES)
        self.pid = pid
        self.plain_names: bool | None = plain_names
        self.client_info: dict[str, Any] = {}
        self.is_broken = False
        self._handle_line: Callable[[bytes, int], bool] | None = None
        self._on_broken: Callable[[], object] = lambda: None
        self._first_replies: FirstReplies | None = None
        self._unhandled: deque[ClientLine] = deque()
        self._change = asyncio.Event()
        self._last_number = 0  # of the last line that was read
        self._is_finishing = False
        self._unread_bytes = 0  # how much the client has left unread
        # None if no output waits to be written.
        self._drained: asyncio.Future[None] | None = None
        self._check_timer: asyncio.TimerHandle | None = None
        self._lost = asyncio.Event()

    # -- reading -----------------------------------------------------------------------------

    def accept(self, head: bytes) -> None:
        """Send the relay the line `head`, which reports that it has joined, and begin to read."""
        LineConnection.write(self, head)  # not `self.write`, which adds the kind of a message
        self.resume_reading()

    def open(
        self, handle_line: Callable[[bytes, int], bool], on_broken: Callable[[], object]
    ) -> None:
        self._on_broken = on_broken
        self._handle_line = handle_line
        if self.is_broken:
            self.loop.call_soon(on_broken)

    def use_first_replies(self, first_replies: FirstReplies) -> None:
        """Answer the first lines by stored replies, and store the replies to them."""
        self._first_replies = first_replies
        for number, text in self._unhandled:
            if isinstance(text, bytes):
                self._answer_first(first_replies, number, text)

    def _answer_first(self, first_replies: FirstReplies, number: int, text: bytes) -> None:
        """Answer a line from the stored replies, if they have a reply to it."""
        reply = first_replies.receive(number, text)
        if reply is not None:
            self._write(b"r%d\t%b" % (number, reply))
        self.client_info = self.client_info or first_replies.client_info

    def lines_received(self, items: list[Item]) -> None:
        """Handle lines of the relay (see the docstring of this module), or queue them for
        `next`."""
        for item in items:
            if isinstance(item, Skipped | Broken):  # a relay sends no such line
                self.abort()
                return
            head, _, text = bytes(item).partition(b"\t")
            is_cut = head.endswith(b"!")
            try:
                number = int(head[:-1] if is_cut else head)
            except ValueError:
                self.abort()
                return
            if self._is_finishing:
                continue  # this line is after the last one that was reported to the relay
            self._last_number = number
            if self._first_replies is not None and not is_cut:
                self._answer_first(self._first_replies, number, text)
            handle_line = self._handle_line
            if is_cut:
                self._unhandled.append(ClientLine(number, Skipped("too long", text, len(text))))
            elif handle_line is None or not handle_line(text, number):
                self._unhandled.append(ClientLine(number, text))
        self._pause_if_full()
        if self._unhandled:
            self._change.set()

    def _pause_if_full(self) -> None:
        if len(self._unhandled) >= MAX_UNHANDLED_LINES or self._unread_bytes > MAX_UNREAD_BYTES:
            self.pause_reading()

    async def next(self) -> ClientLine | None:
        while not self._unhandled:
            if self._has_ended or self.is_broken or self._is_finishing:
                return None
            self._change.clear()
            if self._unread_bytes <= MAX_UNREAD_BYTES:
                self.resume_reading()
            await self._change.wait()
        return self._unhandled.popleft()

    def pause(self) -> None:
        self.pause_reading()

    def end_received(self) -> None:
        self._change.set()

    def finish(self) -> None:
        """Read no more lines, because the host ends, and report the last one to the relay."""
        if not self._is_finishing:
            self._is_finishing = True
            self.pause_reading()
            self._write(b"e%d\n" % self._last_number)
            self._change.set()

    # -- writing -----------------------------------------------------------------------------

    def write(self, line: bytes) -> None:
        self._write(b"m\t" + line)

    def write_reply(self, number: int, line: bytes) -> None:
        first_replies = self._first_replies
        if first_replies is None:
            self._write(b"r%d\t%b" % (number, line))
            return
        if remaining := first_replies.settle(number, line):
            self._write(remaining)
        if first_replies.is_over:
            self._first_replies = None

    def write_request(self, line: bytes) -> None:
        self._write(b"s\t" + line)

    def end_line(self, number: int) -> None:
        self._write(b"n%d\n" % number)

    def _write(self, line: bytes) -> None:
        if self._drained is not None:  # the client is not reading
            self._unread_bytes += len(line)
            self._pause_if_full()
        LineConnection.write(self, line)

    def pause_writing(self) -> None:
        self._drained = self.loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        self._unread_bytes = 0
        if drained is not None and not drained.done():
            drained.set_result(None)
        if len(self._unhandled) < MAX_UNHANDLED_LINES and not self._is_finishing:
            self.resume_reading()

    async def wait_for_room(self) -> None:
        await self.flush()

    async def flush(self) -> None:
        while self._drained is not None:
            await asyncio.shield(self._drained)

    # -- the end -----------------------------------------------------------------------------

    def watch_client(self) -> None:
        if self.is_broken or self._fd < 0:
            return
        watch = select.poll()
        watch.register(self._fd, 0)  # with 0, only errors and hang-ups are reported
        if any(events & (select.POLLERR | select.POLLHUP) for _, events in watch.poll(0)):
            self.abort()
        else:
            self._check_timer = self.loop.call_later(CHECK_SECONDS, self.watch_client)

    def connection_lost(self) -> None:
        self.is_broken = True
        if self._check_timer is not None:
            self._check_timer.cancel()
        self.resume_writing()
        self._change.set()
        self._lost.set()
        self._on_broken()

    async def wait_until_lost(self) -> None:
        """Wait until the connection is closed."""
        await self._lost.wait()
