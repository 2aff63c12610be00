"""The listener pairs a connection with its nonce, once, and closes every other one."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from exthost.cluster import node_listener as listener_module
from exthost.cluster.node_listener import NodeListener
from exthost.config.cluster import ClusterSettings
from exthost.errors import ConfigError


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[NodeListener]:
    listener = NodeListener(ClusterSettings())
    await listener.open()
    try:
        yield listener
    finally:
        await listener.close()


async def connect(
    listener: NodeListener, data: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = listener.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    return reader, writer


async def closed_by_listener(listener: NodeListener, data: bytes) -> bool:
    reader, writer = await connect(listener, data)
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_a_nonce_is_good_for_one_connection() -> None:
    async with opened() as listener:
        nonce, expected = listener.expect()
        _, writer = await connect(listener, nonce.encode() + b"\n")
        connection = await expected
        assert await closed_by_listener(listener, nonce.encode() + b"\n")
        connection.close()
        writer.close()
        await writer.wait_closed()


async def test_a_wrong_nonce_gets_no_answer_and_disturbs_no_other() -> None:
    async with opened() as listener:
        _, expected = listener.expect()
        assert await closed_by_listener(listener, b"0" * 64 + b"\n")
        assert await closed_by_listener(
            listener, b"GET / HTTP/1.1\r\nHost: example\r\n" + b"x" * 100
        )
        assert not expected.done()
        expected.cancel()


async def test_a_connection_that_sends_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_NONCE_SECONDS", 0.05)
    async with opened() as listener:
        assert await closed_by_listener(listener, b"")
        assert await closed_by_listener(listener, b"abc")


async def test_a_connection_that_is_no_longer_wanted_is_closed() -> None:
    async with opened() as listener:
        nonce, expected = listener.expect()
        expected.cancel()
        assert await closed_by_listener(listener, nonce.encode() + b"\n")


async def test_a_port_in_use_is_a_mistake_in_the_configuration() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError) as caught:
        await NodeListener(ClusterSettings(port=taken.getsockname()[1])).open()
    assert caught.value.code == "X0171"


@pytest.mark.parametrize("silent", [b"", b"abc"], ids=["silent", "half a nonce"])
async def test_strangers_do_not_keep_a_node_out(silent: bytes) -> None:
    """More than the listener keeps, from the same address. The newest stay, the oldest go."""
    async with opened() as listener:
        strangers = [await connect(listener, silent) for _ in range(600)]
        nonce, expected = listener.expect()
        _, writer = await connect(listener, nonce.encode() + b"\n")
        connection = await asyncio.wait_for(expected, 60)
        assert listener.strangers_closed >= 600 - 256
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(strangers[0][0].read(), 60) == b""
        assert not strangers[-1][0].at_eof()
        connection.close()
        for _, other in (*strangers, (None, writer)):
            other.close()
            with contextlib.suppress(OSError):
                await other.wait_closed()
