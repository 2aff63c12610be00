"""Tests of `RelayConnection`, the host's end of the socket of a relay.

A relay is the process that a client starts (`exthost gateway`). It sends each line of the client
with a number: `7<TAB>LINE`, or `7!<TAB>START` if it has cut a line that is too long. The host sends
`m<TAB>LINE` for a line to the client. The relay is here a socket in this process.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from exthost.faces.gateway.client_stream import ClientLine
from exthost.faces.gateway.relay_connection import (
    MAX_UNHANDLED_LINES,
    MAX_UNREAD_BYTES,
    RelayConnection,
)
from exthost.wire.framing import Skipped

# The limit of a wait for an event that always comes. It only bounds a test that hangs.
SECONDS = 150


@asynccontextmanager
async def connect() -> AsyncIterator[tuple[RelayConnection, socket.socket]]:
    """Yield a connection that reads, and the relay's end of its socket."""
    ours, relay = socket.socketpair()
    connection = RelayConnection(ours, os.getpid(), plain_names=True)
    connection.accept(b"welcome\n")
    assert relay.recv(100) == b"welcome\n"
    relay.setblocking(False)
    try:
        yield connection, relay
    finally:
        relay.close()
        connection.abort()
        async with asyncio.timeout(SECONDS):
            await connection.wait_until_lost()


async def read_all(relay: socket.socket, size: int) -> bytes:
    data = bytearray()
    async with asyncio.timeout(SECONDS):
        while len(data) < size:
            data += await asyncio.get_running_loop().sock_recv(relay, 2**20)
    return bytes(data)


async def test_output_waits_for_a_client_that_does_not_read() -> None:
    async with connect() as (connection, relay):
        async with asyncio.timeout(SECONDS):
            await connection.wait_for_room()  # nothing waits to be written
        line = b"x" * 2**20 + b"\n"
        connection.write(line)
        waiting = asyncio.ensure_future(connection.wait_for_room())
        await asyncio.sleep(0)
        assert not waiting.done()
        assert await read_all(relay, len(line) + 2) == b"m\t" + line
        async with asyncio.timeout(SECONDS):
            await waiting


async def test_a_client_that_leaves_too_much_unread_is_not_read() -> None:
    async with connect() as (connection, relay):
        line = b"x" * 2**20 + b"\n"
        count = MAX_UNREAD_BYTES // len(line) + 2
        for _ in range(count + 1):
            connection.write(line)
        assert not connection._is_reading
        await read_all(relay, (count + 1) * (len(line) + 2))
        await asyncio.get_running_loop().sock_sendall(relay, b"1\tping\n")
        async with asyncio.timeout(SECONDS):
            assert await connection.next() == ClientLine(1, b"ping")


async def test_reading_pauses_while_lines_wait_for_the_package() -> None:
    async with connect() as (connection, relay):
        lines = b"".join(b"%d\tping\n" % number for number in range(1, MAX_UNHANDLED_LINES + 1))
        await asyncio.get_running_loop().sock_sendall(relay, lines)
        async with asyncio.timeout(SECONDS):
            assert await connection.next() == ClientLine(1, b"ping")
            assert not connection._is_reading
            for number in range(2, MAX_UNHANDLED_LINES + 1):
                assert await connection.next() == ClientLine(number, b"ping")
            await asyncio.get_running_loop().sock_sendall(relay, b"100\tlast\n")
            assert await connection.next() == ClientLine(100, b"last")


async def test_a_line_that_the_relay_has_cut_is_marked() -> None:
    async with connect() as (connection, relay):
        await asyncio.get_running_loop().sock_sendall(relay, b"7!\tstart\n")
        async with asyncio.timeout(SECONDS):
            assert await connection.next() == ClientLine(7, Skipped("too long", b"start", 5))


async def test_a_line_without_a_number_ends_the_connection() -> None:
    async with connect() as (connection, relay):
        await asyncio.get_running_loop().sock_sendall(relay, b"ping\n")
        async with asyncio.timeout(SECONDS):
            await connection.wait_until_lost()
            assert await connection.next() is None


async def test_no_line_is_read_after_the_one_that_the_host_reported_as_last() -> None:
    async with connect() as (connection, relay):
        await asyncio.get_running_loop().sock_sendall(relay, b"1\tping\n")
        async with asyncio.timeout(SECONDS):
            assert await connection.next() == ClientLine(1, b"ping")
            connection.finish()
            connection.finish()
            assert await read_all(relay, 3) == b"e1\n"
            connection.lines_received([b"2\tlate"])
            assert await connection.next() is None
