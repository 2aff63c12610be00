"""The proxy of an extension whose `permissions.network` is a list of hosts, such as
`["api.example.com:443"]`: what it connects to, how it refuses, and how it ends.

The extension has no network of its own. It reaches the proxy by a listening socket that the init
program of its sandbox makes and sends to the proxy; here the test does that. Clients use the proxy
by HTTP (`CONNECT host:port`, or a request with a full URL) or SOCKS. A second process, the splicer,
moves the bytes of large transfers. The last part of this file runs the server of the proxy in a
thread of this process, to replace the look-up of names and the time limits.
"""

import asyncio
import contextlib
import os
import re
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exthost.model import network_rules
from exthost.model.launch_plan import InjectedHeader, ProxyPolicy
from exthost.model.network_rules import UpstreamProxy
from exthost.process import network_proxy, proxy_server
from exthost.process.network_proxy import MAX_RESTARTS, NetworkProxy, RefusedTarget

WAIT_SECONDS = 30.0


class Observer:
    """Collects the reports of a proxy: reached and refused targets, and ends of its process."""

    def __init__(self) -> None:
        self.targets: dict[str, int] = {}
        self.refusals: list[RefusedTarget] = []
        self.ends: list[tuple[str, bool]] = []
        self.changed = asyncio.Event()

    def reached(self, target: str, count: int) -> None:
        self.targets[target] = self.targets.get(target, 0) + count
        self.changed.set()

    def refused(self, refused: RefusedTarget) -> None:
        self.refusals.append(refused)
        self.changed.set()

    def proxy_ended(self, reason: str, is_final: bool) -> None:
        self.ends.append((reason, is_final))
        self.changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


class Proxied:
    """A proxy process with a listening socket at `port`."""

    def __init__(self, *entries: str, **policy: Any) -> None:
        self.observer = Observer()
        self.proxy = NetworkProxy(ProxyPolicy(entries, **policy), "tester")
        self.port = send_listener(self.proxy.child_end)
        self.proxy.close_child_end()
        self.proxy.watch(asyncio.get_running_loop(), self.observer)

    async def __aenter__(self) -> "Proxied":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.proxy.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.port), WAIT_SECONDS)

    async def ask(self, request: bytes, *, closes: bool = True) -> bytes:
        """Send a request, and return the reply until its end."""
        reader, writer = await self.connect()
        writer.write(request)
        if closes and writer.can_write_eof():
            writer.write_eof()
        try:
            return await asyncio.wait_for(reader.read(), WAIT_SECONDS)
        finally:
            writer.close()


