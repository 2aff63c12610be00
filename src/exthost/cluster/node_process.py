"""The program that runs on a node. It connects to the host, starts one extension and relays its
pipes.

    python -m exthost.cluster.node_process HOST:PORT

It reads one line from stdin: its nonce and, if the host has a certificate, the SHA-256 of that
certificate. It ends when its stdin or the control connection is closed, or when the host has been
silent for too long, and kills the extension and all processes of the extension before that. It also
ends when the extension has exited. It imports only the standard library, and of exthost only what
is needed to start processes.
"""

import os
import queue
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from exthost.cluster.messages import (
    BEAT,
    BEAT_SECONDS,
    LineDecoder,
    Order,
    VersionMismatch,
    decode_order,
    encode,
    encode_exit,
)
from exthost.cluster.preparation import encode_error, prepare_on_node, version_error
from exthost.cluster.relay import Relay
from exthost.errors import ExthostError
from exthost.process.child import Child

# How long the host may take to send its order, and to read the last output of the extension.
_ORDER_SECONDS = 30.0
_OUTPUT_SECONDS = 1.0

# How long a killed process may take to end. In a namespace the first call of `Child.kill` only asks
# our init to end it; the second call sends SIGKILL.
_KILL_SECONDS = 1.0

_BUFFER_BYTES = 256 * 1024


def main() -> int:
    """Run one extension. Return the exit code."""
    nonce, _, certificate = sys.stdin.readline().strip().partition(" ")
    _reset_inherited()
    host = HostAddress(sys.argv[1], certificate)
    try:
        control = host.connect(nonce)
    except OSError as error:
        print(f"the host cannot be reached at {sys.argv[1]}: {error}", file=sys.stderr)
        return 1
    try:
        _run(host, control)
    except (OSError, ValueError, KeyError, TypeError) as error:
        address = sys.argv[1]
        print(f"it could not be run for the host at {address}: {error!r}", file=sys.stderr)
        return 1
    finally:
        control.close()
        host.close()
    return 0


def _run(host: "HostAddress", control: socket.socket) -> None:
    try:
        order = _read_order(control)
        order = prepare_on_node(order, host.connect)
        streams = [host.connect(nonce) for nonce in order.streams]
        child = Child(order.plan, order.extension)
    except VersionMismatch as version:
        control.sendall(encode({"failed": encode_error(version_error(str(version)))}))
    except ExthostError as error:
        control.sendall(encode({"failed": encode_error(error)}))
    else:
        NodeProcess(child, order, control, streams).run()


class HostAddress:
    """The address of the host, and the SHA-256 of the certificate that it must have, "" if none."""

    def __init__(self, address: str, certificate: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = host.strip("[]"), int(port)
        self._tls = None
        if certificate:
            # Imported only if needed, because it takes as long as all other imports together.
            from exthost.cluster.tls import TlsClient

            self._tls = TlsClient(certificate)

    def connect(self, nonce: str) -> socket.socket:
        """Connect to the gate of the host and present a nonce. Raises OSError."""
        connection = socket.create_connection(self._address, timeout=10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        if self._tls is not None:
            connection = self._tls.wrap(connection)
            connection.setblocking(True)
        connection.sendall(nonce.encode() + b"\n")
        return connection

    def close(self) -> None:
        """Send what was written, and close every connection."""
        if self._tls is not None:
            self._tls.close(_OUTPUT_SECONDS)


def _read_order(control: socket.socket) -> Order:
    control.settimeout(_ORDER_SECONDS)
    lines = LineDecoder()
    while True:
        data = control.recv(65536)
        if not data:
            raise ConnectionError("the connection was closed")
        for message in lines.feed(data):
            return decode_order(message)


def _reset_inherited() -> None:
    """Reset what is inherited from a worker of a cluster: a low priority, and a high OOM score."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except OSError:
        pass  # only root may raise the priority
    try:
        Path("/proc/self/oom_score_adj").write_text("0")
    except OSError:
        pass


class NodeProcess:
    """Relays between one child (the extension's process) and the host, until the child has ended or
    the host is lost."""

    def __init__(
        self, child: Child, order: Order, control: socket.socket, streams: list[socket.socket]
    ) -> None:
        self._child = child
        self._control = control
        self._silence = order.silence
        self._last_message = time.monotonic()
        self._lines = LineDecoder()
        self._is_lost = False
        self._selector = selectors.DefaultSelector()
        stdin, stdout, stderr = (stream.detach() for stream in streams)
        # The relays own the file descriptors from now on.
        pipes = child.stdin, child.stdout, child.stderr
        child.stdin = child.stdout = child.stderr = -1
        self._input = Relay(self._selector, stdin, pipes[0])
        self._outputs = (
            Relay(self._selector, pipes[1], stdout),
            Relay(self._selector, pipes[2], stderr),
        )
        control.setblocking(False)
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._selector.register(control, selectors.EVENT_READ, self._on_control_data)
        self._selector.register(child.exit_fd, selectors.EVENT_READ, lambda: None)
        self._selector.register(0, selectors.EVENT_READ, self._on_stdin)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._on_wake)
        child.start_watchdog(self._call_soon)
        control.send(encode({"started": child.pid}))

    def run(self) -> None:
        """Relay until the child has ended or the host is lost; in that case kill the child."""
        next_beat = time.monotonic() + BEAT_SECONDS
        while not self._is_lost and self._child.see_exit() is None:
            for key, _ in self._selector.select(max(0.0, next_beat - time.monotonic())):
                key.data()
            now = time.monotonic()
            if now >= next_beat:
                next_beat = now + BEAT_SECONDS
                self._send(BEAT)
                self._is_lost = self._is_lost or now - self._last_message > self._silence
        if self._is_lost:
            self._end_child()
        else:
            self._finish_outputs()
        status = self._child.see_exit()
        self._child.reap()
        if status is not None:
            self._control.setblocking(True)
            self._control.settimeout(_OUTPUT_SECONDS)
            self._send(encode_exit(status))
        self._control.close()

    def _finish_outputs(self) -> None:
        """Relay what the child wrote before it ended, and wait a little if the host is slow to
        read."""
        deadline = time.monotonic() + _OUTPUT_SECONDS
        for output in self._outputs:
            while not output.drain() and time.monotonic() < deadline:
                self._selector.select(0.01)
            output.close()
        self._input.close()

    def _end_child(self) -> None:
        self._child.kill()
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.exit_fd, selectors.EVENT_READ)
            if not selector.select(_KILL_SECONDS):
                self._child.kill()
                selector.select(_KILL_SECONDS)

    def _on_control_data(self) -> None:
        try:
            data = self._control.recv(65536)
            messages = self._lines.feed(data)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            data, messages = b"", []
        if not data:
            self._is_lost = True
        self._last_message = time.monotonic()
        for message in messages:
            if "kill" in message:
                self._child.kill()
            elif message.get("signal") == signal.SIGTERM:
                self._child.terminate()

    def _on_stdin(self) -> None:
        """End when stdin is closed: the placer, which has its other end, is gone."""
        if not os.read(0, 4096):
            self._is_lost = True

    def _call_soon(self, function: Callable[[str], None], limit: str) -> None:
        self._calls.put(lambda: function(limit))
        try:
            os.write(self._wake_write, b"w")
        except BlockingIOError:
            pass

    def _on_wake(self) -> None:
        os.read(self._wake_read, 4096)
        while not self._calls.empty():
            self._calls.get()()

    def _send(self, line: bytes) -> None:
        try:
            self._control.send(line)
        except OSError:
            pass  # full or broken: the host notices the silence


if __name__ == "__main__":
    sys.exit(main())
