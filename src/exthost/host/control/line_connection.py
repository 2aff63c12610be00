"""One end of the control socket on an event loop: reads and writes lines.

The host (`server_connection`) and the client (`async_client`) have a subclass each. It handles the
lines (`wire.framing.Item`: a line, or a `Skipped` in place of one that is too long), the end of the
input, and back-pressure (the other side does not read).

The socket is read and written directly, without a transport of asyncio: a line is read in one
callback of the event loop, and written by the call that creates it. That takes half the time of a
transport, and works in the same way on every event loop, including uvloop.
"""

import asyncio
import os
import socket
from collections import deque
from functools import partial
from os import read as read_fd
from os import write as write_fd

from exthost.process.after_fork import disown_after_fork, replace_by_null
from exthost.process.stdin_writer import write_backlog
from exthost.wire.framing import READ_BYTES, Item
from exthost.wire.lines import Lines

# The most reads that discard input: together they read more than a Unix socket can contain.
_MAX_DISCARD_READS = 16


class LineConnection:
    """One connected socket. Use it only on the event loop on which it was created.

    `max_line` is the maximum length of a line in bytes.
    """

    def __init__(self, connected: socket.socket, max_line: int) -> None:
        connected.setblocking(False)
        self.loop = asyncio.get_running_loop()
        self.is_closing = False
        self._socket = connected
        self._fd = connected.fileno()
        self._framing = Lines(max_line)
        self._feed = self._framing.feed  # saves an attribute look-up for each read
        self._backlog: deque[bytes | memoryview] = deque()  # output that is not written yet
        self._is_reading = False
        self._has_ended = False  # whether the other side has closed its output
        disown_after_fork(self)

    # -- callbacks, which a subclass overrides ----------------------------------------------

    def lines_received(self, items: list[Item]) -> None:
        """Handle the lines that are complete after one read."""
        raise NotImplementedError

    def end_received(self) -> None:
        """Handle the end of the input. The other side may still read."""
        self.abort()

    def connection_lost(self) -> None:
        """Handle the end of the connection. The event loop calls this once, in a separate
        callback, not from within another method of this class."""

    def pause_writing(self) -> None:
        """Called when output has to wait because the other side does not read."""

    def resume_writing(self) -> None:
        """Called when all waiting output is written."""

    # -- reading -------------------------------------------------------------------------------

    def resume_reading(self) -> None:
        """Start reading, or continue after `pause_reading`."""
        if not (self._is_reading or self._has_ended or self.is_closing):
            self._is_reading = True
            self.loop.add_reader(self._fd, self._read_now)

    def pause_reading(self) -> None:
        """Stop reading, so that the other side has to wait when the buffers of the socket are
        full."""
        if self._is_reading:
            self._is_reading = False
            self.loop.remove_reader(self._fd)

    def _read_now(self) -> None:
        """Handle one read. The event loop calls this when the socket can be read."""
        try:
            data = read_fd(self._fd, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.abort()
            return
        if not data:
            self.pause_reading()
            self._has_ended = True
            self.end_received()
            return
        items = self._feed(data)
        if items:
            self.lines_received(items)

    # -- writing -------------------------------------------------------------------------------

    def write(self, line: bytes) -> None:
        """Write as much as the socket accepts now, and the rest later."""
        if self.is_closing:
            return
        if self._backlog:
            self._backlog.append(line)
            return
        try:
            written = write_fd(self._fd, line)
        except (BlockingIOError, InterruptedError):
            written = 0
        except OSError:
            self.abort()
            return
        if written != len(line):
            self._backlog.append(memoryview(line)[written:])
            self.loop.add_writer(self._fd, self._write_backlog)
            self.pause_writing()

    def _write_backlog(self) -> None:
        try:
            write_backlog(partial(os.writev, self._fd), self._backlog)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.abort()
            return
        if self._backlog:
            return
        self.loop.remove_writer(self._fd)
        if self.is_closing:
            self._close_socket()
        else:
            self.resume_writing()

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection when all waiting output is written."""
        if not self.is_closing:
            self.pause_reading()
            self.is_closing = True
            self._discard_input()
            if not self._backlog:
                self._close_socket()

    def _discard_input(self) -> None:
        """Read and ignore the input that has arrived. If there were unread input when the socket is
        closed, the other side would get a connection reset instead of our last line."""
        try:
            for _ in range(_MAX_DISCARD_READS):
                if not read_fd(self._fd, READ_BYTES):
                    return
        except OSError:
            pass

    def abort(self) -> None:
        """Close the connection at once, and drop waiting output."""
        if self._fd < 0:  # the socket is closed
            return
        self.pause_reading()
        if self._backlog:
            self._backlog.clear()
            self.loop.remove_writer(self._fd)
        self.is_closing = True
        self._close_socket()

    def detach(self) -> socket.socket:
        """Stop using the socket, and return it to a new owner, such as the MCP service of the host.
        `connection_lost` is not called. Nothing may wait to be written."""
        self.pause_reading()
        self.is_closing = True
        self._fd = -1
        return self._socket

    def disown(self) -> None:
        """Called in a forked copy of this process: give up the copy of the socket. Otherwise the
        other side would not see it when the original process closes the connection."""
        self.is_closing = True
        replace_by_null((self._fd,))

    def _close_socket(self) -> None:
        self._fd = -1
        self._socket.close()
        self.loop.call_soon(self.connection_lost)
