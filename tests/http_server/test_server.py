"""The limits of an HTTP service: nobody without a token can take what others need."""

import asyncio
import contextlib
import resource
from typing import Any

import pytest
import uvicorn

from exthost.http_server import server
from exthost.http_server.listener import listen
from tests.cli.running import RUN_SECONDS


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


async def test_half_a_head_is_cut_off_and_honest_clients_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    settings: Any = {
        "log_config": None,
        "lifespan": "off",
        "ws": "none",
        "http": server.LimitedProtocol,
    }
    quiet = server.ServerWithoutSignals(uvicorn.Config(_hello, **settings))
    serving = asyncio.ensure_future(quiet.serve(sockets=[listener]))
    whole = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    try:
        async with asyncio.timeout(RUN_SECONDS):
            opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
            for number, (reader, writer) in enumerate(opened):
                with contextlib.suppress(OSError, EOFError):
                    # Some finish one request first: a further head has a deadline as well.
                    if number % 2:
                        writer.write(whole)
                        await reader.readuntil(b"ok")
                    writer.write(whole[:20])
            for reader, writer in opened:
                with contextlib.suppress(ConnectionError):
                    await reader.read()  # returns at the end of the connection
                writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(whole)
            assert b"200 OK" in await reader.readline()
            writer.close()
    finally:
        quiet.should_exit = True
        await serving
        listener.close()


async def test_a_body_that_never_ends_is_cut_off_though_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.3)
    listener = listen("127.0.0.1", 0)
    serving = asyncio.ensure_future(server.serve_app(_hello, listener))
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
    first = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    try:
        async with asyncio.timeout(RUN_SECONDS):
            # The second one comes together with a whole request.
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
async def test_a_header_that_decides_about_access_occurs_once(name: str) -> None:
    listener = listen("127.0.0.1", 0)
    serving = asyncio.ensure_future(server.serve_app(_hello, listener))
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


def test_half_of_the_descriptors_stay_for_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 100)
    for descriptors, connections in ((128, 64), (4096, 100), (-1, 100)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=descriptors: (soft, soft))
        assert server._max_connections() == connections
