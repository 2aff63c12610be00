"""One connection between a host and an agent, the program that runs the host's processes on another
machine: a socket, and the multiplexer that carries many streams on it.

Both ends use it, each with its own event loop. A `Link` does not wait: `read` returns what has
arrived, and what the socket does not accept now is kept until `flush`. Several threads may send;
only the thread of the event loop receives.
"""

import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from exthost.cluster.multiplexer import FrameEvent, Multiplexer

if TYPE_CHECKING:  # an agent without TLS starts faster if it does not import the module
    from exthost.cluster.tls import TlsSession

# While more than this waits to be sent, `send` accepts no further output of processes.
MAX_UNSENT_BYTES = 512 * 1024

# How often each end sends a heartbeat. It covers all streams of the connection.
HEARTBEAT_SECONDS = 1.0

# The size of a read. After a read that was full, the next one is larger.
_READ_BYTES = 64 * 1024
_LARGE_READ_BYTES = 1024 * 1024

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


class NodeConnection(NamedTuple):
    """A connected socket in non-blocking mode. `tls` encrypts what is sent and decrypts what is
    received; without it the connection is plain."""

    socket: socket.socket
    tls: "TlsSession | None" = None

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


class Link:
    """Sends and receives the frames of a connection.

    `watch_writable` is called with True when data begins to wait for the socket, and with False
    when all of it was sent; the call may come from any thread. `unsent_bytes` is the size of the
    data that waits.
    """

    __slots__ = (
        "_is_watching",
        "_read_bytes",
        "_socket",
        "_tls",
        "_unsent",
        "_watch_writable",
        "is_closed",
        "lock",
        "multiplexer",
        "unsent_bytes",
    )

    def __init__(self, connection: NodeConnection, watch_writable: Callable[[bool], None]) -> None:
        self._socket, self._tls = connection
        self._watch_writable = watch_writable
        self._read_bytes = _READ_BYTES
        self._unsent: deque[bytes | memoryview] = deque()
        self.unsent_bytes = 0
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
        return self.unsent_bytes < MAX_UNSENT_BYTES

    # -- receiving ---------------------------------------------------------------------------

    def read(self) -> bytes:
        """Read once, for `receive_one` of the multiplexer or for `decode`. Raises BlockingIOError
        if nothing has arrived, and ConnectionError or another OSError at the end of the
        connection."""
        data = self._socket.recv(self._read_bytes)
        if not data:
            raise ConnectionError("the connection was closed")
        self._read_bytes = _LARGE_READ_BYTES if len(data) >= _READ_BYTES else _READ_BYTES
        if self._tls is not None:
            with self.lock:  # OpenSSL cannot encrypt and decrypt at the same time
                data = self._tls.decrypt(data)
        return data

    def decode(self, data: bytes) -> list[FrameEvent]:
        """Return the events in these bytes. Raises ProtocolError."""
        with self.lock:
            return self.multiplexer.receive(data)

    # -- sending -----------------------------------------------------------------------------

    def send(self, stream: int, data: bytes | memoryview) -> int:
        """Send as much as the credit of the stream and the socket allow. Return the number of
        bytes."""
        with self.lock:
            if not self._unsent:
                frame = self.multiplexer.pack(stream, data)
                if frame:
                    try:
                        if self._tls is not None:
                            frame = self._tls.encrypt((frame,))
                        sent = self._socket.send(frame)
                    except BlockingIOError:
                        sent = 0
                    except OSError:
                        return len(data)  # `read` reports the end of the connection
                    if sent < len(frame):
                        self._keep([memoryview(frame)[sent:]])
                    return len(data)
            elif not self.has_room:
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
        """Send the data that waits. Call this when the socket is writable."""
        with self.lock:
            self._send_unsent()

    def _send_output(self) -> None:
        """Send the output of the multiplexer. The caller holds the lock."""
        size = self.multiplexer.output_bytes
        self._send_buffers(self.multiplexer.take_output(), size)

    def _send_buffers(self, buffers: list[bytes | memoryview], size: int) -> None:
        """Send buffers of this size together. What the socket does not accept is kept."""
        if self.is_closed:
            return
        if self._tls is not None:
            try:
                encrypted = self._tls.encrypt(buffers)
            except OSError:
                return  # the peer has ended the session with an alert, which `read` reports
            buffers, size = [encrypted], len(encrypted)
        if not self._unsent:
            try:
                if len(buffers) == 1:
                    sent = self._socket.send(buffers[0])
                else:
                    sent = self._socket.sendmsg(buffers[:_MAX_BUFFERS])
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # `read` reports the end of the connection
            if sent == size:
                return
            while sent >= len(buffers[0]):
                sent -= len(buffers.pop(0))
            buffers[0] = memoryview(buffers[0])[sent:]
        self._keep(buffers)

    def _keep(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Keep buffers until the socket is writable. A view may show memory that its owner changes
        or frees, so it is copied."""
        for buffer in buffers:
            self._unsent.append(bytes(buffer))
            self.unsent_bytes += len(buffer)
        self._watch(True)

    def _send_unsent(self) -> None:
        """Send the kept buffers until the socket accepts no more. The caller holds the lock."""
        while self._unsent and not self.is_closed:
            try:
                sent = self._socket.sendmsg(tuple(islice(self._unsent, _MAX_BUFFERS)))
            except BlockingIOError:
                return
            except OSError:
                self._unsent.clear()
                self.unsent_bytes = 0
                break
            self.unsent_bytes -= sent
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
        """Close the connection. Data that waits to be sent is dropped."""
        with self.lock:
            if not self.is_closed:
                self.is_closed = True
                self._unsent.clear()
                self.unsent_bytes = 0
                self._socket.close()
