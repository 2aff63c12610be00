"""With a certificate, the connections between nodes and the host are encrypted."""

import asyncio
import logging
import os
import signal
import socket
from pathlib import Path

import pytest

import exthost
from exthost.cluster.node_listener import NodeListener
from exthost.cluster.node_process import HostAddress
from exthost.config.cluster import ClusterSettings
from exthost.config.discovery.configfile import read_config
from exthost.errors import ConfigError, ExtensionGone
from tests.cluster.remote import remote
from tests.extensions.harness import error_of, wait_until
from tests.extensions.proc import is_running

CERTIFICATE = str(Path(__file__).parent / "certificate.pem")
KEY = str(Path(__file__).parent / "certificate.key")
ENCRYPTED = ClusterSettings(certificate=CERTIFICATE, key=KEY, silence=60.0)


@pytest.mark.more
@pytest.mark.both_loops
async def test_calls_stderr_and_the_exit_status_are_sent_over_tls() -> None:
    async with remote(cluster=ENCRYPTED, restart={"strategy": "immediate"}) as r:
        extension = await r.extension.start()
        assert await extension.call("echo", {"x": 1}) == {"x": 1}
        large = "x" * 3_000_000
        assert await extension.call("echo", large) == large
        answers = await asyncio.gather(*(extension.call("echo", n) for n in range(200)))
        assert answers == list(range(200))
        error = await error_of(extension.call("leave", {"code": 3}))
        assert error.evidence.exit == "exited with 3"
        assert error.evidence.stderr == ("leaving, as I was told",)

        assert await extension.call("echo", 2) == 2
        (pid,), child = r.node_pids, extension.stats.pid or 0
        os.kill(pid, signal.SIGKILL)
        await wait_until(lambda: not is_running(child) and extension.stats.crashes == 2)
        assert await extension.call("echo", 3) == 3


@pytest.mark.more
async def test_a_frozen_node_with_encrypted_connections_is_detected() -> None:
    cluster = ClusterSettings(certificate=CERTIFICATE, key=KEY, silence=2.0)
    async with remote(cluster=cluster) as r:
        extension = await r.extension.start()
        (pid,), child = r.node_pids, extension.stats.pid or 0
        call_in_flight = asyncio.create_task(error_of(extension.call("keep", 1)))
        await wait_until(lambda: extension.stats.in_flight == 1)
        os.kill(pid, signal.SIGSTOP)
        assert isinstance(await call_in_flight, ExtensionGone)
        await wait_until(lambda: not is_running(child) and not is_running(pid))


async def test_a_node_does_not_connect_to_a_host_with_another_certificate() -> None:
    listener = NodeListener(ENCRYPTED)
    await listener.open()
    nonce, expected = listener.expect()
    correct_host = HostAddress(listener.address, listener.certificate)
    wrong_host = HostAddress(listener.address, "0" * 64)
    try:
        with pytest.raises(OSError, match="certificate"):
            await asyncio.to_thread(wrong_host.connect, nonce)
        assert not expected.done()  # the nonce was not sent
        node_connection = await asyncio.to_thread(correct_host.connect, nonce)
        host_connection = await expected
        node_connection.sendall(b"hello")
        assert await asyncio.get_running_loop().sock_recv(host_connection, 100) == b"hello"
        node_connection.close()
        assert await asyncio.get_running_loop().sock_recv(host_connection, 100) == b""
        host_connection.close()
    finally:
        await asyncio.to_thread(correct_host.close)
        await asyncio.to_thread(wrong_host.close)
        await listener.close()


async def test_a_client_without_encryption_is_not_admitted() -> None:
    listener = NodeListener(ENCRYPTED)
    await listener.open()
    nonce, expected = listener.expect()
    host, _, port = listener.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(nonce.encode() + b"\n")
    while await reader.read(100):  # an alert of TLS
        pass
    assert not expected.done()
    writer.close()
    await listener.close()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"certificate": CERTIFICATE}, "together"),
        ({"key": KEY}, "together"),
        ({"listen": "0.0.0.0:0"}, "set certificate and key, or insecure = true"),
    ],
)
def test_mistakes_in_the_encryption_settings_are_reported(
    settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        exthost.Host.from_config({"extensions": [], "cluster": settings})
    assert reason in str(caught.value)


def test_relative_paths_are_relative_to_the_folder_of_the_config(tmp_path: Path) -> None:
    config = tmp_path / "exthost.toml"
    config.write_text('[cluster]\ncertificate = "cluster.pem"\nkey = "keys/cluster.key"\n')
    cluster = read_config(config).cluster
    assert cluster.certificate == str(tmp_path / "cluster.pem")
    assert cluster.key == str(tmp_path / "keys/cluster.key")


@pytest.mark.parametrize("files", [("/nowhere.pem", KEY), (KEY, KEY), (CERTIFICATE, CERTIFICATE)])
async def test_files_that_are_not_a_certificate_with_its_key_are_reported(
    files: tuple[str, str],
) -> None:
    certificate, key = files
    with pytest.raises(ConfigError) as caught:
        await NodeListener(ClusterSettings(certificate=certificate, key=key)).open()
    assert caught.value.code == "X0172"


async def test_a_public_address_without_encryption_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.2", 0)):  # not one of the known loopback names
        pass
    with caplog.at_level(logging.WARNING, "exthost.cluster"):
        listener = NodeListener(ClusterSettings(host="127.0.0.2"))
        await listener.open()
        await listener.close()
    assert "not encrypted" in caplog.text
    caplog.clear()
    listener = NodeListener(ClusterSettings(host="127.0.0.2", certificate=CERTIFICATE, key=KEY))
    await listener.open()
    await listener.close()
    assert caplog.text == ""
