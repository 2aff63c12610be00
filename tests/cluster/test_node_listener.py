"""`NodeListener`, the socket of the host to which agents on other nodes connect.

The host starts each agent with a nonce, a secret that it sends as its first line. The listener
accepts one connection for each expected nonce, and closes all others.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from exthost.cluster import node_listener as listener_module
from exthost.cluster.node_listener import NodeListener
from exthost.config.cluster import ClusterSettings
from exthost.errors import ConfigError


@contextlib.asynccontextmanager
async def open_listener() -> AsyncIterator[NodeListener]:
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


async def is_closed_by_listener(listener: NodeListener, data: bytes) -> bool:
    """Wait until a connection that sends this data ends, and return whether it sent nothing."""
    reader, writer = await connect(listener, data)
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_a_nonce_can_be_used_for_one_connection() -> None:
    async with open_listener() as listener:
        nonce, expected = listener.expect()
        _, writer = await connect(listener, nonce.encode() + b"\n")
        connection = await expected
        assert await is_closed_by_listener(listener, nonce.encode() + b"\n")
        connection.close()
        writer.close()
        await writer.wait_closed()


async def test_a_connection_with_a_wrong_nonce_is_closed() -> None:
    async with open_listener() as listener:
        _, expected = listener.expect()
        assert await is_closed_by_listener(listener, b"0" * 64 + b"\n")
        assert await is_closed_by_listener(
            listener, b"GET / HTTP/1.1\r\nHost: example\r\n" + b"x" * 100
        )
        assert not expected.done()
        expected.cancel()


async def test_a_connection_that_sends_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_NONCE_SECONDS", 0.05)
    async with open_listener() as listener:
        assert await is_closed_by_listener(listener, b"")
        assert await is_closed_by_listener(listener, b"abc")


async def test_a_connection_that_is_no_longer_expected_is_closed() -> None:
    async with open_listener() as listener:
        nonce, expected = listener.expect()
        expected.cancel()
        assert await is_closed_by_listener(listener, nonce.encode() + b"\n")


async def test_a_port_in_use_is_a_mistake_in_the_configuration() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(ConfigError) as caught:
        await NodeListener(ClusterSettings(port=server.getsockname()[1])).open()
    assert caught.value.code == "X0171"


@pytest.mark.parametrize("host", ["ä" * 100, "a\0b"])
async def test_a_host_that_is_not_a_name_is_a_mistake_in_the_configuration(host: str) -> None:
    with pytest.raises(ConfigError, match="cannot be used") as caught:
        await NodeListener(ClusterSettings(host=host)).open()
    assert caught.value.code == "X0171"


@pytest.mark.parametrize("address", ["", "a", "a:", "127.0.0.1:70000", "a..b:1"])
async def test_an_agent_reports_an_address_that_is_not_one(address: str) -> None:
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "exthost.cluster.agent", "--", address),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _, output = await asyncio.wait_for(agent.communicate(b"nonce\n"), 60)
    assert agent.returncode == 1
    assert output.startswith(b"the host cannot be reached") and b"Traceback" not in output


@pytest.mark.parametrize("first_bytes", [b"", b"abc"], ids=["silent", "half a nonce"])
async def test_many_unknown_connections_do_not_prevent_a_node_from_connecting(
    first_bytes: bytes,
) -> None:
    """The listener keeps 256 unknown connections. It closes the oldest ones first."""
    async with open_listener() as listener:
        unknown_connections = [await connect(listener, first_bytes) for _ in range(600)]
        nonce, expected = listener.expect()
        _, writer = await connect(listener, nonce.encode() + b"\n")
        connection = await asyncio.wait_for(expected, 60)
        assert listener.strangers_closed >= 600 - 256
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(unknown_connections[0][0].read(), 60) == b""
        assert not unknown_connections[-1][0].at_eof()
        connection.close()
        for _, other in (*unknown_connections, (None, writer)):
            other.close()
            with contextlib.suppress(OSError):
                await other.wait_closed()
