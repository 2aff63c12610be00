"""A connection of the network proxy that is resumed after it has ended, or whose server resets it.

A connection runs as a generator, which stops where it has to wait, for example for the look-up of a
name, and is resumed with the result. By then the client may have left. A server can refuse a large
request before it has read it: it replies, and closes its end while the client still sends.
"""

import select
import socket
import struct
import time
from types import SimpleNamespace
from typing import Any

import pytest

from exthost.process.proxy_server import ProxyConnection, ProxyServer

WAIT_SECONDS = 60.0


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_connection_that_is_closed_or_has_no_step_left_is_not_resumed(is_closed: bool) -> None:
    server: Any = SimpleNamespace(loop=None)
    client: Any = None
    connection = ProxyConnection(server, client)
    results_sent: list[Any] = []
    generator: Any = SimpleNamespace(send=results_sent.append)
    connection.is_closed = is_closed
    connection._steps = generator if is_closed else None
    connection.resume(True)
    assert results_sent == []


def run_until_readable(server: ProxyServer, end: socket.socket) -> None:
    """Run the loop of a server until a client has something to read."""
    poll = select.poll()
    poll.register(end, select.POLLIN)
    deadline = time.monotonic() + WAIT_SECONDS
    while not poll.poll(0):
        assert time.monotonic() < deadline, "nothing came"
        server.loop.run_once(1.0)


@pytest.mark.parametrize("sends_first", ["client", "server"])
def test_the_reply_of_a_server_that_does_not_read_the_whole_request_reaches_the_client(
    sends_first: str,
) -> None:
    ours, theirs = socket.socketpair()
    with (
        theirs,
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_server(("127.0.0.1", 0)) as target,
    ):
        socket.send_fds(theirs, [b"\0"], [listener.fileno()])
        target_port = target.getsockname()[1]
        server = ProxyServer({"entries": [f"127.0.0.1:{target_port}"]}, ours.detach())
        server._take_listener()
        with socket.create_connection(listener.getsockname(), WAIT_SECONDS) as client:
            client.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % target_port)
            run_until_readable(server, client)
            assert client.recv(1024).startswith(b"HTTP/1.1 200 ")
            upstream, _ = target.accept()
            if sends_first == "client":
                client.sendall(bytes(1000))
            upstream.sendall(b"HTTP/1.1 413 Content Too Large\r\n\r\n")
            # With this option, closing the socket resets the connection.
            upstream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            upstream.close()
            if sends_first == "server":
                client.sendall(bytes(1000))
            reply = b""
            while True:
                run_until_readable(server, client)
                if not (data := client.recv(1024)):
                    break
                reply += data
            assert reply == b"HTTP/1.1 413 Content Too Large\r\n\r\n"
        while server._connections:
            server.loop.run_once(WAIT_SECONDS)
        server.close()
