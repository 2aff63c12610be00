"""`token_proxy`, an HTTP proxy that adds a bearer token to each request. MCP's conformance suite,
which cannot send a token, reaches the gateway through it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

MAX_HEAD_BYTES = 64 * 1024


@asynccontextmanager
async def token_proxy(url: str, token: str) -> AsyncIterator[str]:
    """Yield the URL of a proxy for this URL. Each connection carries one request; the proxy adds
    the token and changes nothing else, not even the Host header."""
    target = urlsplit(url)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await _relay_request(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # asyncio would log the task of a stream that ends cancelled as an error
        finally:
            writer.close()
            tasks.discard(task)

    async def _relay_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        header_fields = [field for field in fields if not field.lower().startswith(b"connection:")]
        header_fields += [b"Connection: close", f"Authorization: Bearer {token}".encode()]
        response, upstream = await asyncio.open_connection(target.hostname, target.port)
        try:
            upstream.write(b"\r\n".join((first, *header_fields)) + b"\r\n\r\n")
            sending = asyncio.ensure_future(_copy(reader, upstream))
            try:
                await _copy(response, writer)
            finally:
                sending.cancel()
                await asyncio.wait([sending])
        finally:
            upstream.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"http://localhost:{port}{target.path}"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(64 * 1024):
        writer.write(data)
        await writer.drain()
