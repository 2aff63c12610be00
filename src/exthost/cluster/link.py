"""One connection between a host and an agent: a socket, and the multiplexer on it.

Both ends use it, each with its own event loop. A `Link` does not wait: `receive` reads what has
arrived, and what the socket does not accept now is kept until `flush`. Several threads may send;
only the thread of the event loop receives.
"""

import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from exthost.cluster.multiplexer import FrameEvent, Multiplexer

# While more than this waits to be sent, no further output of processes is accepted.
MAX_UNSENT_BYTES = 512 * 1024

# How often each end sends a heartbeat. It covers all streams of the connection.
HEARTBEAT_SECONDS = 1.0

# The size of a read. After a read that was full, the next one is larger.
_READ_BYTES = 64 * 1024
_LARGE_READ_BYTES = 1024 * 1024

# The most that is decrypted at once. A TLS record has 16 KiB, and is decrypted in one step.
_TLS_READ_BYTES = 256 * 1024

# The most buffers of one write. Linux allows 1024.
_MAX_BUFFERS = 256

# How long data may be unacknowledged, and when the kernel begins to probe a silent peer. Both are
# below the heartbeat, which usually notices a loss first.
_USER_TIMEOUT_MS = 20_000
_KEEPALIVE_SECONDS = 10


def tune(connection: socket.socket) -> None:
    """Set the options of a new connection: send small messages at once, and notice a dead peer."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_SECONDS // 2)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)


class Link:
    """A connected socket in non-blocking mode, plain or encrypted. `watch_writable` is called with
    True when something waits to be sent, and with False when nothing does; any thread may call
    it."""

    def __init__(self, connection: socket.socket, watch_writable: Callable[[bool], None]) -> None:
        self._socket = connection
        self._is_encrypted = isinstance(connection, ssl.SSLSocket)
        self._watch_writable = watch_writable
        self._read_bytes = _READ_BYTES
        self._unsent: deque[bytes | memoryview] = deque()
        self._unsent_bytes = 0
        self._is_watching = False
        self.lock = threading.Lock()
        self.multiplexer = Multiplexer()
        self.is_closed = False

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    @property
    def has_room(self) -> bool:
        """Whether output of processes is accepted now."""
        return self._unsent_bytes < MAX_UNSENT_BYTES

    # -- receiving ---------------------------------------------------------------------------

    def receive(self) -> list[FrameEvent]:
        """Read once. Raises BlockingIOError if nothing has arrived, ProtocolError, and
        ConnectionError or another OSError at the end of the connection."""
        if not self._is_encrypted:
            data = self._receive_plain()
            with self.lock:
                return self.multiplexer.receive(data)
        with self.lock:  # OpenSSL does not allow to read and write at the same time
            return self.multiplexer.receive(self._receive_encrypted())

    def _receive_plain(self) -> bytes:
        data = self._socket.recv(self._read_bytes)
        if not data:
            raise ConnectionError("the connection was closed")
        self._read_bytes = _LARGE_READ_BYTES if len(data) >= _READ_BYTES else _READ_BYTES
        return data

    def _receive_encrypted(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while size < _TLS_READ_BYTES:
            try:
                part = self._socket.recv(_READ_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            if not part:
                if parts:
                    break  # the next read reports the end
                raise ConnectionError("the connection was closed")
            parts.append(part)
            size += len(part)
        if not parts:
            raise BlockingIOError
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def has_decrypted(self) -> bool:
        """Whether more was decrypted than `receive` has returned, so that the socket need not be
        readable."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    # -- sending -----------------------------------------------------------------------------

    def send(self, stream: int, data: bytes | memoryview) -> int:
        """Send as much as the credit of the stream and the socket allow. Return the number of
        bytes."""
        with self.lock:
            if self._unsent_bytes >= MAX_UNSENT_BYTES:
                return 0
            count = self.multiplexer.send(stream, data)
            if count:
                self._send_output()
            return count

    def send_message(self, stream: int, message: Mapping[str, Any]) -> None:
        """Send a message."""
        with self.lock:
            self.multiplexer.send_message(stream, message)
            self._send_output()

    def send_beat(self) -> None:
        """Send a heartbeat, unless other bytes wait to be sent."""
        with self.lock:
            if not self._unsent:
                self.multiplexer.send_beat()
                self._send_output()

    def perform(self, action: Callable[..., None], *arguments: Any) -> None:
        """Call a method of the multiplexer, and send its output."""
        with self.lock:
            action(*arguments)
            if self.multiplexer.output:
                self._send_output()

    def flush(self) -> None:
        """Send what waits. To be called when the socket is writable."""
        with self.lock:
            self._send_unsent()

    def _send_output(self) -> None:
        """Send the output of the multiplexer. The lock is held."""
        size = self.multiplexer.output_bytes
        buffers = self.multiplexer.take_output()
        if self.is_closed:
            return
        if not self._unsent:
            if self._is_encrypted and len(buffers) > 1:
                buffers = [b"".join(buffers)]
            try:
                if len(buffers) == 1:
                    sent = self._socket.send(buffers[0])
                else:
                    sent = self._socket.sendmsg(buffers[:_MAX_BUFFERS])
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                sent = 0
            except OSError:
                return  # `receive` reports the end of the connection
            if sent == size:
                return
            size -= sent
            while sent >= len(buffers[0]):
                sent -= len(buffers.pop(0))
            buffers[0] = memoryview(buffers[0])[sent:]
        # A view may show memory that its owner changes or frees: what waits is copied.
        self._unsent.extend(
            bytes(buffer) if isinstance(buffer, memoryview) else buffer for buffer in buffers
        )
        self._unsent_bytes += size
        self._watch(True)

    def _send_unsent(self) -> None:
        while self._unsent and not self.is_closed:
            try:
                if self._is_encrypted:
                    if len(self._unsent) > 1:
                        joined = b"".join(self._unsent)
                        self._unsent.clear()
                        self._unsent.append(joined)
                    sent = self._socket.send(self._unsent[0])
                else:
                    sent = self._socket.sendmsg(tuple(islice(self._unsent, _MAX_BUFFERS)))
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            except OSError:
                self._unsent.clear()
                self._unsent_bytes = 0
                break
            self._unsent_bytes -= sent
            while sent:
                first = self._unsent.popleft()
                if sent < len(first):
                    self._unsent.appendleft(memoryview(first)[sent:])
                    break
                sent -= len(first)
        self._watch(False)

    def _watch(self, is_waiting: bool) -> None:
        if self._is_watching != is_waiting:
            self._is_watching = is_waiting
            self._watch_writable(is_waiting)

    def close(self) -> None:
        """Close the connection. What waits to be sent is dropped."""
        with self.lock:
            if not self.is_closed:
                self.is_closed = True
                self._unsent.clear()
                self._unsent_bytes = 0
                self._socket.close()