def send_listener(channel: int) -> int:
    """Send a listening socket, as our init does. Return its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        with socket.socket(fileno=os.dup(channel)) as sender:
            socket.send_fds(sender, [b"\0"], [listener.fileno()])
        return int(listener.getsockname()[1])


@contextlib.asynccontextmanager
async def echo_server(banner: bytes = b"") -> Any:
    """Yield the port of a server that sends `banner`, and then what it gets. It records that."""
    received: list[bytes] = []
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        writer.write(banner)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                received.append(data)
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], received
        # The proxy has ended by now, and with it the other ends of these connections.
        await asyncio.wait_for(asyncio.gather(*connections), WAIT_SECONDS)


async def test_a_tunnel_to_an_allowed_host_passes_bytes_both_ways() -> None:
    async with echo_server() as (port, _), Proxied(f"localhost:{port}") as proxied:
        reader, writer = await proxied.connect()
        writer.write(b"CONNECT localhost:%d HTTP/1.1\r\n\r\nearly" % port)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
        assert head.startswith(b"HTTP/1.1 200 ")
        payload = os.urandom(3 * 2**20)  # more than the buffers on the way

        async def send() -> None:
            writer.write(payload)
            await writer.drain()
            writer.write_eof()

        sending = asyncio.create_task(send())
        echoed = await asyncio.wait_for(reader.read(-1), WAIT_SECONDS)
        await sending
        writer.close()
        assert echoed == b"early" + payload
        await proxied.observer.until(lambda: proxied.observer.targets)
        assert proxied.observer.targets == {f"localhost:{port}": 1}


async def test_socks_connects_by_name_and_by_address() -> None:
    async with echo_server() as (port, _), Proxied(f"localhost:{port}") as proxied:
        for target in (b"\x03\x09localhost", b"\x01\x7f\x00\x00\x01"):
            # Version 5 without authentication, then the command "connect".
            request = b"\x05\x01\x00" + b"\x05\x01\x00" + target + port.to_bytes(2, "big") + b"hi"
            reply = await proxied.ask(request)
            assert reply == b"\x05\x00" + b"\x05\x00\x00\x01" + bytes(6) + b"hi"


async def test_a_refusal_names_the_host_and_the_entry_and_is_reported() -> None:
    async with Proxied("api.example.com") as proxied:
        reply = await proxied.ask(b"CONNECT Evil.Example.:443 HTTP/1.1\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 403 exthost refused evil.example:443: ")
        assert b'add "evil.example:443" to permissions.network' in reply.partition(b"\r\n")[0]
        socks = b"\x05\x01\x00" + b"\x05\x01\x00\x03\x0cevil.example\x01\xbb"
        assert (await proxied.ask(socks))[2:4] == b"\x05\x02"
        await proxied.observer.until(
            lambda: sum(r.connections for r in proxied.observer.refusals) == 2
        )
        first = proxied.observer.refusals[0]
        assert (first.target, first.entry) == ("evil.example:443", "evil.example:443")
        assert not proxied.observer.targets


async def test_the_last_connections_before_the_end_of_the_proxy_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_proxy, "LAST_REPORT_SECONDS", WAIT_SECONDS)
    async with Proxied("example.com:443") as proxied:
        for name in (b"one", b"two"):  # the second soon after the report about the first
            reply = await proxied.ask(b"CONNECT %s.test:443 HTTP/1.1\r\n\r\n" % name)
            assert reply.startswith(b"HTTP/1.1 403 ")
        observer = proxied.observer
    assert [refused.target for refused in observer.refusals] == ["one.test:443", "two.test:443"]


async def test_the_end_of_a_proxy_that_is_still_starting_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_proxy, "LAST_REPORT_SECONDS", 1e6)
    proxy = NetworkProxy(ProxyPolicy(()), "tester")
    proxy.watch(asyncio.get_running_loop(), Observer())
    assert proxy.pid is not None
    os.kill(proxy.pid, signal.SIGSTOP)
    proxy.close()


async def test_a_client_that_sends_for_ever_after_its_server_has_gone_is_disconnected() -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(leave, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Proxied(f"localhost:{port}") as proxied:
        _, writer = await proxied.connect()
        writer.write(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port)
        async with asyncio.timeout(WAIT_SECONDS):
            with pytest.raises(ConnectionError):
                while True:
                    writer.write(bytes(1000))
                    await writer.drain()
                    await asyncio.sleep(0)
        writer.close()


async def test_a_plain_request_reaches_its_host_once() -> None:
    async with echo_server() as (port, received), Proxied(f"localhost:{port}") as proxied:
        second = b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
        request = b"GET http://localhost:%d/a HTTP/1.1\r\nHost: evil.example\r\n\r\n" % port
        await proxied.ask(request + second)
        sent = b"".join(received)
        assert sent == b"GET /a HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n" % port


async def test_a_header_with_a_secret_is_added_to_plain_requests_to_its_host_alone() -> None:
    async with echo_server() as (port, received), echo_server() as (other_port, other_received):
        header = InjectedHeader("localhost", port, "Authorization", "Bearer secret")
        entries = (f"localhost:{port}", f"localhost:{other_port}")
        async with Proxied(*entries, headers=(header,)) as proxied:
            own_header = b"AUTHORIZATION: own\r\n\r\n"
            await proxied.ask(b"GET http://LOCALHOST:%d/ HTTP/1.1\r\n" % port + own_header)
            head = b"".join(received)
            assert b"\r\nauthorization: Bearer secret\r\n" in head and b"own" not in head
            received.clear()
            await proxied.ask(b"GET http://localhost:%d/ HTTP/1.1\r\n\r\n" % other_port)
            await proxied.ask(b"CONNECT localhost:%d HTTP/1.1\r\n\r\nGET /" % port)
            assert b"".join(received) == b"GET /"
            assert b"secret" not in b"".join(other_received)


async def test_a_bad_request_gets_an_answer() -> None:
    async with Proxied("localhost:1") as proxied:
        assert (await proxied.ask(b"HELLO\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        body = b"CONNECT localhost:1 HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi"
        assert (await proxied.ask(body)).startswith(b"HTTP/1.1 400 CONNECT has no body")
        unreachable = await proxied.ask(b"CONNECT localhost:1 HTTP/1.1\r\n\r\n")
        assert unreachable.startswith(b"HTTP/1.1 502 localhost:1 cannot be reached")
        port_0 = b"\x05\x01\x00" + b"\x05\x01\x00\x03\x09localhost" + bytes(2)
        assert (await proxied.ask(port_0))[2:4] == b"\x05\x01"
        await proxied.ask(b"CONNECT evil.example:1 HTTP/1.1\r\n\r\n")
        await proxied.observer.until(lambda: proxied.observer.refusals)
        # No entry can allow port 0, so a report of it would advise an entry that is not valid.
        assert [item.target for item in proxied.observer.refusals] == ["evil.example:1"]


async def test_requests_go_through_the_proxy_of_the_company_with_its_password() -> None:
    banner = b"HTTP/1.1 200 OK\r\n\r\n"
    async with echo_server(banner) as (port, received):
        company = UpstreamProxy("127.0.0.1", port, "Basic c2VjcmV0")
        policy = {"https_proxy": company, "http_proxy": company, "no_proxy": "direct.example"}
        async with Proxied("api.example.com", **policy) as proxied:
            request = b"CONNECT api.example.com:443 HTTP/1.1\r\nProxy-Authorization: x\r\n\r\nhello"
            reply = await proxied.ask(request)
            head = (
                b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n"
                b"Proxy-Authorization: Basic c2VjcmV0\r\n\r\n"
            )
            assert b"".join(received).startswith(head)
            # What the client sent early follows the answer of the company's proxy.
            assert reply.startswith(b"HTTP/1.1 200 ") and b"".join(received).endswith(b"hello")
            received.clear()
            smuggled = b"GET http://evil.example/ HTTP/1.1\r\n\r\n"
            await proxied.ask(
                b"POST http://api.example.com/x HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi" + smuggled
            )
            sent = b"".join(received)
            assert sent.startswith(b"POST http://api.example.com/x HTTP/1.1\r\n")
            assert sent.endswith(b"\r\n\r\nhi") and b"evil" not in sent
            chunked = await proxied.ask(
                b"POST http://api.example.com/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"0\r\n\r\n" + smuggled
            )
            assert chunked.startswith(b"HTTP/1.1 411 ")


async def test_nothing_follows_a_refusal_of_the_company() -> None:
    async with echo_server(b"HTTP/1.1 407 no\r\n\r\n") as (port, received):
        company = UpstreamProxy("127.0.0.1", port)
        async with Proxied("api.example.com", https_proxy=company) as proxied:
            smuggled = b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n"
            reply = await proxied.ask(b"CONNECT api.example.com:443 HTTP/1.1\r\n\r\n" + smuggled)
            assert reply.startswith(b"HTTP/1.1 502 ") and b"407" in reply
            assert b"evil" not in b"".join(received)


async def test_a_proxy_that_is_killed_is_started_again_with_the_same_listener() -> None:
    async with echo_server() as (port, _), Proxied(f"localhost:{port}") as proxied:
        request = b"CONNECT localhost:%d HTTP/1.1\r\n\r\nhi" % port
        assert (await proxied.ask(request)).endswith(b"hi")
        reader, writer = await proxied.connect()
        writer.write(request)
        await asyncio.wait_for(reader.readuntil(b"hi"), WAIT_SECONDS)
        assert proxied.proxy.pid is not None
        os.kill(proxied.proxy.pid, signal.SIGKILL)
        assert await asyncio.wait_for(reader.read(), WAIT_SECONDS) == b""  # its connections end
        writer.close()
        assert (await proxied.ask(request)).endswith(b"hi")
        await proxied.observer.until(lambda: proxied.observer.ends)
        assert [is_final for _, is_final in proxied.observer.ends] == [False]


# -- large transfers -----------------------------------------------------------------------------

LARGE_BYTES = 16 * 2**20
ENDLESS = 2**60


@contextlib.asynccontextmanager
async def sending_server(size: int) -> Any:
    """Yield the port of a server that sends this many bytes after the first bytes of a connection,
    and an event: the first connection has ended."""
    has_ended = asyncio.Event()
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        await reader.read(65536)
        remaining, chunk = size, bytes(2**16)
        with contextlib.suppress(ConnectionError):
            while remaining:
                writer.write(chunk)
                await writer.drain()
                remaining -= len(chunk)
        writer.close()
        has_ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], has_ended
        await asyncio.wait_for(asyncio.gather(*connections), WAIT_SECONDS)


async def begin_download(
    proxied: Proxied, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a `sending_server` through the proxy, and make it begin to send."""
    reader, writer = await proxied.connect()
    writer.write(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port)
    await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
    writer.write(b"go")
    return reader, writer


