"""One end of the socket on a loop: lines in, lines out.

A subclass handles lines, the end of the other side, and a peer that does not read. There is no
transport of asyncio between the loop and the socket: a line is read in one call of the loop, and
written in the step that makes it. That is half of what a transport costs, and it works alike on
every loop, uvloop among them.
"""

import asyncio
import os
import socket
from collections import deque
from itertools import islice
from os import read, write

from exthost.wire.framing import READ_BYTES, Item
from exthost.wire.lines import Lines

__all__ = ["LineConnection"]

# Linux allows 1024 buffers in one writev.
_MOST_BUFFERS = 512

# How many reads discard what a peer sent: more than a local socket holds.
_MOST_DISCARDS = 16


class LineConnection:
    """One connected socket. Use it on the loop that it was made on."""

    def __init__(self, connected: socket.socket, max_line: int) -> None:
        connected.setblocking(False)
        self.loop = asyncio.get_running_loop()
        self.is_closing = False
        self._socket = connected
        self._fd = connected.fileno()
        self._framing = Lines(max_line)
        self._feed = self._framing.feed
        self._backlog: deque[bytes | memoryview] = deque()  # what the socket has not taken yet
        self._is_reading = False
        self._has_ended = False  # the other side sends nothing more

    # -- what a subclass handles ---------------------------------------------------------------

    def lines_received(self, items: list[Item]) -> None:
        """Handle the lines that one read completed."""
        raise NotImplementedError

    def end_received(self) -> None:
        """Handle the end of input. The other side may still read."""
        self.abort()

    def connection_lost(self) -> None:
        """Handle the end of the connection. Called once, in a step of its own."""

    def pause_writing(self) -> None:
        """Called when the peer does not read."""

    def resume_writing(self) -> None:
        """Called when the peer has read everything."""

    # -- reading -------------------------------------------------------------------------------

    def resume_reading(self) -> None:
        """Start reading, or go on after a pause."""
        if not (self._is_reading or self._has_ended or self.is_closing):
            self._is_reading = True
            self.loop.add_reader(self._fd, self._read_now)

    def pause_reading(self) -> None:
        """Leave what the peer sends in the socket, until the peer has to wait."""
        if self._is_reading:
            self._is_reading = False
            self.loop.remove_reader(self._fd)

    def _read_now(self) -> None:
        try:
            data = read(self._fd, READ_BYTES)
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
        """Write what fits into the socket now, and the rest when there is room."""
        if self.is_closing:
            return
        if self._backlog:
            self._backlog.append(line)
            return
        try:
            done = write(self._fd, line)
        except (BlockingIOError, InterruptedError):
            done = 0
        except OSError:
            self.abort()
            return
        if done != len(line):
            self._backlog.append(memoryview(line)[done:])
            self.loop.add_writer(self._fd, self._write_backlog)
            self.pause_writing()

    def _write_backlog(self) -> None:
        backlog = self._backlog
        try:
            done = os.writev(self._fd, tuple(islice(backlog, _MOST_BUFFERS)))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.abort()
            return
        while done:
            first = backlog.popleft()
            if done < len(first):
                backlog.appendleft(memoryview(first)[done:])
                return
            done -= len(first)
        if backlog:
            return
        self.loop.remove_writer(self._fd)
        if self.is_closing:
            self._let_go()
        else:
            self.resume_writing()

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection as soon as everything is written."""
        if not self.is_closing:
            self.pause_reading()
            self.is_closing = True
            self._discard_input()
            if not self._backlog:
                self._let_go()

    def _discard_input(self) -> None:
        """Read what is left in the socket. If bytes were left unread, the peer would get an error
        in place of our last line."""
        try:
            for _ in range(_MOST_DISCARDS):
                if not read(self._fd, READ_BYTES):
                    return
        except OSError:
            pass

    def abort(self) -> None:
        """Close the connection at once."""
        if self._fd < 0:
            return
        self.pause_reading()
        if self._backlog:
            self._backlog.clear()
            self.loop.remove_writer(self._fd)
        self.is_closing = True
        self._let_go()

    def _let_go(self) -> None:
        self._fd = -1
        self._socket.close()
        self.loop.call_soon(self.connection_lost)
