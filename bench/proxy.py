"""The cost of the proxy of a sandboxed process: `python -m bench proxy`.

A client connects to a server of this machine, directly and through the proxy, with the same number
of bytes. Server and client are processes of their own, as in use. The first row is the median of
how long a connection takes until the server has answered one byte. The second is how many bytes a
second one connection transfers. Direct connections and those through the proxy take turns.
"""

import os
import socket
import time
from collections.abc import Callable
from statistics import median

from exthost.model.launch_plan import ProxyPolicy
from exthost.process.network_proxy import NetworkProxy

CONNECTIONS = 400
TRANSFERS = 7
TRANSFER_BYTES = 512 * 2**20
TARGET_MILLISECONDS = 0.3
TARGET_THROUGHPUT = 0.7
_CHUNK = bytes(2**20)


def _serve(listener: socket.socket) -> None:
    """Answer the first byte of each connection: with that byte, or with many."""
    while True:
        connection, _ = listener.accept()
        with connection:
            first = connection.recv(1)
            if first != b"m":
                connection.sendall(first)
                continue
            for _ in range(TRANSFER_BYTES // len(_CHUNK)):
                connection.sendall(_CHUNK)


def _connect(port: int, proxy: int | None) -> socket.socket:
    if proxy is None:
        client = socket.create_connection(("127.0.0.1", port))
    else:
        client = socket.create_connection(("127.0.0.1", proxy))
        client.sendall(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port)
        reply = b""
        while not reply.endswith(b"\r\n\r\n"):
            reply += client.recv(4096)
        assert reply.startswith(b"HTTP/1.1 200 "), reply
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def _connection_seconds(port: int, proxy: int | None) -> float:
    began = time.perf_counter()
    with _connect(port, proxy) as client:
        client.sendall(b"1")
        client.recv(1)
    return time.perf_counter() - began


def _transfer_seconds(port: int, proxy: int | None) -> float:
    buffer = bytearray(2**20)
    with _connect(port, proxy) as client:
        client.sendall(b"m")
        began, remaining = time.perf_counter(), TRANSFER_BYTES
        while remaining:
            count = client.recv_into(buffer)
            assert count
            remaining -= count
        return time.perf_counter() - began


def _compare(
    measure: Callable[[int, int | None], float], port: int, proxy: int, times: int
) -> tuple[float, float]:
    pairs = [(measure(port, None), measure(port, proxy)) for _ in range(times + 1)][1:]
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


def main() -> int:
    """Print both rows. Return 1 if a target was missed."""
    server = socket.create_server(("127.0.0.1", 0), backlog=512)
    port = server.getsockname()[1]
    pid = os.fork()
    if pid == 0:
        _serve(server)
    proxy = NetworkProxy(ProxyPolicy((f"localhost:{port}",)), "bench")
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
            with socket.socket(fileno=os.dup(proxy.child_end)) as channel:
                socket.send_fds(channel, [b"\0"], [listener.fileno()])
            proxy_port = listener.getsockname()[1]
        direct, proxied = _compare(_connection_seconds, port, proxy_port, CONNECTIONS)
        added = (proxied - direct) * 1000
        print(f"connection: {direct * 1000:.3f} ms direct, {proxied * 1000:.3f} ms by the proxy,")
        print(f"            {added:.3f} ms added (target: at most {TARGET_MILLISECONDS})")
        direct, proxied = _compare(_transfer_seconds, port, proxy_port, TRANSFERS)
        rates = [TRANSFER_BYTES / seconds / 1e9 for seconds in (direct, proxied)]
        ratio = rates[1] / rates[0]
        print(f"transfer:   {rates[0]:.2f} GB/s direct, {rates[1]:.2f} GB/s by the proxy,")
        print(f"            {ratio:.2f} of direct (target: at least {TARGET_THROUGHPUT})")
    finally:
        proxy.close()
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        server.close()
    return int(added > TARGET_MILLISECONDS or ratio < TARGET_THROUGHPUT)
