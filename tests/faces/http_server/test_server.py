"""Tests of an HTTP service: clients without a token cannot keep out those with a token.

The service limits the number of connections and the time that a request may take to arrive. If
there are too many connections, it closes those that have not sent the token, the oldest first.
"""

import asyncio
import contextlib
import resource
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from exthost.faces.http_server import server
from exthost.faces.http_server.access import Access
from exthost.faces.http_server.listener import listen
from exthost.faces.http_server.token import Token, Tokens
from tests.faces.cli.cli_process import RUN_SECONDS

ROOT = Path(__file__).parents[3]

# No client in these tests sends this token.
UNUSED_TOKEN = Access("127.0.0.1", Tokens(Token("nobody has it")))


async def _answer_ok(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application that answers every request with "ok"."""
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


async def test_incomplete_requests_are_closed_and_other_clients_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)  # the time for the head of a request
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    serving = asyncio.ensure_future(server.serve_app(_answer_ok, listener, UNUSED_TOKEN))
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    try:
        async with asyncio.timeout(RUN_SECONDS):
            connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
            for number, (reader, writer) in enumerate(connections):
                with contextlib.suppress(OSError, EOFError):
                    # Half of the clients send a whole request first: the limit applies again.
                    if number % 2:
                        writer.write(request)
                        await reader.readuntil(b"ok")
                    writer.write(request[:20])
            for reader, writer in connections:
                with contextlib.suppress(ConnectionError):
                    await reader.read()  # returns at the end of the connection
                writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            assert b"200 OK" in await reader.readline()
            writer.close()
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def test_a_request_whose_body_never_ends_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.3)
    listener = listen("127.0.0.1", 0)
    serving = asyncio.ensure_future(server.serve_app(_answer_ok, listener, UNUSED_TOKEN))
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
    first = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    try:
        async with asyncio.timeout(RUN_SECONDS):
            # The second time, a whole request comes before it in the same data.
            for request in (head, first + head):
                reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
                writer.write(request)
                with contextlib.suppress(ConnectionError):
                    while not reader.at_eof():
                        writer.write(b"x")
                        await writer.drain()
                        with contextlib.suppress(TimeoutError):
                            await asyncio.wait_for(reader.read(4096), 0.05)
                writer.close()
    finally:
        serving.cancel()
        await asyncio.wait([serving])


@pytest.mark.parametrize("name", ["Authorization", "Origin", "Host", "Sec-Fetch-Site"])
async def test_a_repeated_header_that_decides_about_access_is_refused(name: str) -> None:
    listener = listen("127.0.0.1", 0)
    serving = asyncio.ensure_future(server.serve_app(_answer_ok, listener, UNUSED_TOKEN))
    try:
        for headers, status in (
            ([f"{name}: localhost"], b"200"),
            ([f"{name}: localhost", f"{name.lower()}: localhost"], b"400"),
            ([f"{name}: localhost", "X: y", f"{name}: other"], b"400"),
        ):
            host = [] if name == "Host" else ["Host: localhost"]
            head = "\r\n".join(["GET / HTTP/1.1", *host, *headers, "Connection: close", "", ""])
            async with asyncio.timeout(RUN_SECONDS):
                reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
                writer.write(head.encode())
                response = await reader.read()
                writer.close()
            assert response.split(b" ")[1] == status, response
    finally:
        serving.cancel()
        await asyncio.wait([serving])


def test_at_most_half_of_the_descriptors_are_used_for_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 100)
    for descriptors, connections in ((128, 64), (4096, 100), (-1, 100)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=descriptors: (soft, soft))
        assert server._max_connections() == connections


@pytest.mark.parametrize("silent", [b"", b"GET / HT"], ids=["silent", "half a request"])
async def test_clients_without_a_token_do_not_keep_out_a_client_with_the_token(
    silent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 64)
    listener = listen("127.0.0.1", 0)
    address = listener.getsockname()[:2]
    access = Access("127.0.0.1", Tokens(Token("secret")))
    serving = asyncio.ensure_future(server.serve_app(_answer_ok, listener, access))
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n"

    async def send_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request)
        assert b"ok" in await reader.readuntil(b"ok")

    connections = []
    try:
        async with asyncio.timeout(RUN_SECONDS):
            for _ in range(30):
                connections.append(await asyncio.open_connection(*address))
                await send_request(*connections[-1])
            with_token = list(connections)
            for _ in range(200):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(silent)
                connections.append((reader, writer))
            new_connection = await asyncio.open_connection(*address)
            connections.append(new_connection)
            await send_request(*new_connection)
            for reader, writer in with_token:  # these connections are still open
                await send_request(reader, writer)
            # The oldest connection without a token was closed; the newest is open.
            with contextlib.suppress(ConnectionError):
                assert await connections[len(with_token)][0].read() == b""
            assert not connections[-2][0].at_eof()
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        for _, writer in connections:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def _serve() -> AsyncIterator[tuple[str, int]]:
    """Serve with the token "secret", and yield the address."""
    listener = listen("127.0.0.1", 0)
    access = Access("127.0.0.1", Tokens(Token("secret")))
    serving = asyncio.ensure_future(server.serve_app(_answer_ok, listener, access))
    try:
        yield listener.getsockname()[:2]
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def test_a_client_can_open_many_connections_before_its_first_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 200)
    # How long a new connection has for its first request before others may replace it.
    monkeypatch.setattr(server, "ARRIVAL_SECONDS", 1000.0)
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n"
    async with _serve() as address, asyncio.timeout(RUN_SECONDS):
        connections = [await asyncio.open_connection(*address) for _ in range(190)]
        for reader, writer in connections:
            writer.write(request)
            assert b"ok" in await reader.readuntil(b"ok")
        for _, writer in connections:
            writer.close()


async def test_connections_that_have_just_arrived_count_towards_the_maximum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 40)
    monkeypatch.setattr(server, "ARRIVAL_SECONDS", 1000.0)
    monkeypatch.setattr(server, "HEADER_SECONDS", 1000.0)
    async with _serve() as address, asyncio.timeout(RUN_SECONDS):
        connections = [await asyncio.open_connection(*address) for _ in range(100)]
        ends = [asyncio.ensure_future(reader.read()) for reader, _ in connections]
        while sum(end.done() for end in ends) < 100 - server.MAX_CONNECTIONS:
            await asyncio.wait(
                [end for end in ends if not end.done()], return_when="FIRST_COMPLETED"
            )
        for _, writer in connections:
            writer.close()
        await asyncio.gather(*ends, return_exceptions=True)


# An HTTP service in a process with at most 1024 descriptors. It prints its port.
SMALL_SERVICE = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
from exthost.faces.http_server.access import Access
from exthost.faces.http_server.listener import listen
from exthost.faces.http_server.server import serve_app
from exthost.faces.http_server.token import Token, Tokens
from tests.faces.http_server.test_server import _answer_ok
listener = listen("127.0.0.1", 0)
print(listener.getsockname()[1], flush=True)
asyncio.run(serve_app(_answer_ok, listener, Access("127.0.0.1", Tokens(Token("secret")))))
"""


@pytest.mark.more
async def test_1500_silent_connections_do_not_keep_out_others_with_1024_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = 4096 if hard < 0 else min(4096, hard)
    assert descriptors >= 2048, "this test opens 1500 connections"
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
    service = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SMALL_SERVICE, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    writers = []
    try:
        async with asyncio.timeout(RUN_SECONDS):
            assert service.stdout is not None
            port = int(await service.stdout.readline())
            writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(1500)]
            for _ in range(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writers.append(writer)
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n")
                assert b"ok" in await reader.readuntil(b"ok")
    finally:
        service.kill()
        await service.wait()
        for writer in writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
