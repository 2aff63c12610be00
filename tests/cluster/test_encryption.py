"""TLS between a host and its agents, the programs that run processes of extensions on other nodes.

An agent connects to the host's `NodeListener`. If that can be reached from other machines, the
connection is encrypted, and each end proves by a certificate of the cluster that it is a host or a
node. An agent also sends a nonce, a secret that the host expects from it. `remote(…)` runs an
extension whose nodes are processes on this machine.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import exthost
from exthost.cluster.certificates import make_certificates, renew_certificates
from exthost.cluster.link import NodeConnection
from exthost.cluster.node_listener import NodeListener
from exthost.cluster.tls import HostCertificates, connect_as_node
from exthost.config.cluster import ClusterSettings
from exthost.config.discovery.configfile import read_config
from exthost.errors import ConfigError, ExtensionGone
from tests.cluster.remote import remote
from tests.extensions.harness import error_of, wait_until
from tests.extensions.proc import is_running, our_descriptors


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates") / "cluster"
    make_certificates(folder)
    return folder


@pytest.fixture
def encrypted(certificates: Path) -> ClusterSettings:
    return ClusterSettings(certificates=str(certificates), is_encrypted=True, silence=60.0)


@pytest.mark.more
@pytest.mark.both_loops
async def test_calls_stderr_and_the_exit_status_are_sent_over_tls(
    encrypted: ClusterSettings,
) -> None:
    async with remote(cluster=encrypted, restart={"strategy": "immediate"}) as r:
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
        (pid,), child = r.agent_pids, extension.stats.pid or 0
        os.kill(pid, signal.SIGKILL)
        await wait_until(lambda: not is_running(child) and extension.stats.pid != child)
        assert await extension.call("echo", 3) == 3


async def count_host_descriptors(cluster: ClusterSettings, processes: int) -> int:
    """Return how many file descriptors the host needs for this many processes on one node."""
    pool = {"engine": "local", "min": processes, "max": processes}
    before = len(our_descriptors())
    async with remote(nodes=1, cluster=cluster, pool=pool) as r:
        await r.extension.start()
        await wait_until(lambda: r.extension.stats.processes == processes)
        return len(our_descriptors()) - before


@pytest.mark.more
@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_the_host_needs_no_more_descriptors_for_more_processes_on_a_node(
    encrypted: ClusterSettings, is_encrypted: bool
) -> None:
    cluster = encrypted if is_encrypted else ClusterSettings(silence=60.0)
    for_one = await count_host_descriptors(cluster, 1)
    assert await count_host_descriptors(cluster, 6) == for_one


@pytest.mark.more
async def test_a_frozen_node_with_an_encrypted_connection_is_detected(
    encrypted: ClusterSettings,
) -> None:
    async with remote(cluster=replace(encrypted, silence=2.0)) as r:
        extension = await r.extension.start()
        (pid,), child = r.agent_pids, extension.stats.pid or 0
        call_in_flight = asyncio.create_task(error_of(extension.call("keep", 1)))
        await wait_until(lambda: extension.stats.in_flight == 1)
        os.kill(pid, signal.SIGSTOP)
        assert isinstance(await call_in_flight, ExtensionGone)
        await wait_until(lambda: not is_running(child) and not is_running(pid))


async def connect(listener: NodeListener, folder: Path, nonce: str = "") -> NodeConnection:
    """Connect as an agent with the certificates of this folder, and send the nonce."""
    host, _, port = listener.address.rpartition(":")

    def work() -> NodeConnection:
        connection = socket.create_connection((host, int(port)), timeout=30)
        try:
            session = connect_as_node(connection, str(folder))
            connection.sendall(session.encrypt([nonce.encode() + b"\n"]))
        except OSError:
            connection.close()
            raise
        return NodeConnection(connection, session)

    return await asyncio.to_thread(work)


async def is_refused(listener: NodeListener, folder: Path) -> bool:
    """Return whether a node with these certificates cannot connect, or is disconnected."""
    nonce, accepted = listener.expect()
    with contextlib.suppress(OSError):
        connection = await connect(listener, folder, nonce)
        try:
            # With TLS 1.3 a client learns by its first read that it was refused. Until then it
            # reads an alert, or tickets for later sessions.
            while await asyncio.to_thread(connection.socket.recv, 1000):
                pass
        finally:
            connection.close()
    return not accepted.done()


async def test_only_certificates_of_the_same_cluster_and_of_the_right_role_connect(
    encrypted: ClusterSettings, certificates: Path, tmp_path: Path
) -> None:
    make_certificates(tmp_path / "other")
    as_host = tmp_path / "as_host"
    shutil.copytree(certificates, as_host)
    for name in ("pem", "key"):
        shutil.copy(certificates / f"host.{name}", as_host / f"node.{name}")
    listener = NodeListener(encrypted)
    await listener.open()
    try:
        assert await is_refused(listener, tmp_path / "other")
        assert await is_refused(listener, as_host)  # a stolen certificate of another role
        assert await is_refused(listener, tmp_path / "nowhere")
        nonce, expected = listener.expect()
        connection = await connect(listener, certificates, nonce)
        (await expected).close()
        connection.close()
    finally:
        await listener.close()


@pytest.mark.more
async def test_a_node_whose_certificate_the_host_refuses_is_reported_at_once(
    encrypted: ClusterSettings, certificates: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    shutil.copytree(certificates, folder)
    for suffix in ("pem", "key"):  # of the wrong role
        shutil.copy(folder / f"host.{suffix}", folder / f"node.{suffix}")
    began = time.monotonic()
    async with remote(cluster=replace(encrypted, certificates=str(folder), place=300.0)) as r:
        error = await error_of(r.extension.start())
    assert error.code == "X0426" and "the host refused it" in error.message, error.message
    assert time.monotonic() - began < 150


async def test_an_agent_that_the_host_has_not_accepted_keeps_its_output_for_the_reason() -> None:
    listener = NodeListener(ClusterSettings())
    await listener.open()
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "exthost.cluster.agent"),
        *("--with", str(os.getpid()), listener.address),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    # The host does not know the nonce, so it closes the connection.
    _, output = await asyncio.wait_for(agent.communicate(b"unknown\n"), 60)
    await listener.close()
    assert agent.returncode == 1
    assert b"the host cannot be reached" in output and b"before its first message" in output


async def test_renewed_certificates_are_used_for_new_connections_without_a_restart(
    certificates: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    shutil.copytree(certificates, folder)
    listener = NodeListener(ClusterSettings(certificates=str(folder), is_encrypted=True))
    await listener.open()
    serial_numbers = set()
    try:
        for _ in range(2):
            nonce, expected = listener.expect()
            connection = await connect(listener, folder, nonce)
            assert connection.tls is not None
            serial_numbers.add(connection.tls.certificate_of_peer()["serialNumber"])
            (await expected).close()
            connection.close()
            await asyncio.to_thread(renew_certificates, folder)
    finally:
        await listener.close()
    assert len(serial_numbers) == 2


def test_the_last_pair_is_used_while_the_certificate_of_the_host_is_renewed(
    certificates: Path, tmp_path: Path
) -> None:
    folder, renewed = tmp_path / "cluster", tmp_path / "renewed"
    shutil.copytree(certificates, folder)
    shutil.copytree(certificates, renewed)
    renew_certificates(renewed)
    held = HostCertificates(str(folder))
    first = held.context()
    (renewed / "host.key").replace(folder / "host.key")
    os.utime(folder / "host.key", (1, 1))
    assert held.context() is first  # the new key does not belong to the old certificate
    with pytest.raises(ConfigError, match="KEY_VALUES_MISMATCH"):
        HostCertificates(str(folder)).context()
    (renewed / "host.pem").replace(folder / "host.pem")
    os.utime(folder / "host.pem", (1, 1))
    second = held.context()
    assert second is not first and held.context() is second
    # With another authority, or without a file, no connection is accepted.
    shutil.copy(certificates / "host.key", folder / "host.key")
    os.utime(folder / "ca.pem", (1, 1))
    with pytest.raises(ConfigError, match="KEY_VALUES_MISMATCH"):
        held.context()
    (folder / "host.pem").unlink()
    with pytest.raises(ConfigError, match="No such file"):
        held.context()


@pytest.mark.parametrize("name", ["file", "x" * 300, "file/below"])
def test_a_folder_that_cannot_be_written_is_reported(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written: ") as caught:
        make_certificates(tmp_path / name)
    assert caught.value.code == "X1980"


def test_a_renewal_that_fails_leaves_no_key(certificates: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    shutil.copytree(certificates, folder)
    (folder / "ca.pem").write_text("not a certificate")
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(ConfigError, match="openssl could not make a certificate"):
        renew_certificates(folder)
    assert {path.name for path in folder.iterdir()} == before
    (folder / "extensions.new").mkdir()
    with pytest.raises(ConfigError, match="cannot be written: Is a directory"):
        renew_certificates(folder)


def test_certificates_are_not_overwritten_and_keys_are_private(
    certificates: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        make_certificates(certificates)
    assert caught.value.code == "X1978"
    with pytest.raises(ConfigError) as caught:
        renew_certificates(tmp_path)
    assert caught.value.code == "X1979"
    for name in ("ca.key", "host.key", "node.key"):
        assert (certificates / name).stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in certificates.iterdir()) == [
        "ca.key", "ca.pem", "host.key", "host.pem", "node.key", "node.pem"
    ]  # fmt: skip


async def test_a_client_without_encryption_is_not_admitted(encrypted: ClusterSettings) -> None:
    listener = NodeListener(encrypted)
    await listener.open()
    nonce, expected = listener.expect()
    host, _, port = listener.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(nonce.encode() + b"\n")
    with contextlib.suppress(ConnectionResetError):
        while await reader.read(100):  # an alert of TLS
            pass
    assert not expected.done()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    await listener.close()


def test_an_address_for_other_machines_is_encrypted_unless_the_config_says_otherwise() -> None:
    def read(**settings: object) -> ClusterSettings:
        return exthost.Host.from_config({"extensions": [], "cluster": settings}).config.cluster

    assert read(listen="10.0.0.5:7700").is_encrypted
    assert read(listen="0.0.0.0:7700", advertise="example.org").is_encrypted
    assert not read(listen="10.0.0.5:7700", insecure=True).is_encrypted
    assert not read(listen="127.0.0.1:0").is_encrypted
    assert read(listen="127.0.0.1:0", certificates="/etc/x").is_encrypted


def test_a_relative_path_is_relative_to_the_folder_of_the_config(tmp_path: Path) -> None:
    config = tmp_path / "exthost.toml"
    config.write_text('[cluster]\ncertificates = "tls"\n')
    assert read_config(config).cluster.certificates == str(tmp_path / "tls")


async def test_missing_certificates_are_reported_with_the_command_that_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        await NodeListener(ClusterSettings(host="127.0.0.2", is_encrypted=True)).open()
    assert caught.value.code == "X0172" and str(tmp_path / "cluster") in caught.value.message
    assert "exthost cluster init" in caught.value.help


async def test_a_public_address_without_encryption_is_reported(
    caplog: pytest.LogCaptureFixture, certificates: Path
) -> None:
    with caplog.at_level(logging.WARNING, "exthost.cluster"):
        listener = NodeListener(ClusterSettings(host="0.0.0.0", advertise="127.0.0.1"))
        await listener.open()
        await listener.close()
    assert "not encrypted" in caplog.text
    caplog.clear()
    listener = NodeListener(
        ClusterSettings(
            host="0.0.0.0",
            advertise="127.0.0.1",
            certificates=str(certificates),
            is_encrypted=True,
        )
    )
    await listener.open()
    await listener.close()
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("advertise", "expected"),
    [
        ("", "127.0.0.1:{port}"),
        ("example.org", "example.org:{port}"),
        ("nat:99", "nat:99"),
        ("2001:db8::5", "[2001:db8::5]:{port}"),
        ("[2001:db8::5]", "[2001:db8::5]:{port}"),
        ("[2001:db8::5]:99", "[2001:db8::5]:99"),
    ],
)
async def test_agents_connect_to_the_advertised_address(advertise: str, expected: str) -> None:
    listener = NodeListener(ClusterSettings(advertise=advertise))
    await listener.open()
    assert listener._socket is not None
    port = listener._socket.getsockname()[1]
    assert listener.address == expected.format(port=port)
    await listener.close()