async def find_splicer(proxied: Proxied, reader: asyncio.StreamReader) -> int:
    """Return the pid of the splicer of a proxy. It has moved the last of the bytes that are read
    here, so it runs."""
    size = 2 * proxy_server.LARGE_TRANSFER_BYTES
    await asyncio.wait_for(reader.readexactly(size), WAIT_SECONDS)
    assert proxied.proxy.splicer_pid is not None
    return proxied.proxy.splicer_pid


async def read_to_the_end(reader: asyncio.StreamReader) -> int:
    """Return how many bytes came until the connection ended, well or not."""
    size = 0
    with contextlib.suppress(ConnectionError):
        while data := await asyncio.wait_for(reader.read(2**20), WAIT_SECONDS):
            size += len(data)
    return size


async def test_the_reply_to_a_plain_request_with_a_body_can_be_large() -> None:
    async with sending_server(LARGE_BYTES) as (port, _), Proxied(f"localhost:{port}") as proxied:
        head = b"POST http://localhost:%d/ HTTP/1.1\r\nContent-Length: 2\r\n\r\n" % port
        assert await proxied.ask(head + b"hi", closes=False) == bytes(LARGE_BYTES)


async def test_large_transfers_and_the_splicer_end_with_the_proxy() -> None:
    async with (
        sending_server(ENDLESS) as (port, has_ended),
        Proxied(f"localhost:{port}") as proxied,
    ):
        reader, writer = await begin_download(proxied, port)
        watch = os.pidfd_open(await find_splicer(proxied, reader))
        splicer_has_ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(watch, splicer_has_ended.set)
        assert proxied.proxy.pid is not None
        os.kill(proxied.proxy.pid, signal.SIGKILL)
        await read_to_the_end(reader)
        writer.close()
        await asyncio.wait_for(splicer_has_ended.wait(), WAIT_SECONDS)
        asyncio.get_running_loop().remove_reader(watch)
        os.close(watch)
        await asyncio.wait_for(has_ended.wait(), WAIT_SECONDS)


