"""The program that runs on a node (another machine). It connects to the host, starts an extension
and relays its pipes.

    python -m exthost.cluster.node_process HOST:PORT

It reads one line from stdin: its nonce (the random text by which the host recognises it) and, if
the host has a certificate, the SHA-256 of that certificate. On the control connection it then gets
an order, which says what to start (`messages.py`). It ends when its stdin or the control connection
is closed, or when the host has been silent for too long; before that it kills the extension and all
processes of the extension. When the extension has exited, it waits a few seconds for another order,
so that a restart does not have to wait until another Python has started. It imports only the
standard library, and of exthost only what is needed to start processes.
"""

import os
import queue
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from exthost.cluster.messages import (
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    IDLE_SECONDS,
    LineDecoder,
    VersionMismatch,
    decode_order,
    encode,
    encode_exit,
)
from exthost.cluster.poller import Poller
from exthost.cluster.preparation import encode_error, prepare_on_node, version_error
from exthost.cluster.relay import Relay
from exthost.errors import ExthostError
from exthost.process.child import Child

# How long the host may take to send its first order, and to read the last output of the extension.
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
        NodeProcess(host, control).run()
    except (OSError, ValueError, KeyError, TypeError) as error:
        address = sys.argv[1]
        print(f"it could not be run for the host at {address}: {error!r}", file=sys.stderr)
        return 1
    finally:
        control.close()
        host.close()
    return 0


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
        """Connect to the host and present a nonce. Raises OSError."""
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


def _reset_inherited() -> None:
    """Reset what is inherited from a worker of a cluster: a low priority, and a high OOM score."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except OSError:
        pass  # only root may raise the priority
    try:
        Path("/proc/self/oom_score_adj").write_text("0")
    except OSError:
        pass  # only root may lower the score


class NodeProcess:
    """Runs one process of an extension (the child) after the other, as the host orders, until the
    host is lost or has no further order."""

    def __init__(self, host: HostAddress, control: socket.socket) -> None:
        self._host = host
        self._control = control
        self._last_message = time.monotonic()
        self._lines = LineDecoder()
        self._order: dict[str, Any] | None = None  # received, not begun yet
        self._child: Child | None = None
        self._has_exited = False  # the child
        self._is_lost = False  # the host
        self._poller = Poller()
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        control.setblocking(False)
        self._poller.on_readable(control.fileno(), self._on_control_data)
        self._poller.on_readable(0, self._on_stdin)
        self._poller.on_readable(self._wake_read, self._on_wake)

    def run(self) -> None:
        """Carry out orders until none comes."""
        seconds = _ORDER_SECONDS
        while self._wait_for_order(seconds) and self._carry_out():
            seconds = IDLE_SECONDS

    def _wait_for_order(self, seconds: float) -> bool:
        """Return whether an order has come within these seconds."""
        deadline = time.monotonic() + seconds
        while self._order is None and not self._is_lost and time.monotonic() < deadline:
            self._poller.wait(max(0.0, deadline - time.monotonic()))
        return self._order is not None and not self._is_lost

    def _carry_out(self) -> bool:
        """Run the process that the host has ordered, until it has ended. Return whether the host
        may order another."""
        message, self._order = self._order, None
        assert message is not None
        try:
            order = decode_order(message)
            order = prepare_on_node(order, self._host.connect)
            streams = [self._host.connect(nonce) for nonce in order.streams]
            child = Child(order.plan, order.extension)
        except VersionMismatch as version:
            self._send_last(encode({"failed": encode_error(version_error(str(version)))}))
            return False
        except ExthostError as error:
            self._send_last(encode({"failed": encode_error(error)}))
            return False
        self._child = child
        self._has_exited = False
        self._poller.on_readable(child.exit_fd, self._on_exit)
        relays = self._start_relays(child, streams)
        child.start_watchdog(self._call_soon)
        self._last_message = time.monotonic()
        self._send(encode({"started": child.pid}))
        self._watch(order.silence, relays[0])
        self._poller.forget(child.exit_fd)
        if self._is_lost:
            self._end(child)
        else:
            self._finish_outputs(relays[1:])
        for relay in relays:
            relay.close()
        status = child.see_exit()
        self._child = None
        child.reap()
        if status is not None:
            self._send_last(encode_exit(status))
        return not self._is_lost

    def _start_relays(self, child: Child, streams: Sequence[socket.socket]) -> Sequence[Relay]:
        stdin, stdout, stderr = (stream.detach() for stream in streams)
        # The relays own the file descriptors from now on.
        pipes = child.stdin, child.stdout, child.stderr
        child.stdin = child.stdout = child.stderr = -1
        return (
            Relay(self._poller, stdin, pipes[0]),
            Relay(self._poller, pipes[1], stdout),
            Relay(self._poller, pipes[2], stderr),
        )

    def _watch(self, silence: float, stdin: Relay) -> None:
        """Relay until the child has exited or the host is lost."""
        wait, monotonic = self._poller.wait, time.monotonic
        stdin.delay_acknowledgements()
        now = monotonic()
        next_heartbeat = now + HEARTBEAT_SECONDS
        while not self._is_lost and not self._has_exited:
            wait(next_heartbeat - now)
            now = monotonic()
            if now >= next_heartbeat:
                next_heartbeat = now + HEARTBEAT_SECONDS
                self._send(HEARTBEAT)
                stdin.delay_acknowledgements()
                self._is_lost = self._is_lost or now - self._last_message > silence

    def _finish_outputs(self, outputs: Sequence[Relay]) -> None:
        """Relay what the child wrote before it ended, and wait a little if the host is slow to
        read."""
        deadline = time.monotonic() + _OUTPUT_SECONDS
        for output in outputs:
            while not output.drain() and time.monotonic() < deadline:
                self._poller.wait(0.01)

    @staticmethod
    def _end(child: Child) -> None:
        child.kill()
        exited = select.poll()
        exited.register(child.exit_fd, select.POLLIN)
        if not exited.poll(_KILL_SECONDS * 1000):
            child.kill()
            exited.poll(_KILL_SECONDS * 1000)

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
            if "order" in message:
                self._order = message
            elif self._child is None:
                pass  # it was sent before the host knew that the child has ended
            elif "kill" in message:
                self._child.kill()
            elif message.get("signal") == signal.SIGTERM:
                self._child.terminate()

    def _on_exit(self) -> None:
        assert self._child is not None
        self._has_exited = self._child.see_exit() is not None

    def _on_stdin(self) -> None:
        """End when stdin is closed: the placer, which has its other end, is gone."""
        if not os.read(0, 4096):
            self._is_lost = True

    def _call_soon(self, function: Callable[[str], None], limit: str) -> None:
        self._calls.put(lambda: function(limit))
        try:
            os.write(self._wake_write, b"w")
        except BlockingIOError:
            pass  # the pipe is full, so it will wake the loop anyway

    def _on_wake(self) -> None:
        os.read(self._wake_read, 4096)
        while not self._calls.empty():
            self._calls.get()()

    def _send(self, line: bytes) -> None:
        try:
            self._control.send(line)
        except OSError:
            pass  # full or broken: the host notices the silence

    def _send_last(self, line: bytes) -> None:
        """Send the last message about a child, and wait a little if the host is slow to read."""
        try:
            self._control.settimeout(_OUTPUT_SECONDS)
            self._control.sendall(line)
            self._control.setblocking(False)
        except OSError:
            self._is_lost = True


if __name__ == "__main__":
    sys.exit(main())