async def test_a_large_transfer_ends_at_the_server_if_the_client_leaves() -> None:
    async with (
        sending_server(ENDLESS) as (port, has_ended),
        Proxied(f"localhost:{port}") as proxied,
    ):
        reader, writer = await begin_download(proxied, port)
        await find_splicer(proxied, reader)
        writer.transport.abort()
        await asyncio.wait_for(has_ended.wait(), WAIT_SECONDS)
        assert not proxied.observer.ends


async def test_a_transfer_that_the_splicer_does_not_take_is_copied() -> None:
    async with (
        sending_server(ENDLESS) as (endless_port, has_ended),
        sending_server(LARGE_BYTES) as (port, _),
        Proxied(f"localhost:{endless_port}", f"localhost:{port}") as proxied,
    ):
        reader, writer = await begin_download(proxied, endless_port)
        splicer = await find_splicer(proxied, reader)
        _, hard = resource.prlimit(splicer, resource.RLIMIT_NOFILE)
        resource.prlimit(splicer, resource.RLIMIT_NOFILE, (3, hard))
        other_reader, other_writer = await begin_download(proxied, port)
        assert await read_to_the_end(other_reader) == LARGE_BYTES
        other_writer.close()
        writer.transport.abort()
        await asyncio.wait_for(has_ended.wait(), WAIT_SECONDS)


async def test_without_a_splicer_large_transfers_are_copied() -> None:
    async with sending_server(LARGE_BYTES) as (port, _):
        with serving(f"localhost:{port}") as (_, proxy_port):
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy_port)
            writer.write(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port)
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
            writer.write(b"go")
            assert await read_to_the_end(reader) == LARGE_BYTES
            writer.close()


async def test_a_splicer_that_is_killed_ends_its_transfers_and_later_ones_are_copied() -> None:
    async with (
        sending_server(ENDLESS) as (endless_port, has_ended),
        sending_server(LARGE_BYTES) as (port, _),
        Proxied(f"localhost:{endless_port}", f"localhost:{port}") as proxied,
    ):
        reader, writer = await begin_download(proxied, endless_port)
        os.kill(await find_splicer(proxied, reader), signal.SIGKILL)
        await read_to_the_end(reader)
        writer.close()
        await asyncio.wait_for(has_ended.wait(), WAIT_SECONDS)
        reader, writer = await begin_download(proxied, port)
        assert await read_to_the_end(reader) == LARGE_BYTES
        writer.close()
        assert not proxied.observer.ends


@pytest.mark.more
async def test_a_proxy_that_ends_too_often_stays_down_and_connections_are_refused() -> None:
    async with Proxied("localhost:1") as proxied:

        def has_ended(times: int) -> bool:
            return len(proxied.observer.ends) == times

        for number in range(1, MAX_RESTARTS + 2):
            assert proxied.proxy.pid is not None
            os.kill(proxied.proxy.pid, signal.SIGKILL)
            await proxied.observer.until(partial(has_ended, number))
        assert proxied.observer.ends[-1][1] and proxied.proxy.pid is None
        with pytest.raises(ConnectionRefusedError):
            await proxied.connect()


@pytest.mark.more
async def test_a_proxy_that_crashes_leaves_no_core_file() -> None:
    """It has the secrets of `inject` and the password for the proxy of the company. With a limit of
    0, the kernel would still pass its memory to a program that collects core files."""
    limit = 0 if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0 else 1
    async with echo_server() as (port, _), Proxied(f"localhost:{port}") as proxied:
        await proxied.ask(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port)
        limits = Path(f"/proc/{proxied.proxy.pid}/limits").read_text()  # noqa: ASYNC240
        assert re.search(rf"^Max core file size +{limit} +{limit} ", limits, re.MULTILINE), limits


async def test_a_proxy_ends_when_the_host_closes_its_stdin() -> None:
    proxied = Proxied("localhost:1")
    proxy_pid = proxied.proxy.pid
    assert proxy_pid is not None
    watch = os.pidfd_open(proxy_pid)
    proxied.proxy._process.stdin.close()  # type: ignore[union-attr]
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(watch, ended.set)
    await asyncio.wait_for(ended.wait(), WAIT_SECONDS)
    asyncio.get_running_loop().remove_reader(watch)
    os.close(watch)
    proxied.proxy.close()


@pytest.mark.more
async def test_ten_thousand_silent_connections_do_not_keep_others_out() -> None:
    files = 10_500  # the sockets of this process
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        pytest.skip(f"this user can open only {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    silent: list[socket.socket] = []
    try:
        async with echo_server() as (port, _), Proxied(f"localhost:{port}") as proxied:
            for number in range(10_000):
                silent.append(socket.create_connection(("127.0.0.1", proxied.port), WAIT_SECONDS))
                if number % 100 == 0:
                    await asyncio.sleep(0)
            request = b"CONNECT localhost:%d HTTP/1.1\r\n\r\nhi" % port
            assert (await proxied.ask(request)).endswith(b"hi")
            assert not proxied.observer.ends
    finally:
        for client in silent:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- the server in a thread of this process, with another resolver and shorter time limits --------


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses that names resolve to: each look-up takes the next one."""
    addresses: dict[str, list[str]] = {}

    def look_up(name: str, port: int) -> list[Any]:
        if name not in addresses:
            raise socket.gaierror(-2, "Name or service not known")
        address = addresses[name].pop(0) if len(addresses[name]) > 1 else addresses[name][0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(proxy_server, "look_up", look_up)
    return addresses


@contextlib.contextmanager
def serving(*entries: str) -> Iterator[tuple[proxy_server.ProxyServer, int]]:
    """Yield a server that runs in a thread, and its port."""
    ours, theirs = socket.socketpair()
    port = send_listener(theirs.fileno())
    server = proxy_server.ProxyServer({"entries": list(entries)}, ours.detach())
    server.loop.set_reader(server._channel.fileno(), server._take_listener)
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.is_set():
            server.loop.run_once(0.02)
            server._expire(time.monotonic())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server, port
    finally:
        is_over.set()
        thread.join(WAIT_SECONDS)
        for connection in tuple(server._connections):
            connection.close()
        server.close()
        theirs.close()


def ask(port: int, request: bytes) -> bytes:
    """Send a request, and return the reply until its end."""
    with socket.create_connection(("127.0.0.1", port), WAIT_SECONDS) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        reply = b""
        while data := client.recv(65536):
            reply += data
        return reply


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "0.0.0.0"]
)
def test_a_name_that_resolves_to_a_private_address_is_refused(
    names: dict[str, list[str]], address: str
) -> None:
    names["api.example.com"] = [address]
    with serving("api.example.com:443") as (server, port):
        reply = ask(port, b"CONNECT api.example.com:443 HTTP/1.1\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 403 ") and b"not a public address" in reply
        ((target, _, entry),) = server._refused
        assert target == "api.example.com:443" and entry.endswith(":443")


def test_a_name_that_resolves_to_a_public_address_of_this_machine_is_refused(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_rules, "is_public", lambda address: True)
    with socket.create_server(("127.0.0.1", 0)) as local:
        port = local.getsockname()[1]
        names["api.example.com"] = ["127.0.0.1"]
        with serving(f"api.example.com:{port}") as (_, proxy_port):
            reply = ask(proxy_port, b"CONNECT api.example.com:%d HTTP/1.1\r\n\r\n" % port)
    assert reply.startswith(b"HTTP/1.1 403 ") and b"an address of this machine" in reply


def test_a_name_that_changes_after_its_look_up_is_reached_at_the_checked_address(
    names: dict[str, list[str]],
) -> None:
    """A second look-up would find an address that is not allowed."""
    with socket.create_server(("127.0.0.1", 0)) as checked:
        port = checked.getsockname()[1]
        names["api.example.com"] = ["127.0.0.1", "127.0.0.2"]
        with serving(f"api.example.com:{port}", f"127.0.0.1:{port}") as (_, proxy_port):
            with socket.create_connection(("127.0.0.1", proxy_port), WAIT_SECONDS) as client:
                client.sendall(b"CONNECT api.example.com:%d HTTP/1.1\r\n\r\n" % port)
                checked.settimeout(WAIT_SECONDS)
                checked.accept()[0].close()
            assert names["api.example.com"] == ["127.0.0.2"]
            reply = ask(proxy_port, b"CONNECT api.example.com:%d HTTP/1.1\r\n\r\n" % port)
            assert reply.startswith(b"HTTP/1.1 403 ")


def test_a_name_that_does_not_exist_is_reported_as_such(names: dict[str, list[str]]) -> None:
    with serving("nowhere.example") as (_, port):
        reply = ask(port, b"CONNECT nowhere.example:443 HTTP/1.1\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 502 nowhere.example could not be resolved")


def test_a_slow_head_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_server, "HEAD_SECONDS", 0.1)
    with (
        serving("localhost:1") as (_, port),
        socket.create_connection(("127.0.0.1", port), WAIT_SECONDS) as client,
    ):
        client.sendall(b"CONNECT local")
        assert client.recv(1) == b""


def test_the_proxy_uses_keepalive_to_notice_a_server_that_disappears() -> None:
    """The client cannot do that itself: its connection is one to the proxy, on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as target:
        port = target.getsockname()[1]
        with (
            serving(f"localhost:{port}") as (server, proxy_port),
            socket.create_connection(("127.0.0.1", proxy_port), WAIT_SECONDS) as client,
        ):
            client.sendall(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port)
            assert client.recv(12) == b"HTTP/1.1 200"
            (connection,) = server._connections
            assert connection._upstream is not None
            assert connection._upstream.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_an_event_of_a_closed_descriptor_is_not_delivered_to_a_new_one_with_its_number() -> None:
    loop = proxy_server.ReadinessLoop()
    called: list[int] = []
    with contextlib.ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(2)]
        for pair in pairs:
            for end in pair:
                stack.enter_context(end)

        def replace_other(number: int) -> None:
            """Close the other descriptor, which is ready as well, and open one of its number."""
            kept, closed = pairs[number][0], pairs[1 - number][0]
            for end in (kept, closed):
                loop.set_reader(end.fileno(), None)
            fd = closed.fileno()
            closed.close()
            stack.callback(os.close, os.dup2(kept.fileno(), fd))
            loop.set_reader(fd, partial(called.append, fd))

        for number, (near, far) in enumerate(pairs):
            far.send(b"x")
            loop.set_reader(near.fileno(), partial(replace_other, number))
        loop.run_once(WAIT_SECONDS)
        assert called == []
        loop.run_once(WAIT_SECONDS)
        assert len(called) == 1
    loop.close()
