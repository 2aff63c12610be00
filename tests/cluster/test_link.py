"""`Link`, one end of a connection between a host and an agent on another node.

A link divides one socket into numbered streams (its multiplexer). A sender may send as much of a
stream as the receiver has granted, its window, and keeps what the socket does not accept at once.
Most tests run with a plain and with an encrypted connection.
"""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from exthost.cluster.certificates import make_certificates
from exthost.cluster.link import MAX_UNSENT_BYTES, Link, NodeConnection
from exthost.cluster.multiplexer import WINDOW_BYTES, Kind
from exthost.cluster.tls import HOST_NAME, TlsSession

STREAM = 1


def sessions(folder: Path) -> tuple[TlsSession, TlsSession]:
    """Return both ends of a TLS session, after the handshake."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(folder / "host.pem", folder / "host.key")
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.load_verify_locations(folder / "ca.pem")
    server = TlsSession(server_context, server_side=True)
    client = TlsSession(client_context, server_hostname=HOST_NAME)
    received = b""
    while not (server.is_established and client.is_established):
        received = server.shake_hands(client.shake_hands(received))
    client.receive(received)  # tickets for later sessions
    return server, client


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates") / "cluster"
    make_certificates(folder)
    return folder


@pytest.fixture(params=["plain", "encrypted"])
def ends(
    request: pytest.FixtureRequest, certificates: Path
) -> Iterator[tuple[Link, Link, list[bool]]]:
    """Yield a sender and a receiver of one stream, and what the sender asked its event loop: to
    watch until its socket is writable, or to stop."""
    sockets = socket.socketpair()
    tls = sessions(certificates) if request.param == "encrypted" else (None, None)
    watches: list[bool] = []
    for end in sockets:
        end.setblocking(False)
    sender = Link(NodeConnection(sockets[0], tls[0]), watches.append)
    receiver = Link(NodeConnection(sockets[1], tls[1]), lambda is_waiting: None)
    sender.multiplexer.open_outgoing(STREAM)
    receiver.multiplexer.open_incoming(STREAM)
    yield sender, receiver, watches
    sender.close()
    receiver.close()


def receive_all(receiver: Link) -> bytes:
    """Return the data of the stream that has arrived, and consume it."""
    data = b""
    while True:
        try:
            events = receiver.decode(receiver.read())
        except BlockingIOError:
            return data
        for kind, stream, payload in events:
            assert (kind, stream) == (Kind.DATA, STREAM)
            data += payload
            receiver.perform(receiver.multiplexer.consume, stream, len(payload))


def receive_credit(sender: Link) -> None:
    try:
        while True:
            sender.decode(sender.read())
    except BlockingIOError:
        pass


def test_small_data_is_sent_at_once(ends: tuple[Link, Link, list[bool]]) -> None:
    sender, receiver, watches = ends
    for number in range(3):
        data = b"message %d" % number
        assert sender.send(STREAM, data) == len(data)
        assert receive_all(receiver) == data
    assert watches == []


def test_data_that_the_socket_does_not_accept_is_sent_later_in_order(
    ends: tuple[Link, Link, list[bool]],
) -> None:
    sender, receiver, watches = ends
    sent = received = b""
    for round_number in range(6):
        while not sender.unsent_bytes:
            piece = b"%d" % round_number * (1000 if round_number % 2 else 60_000)
            count = sender.send(STREAM, piece)
            sent += piece[:count]
            if not count:  # the window of the stream is used up before the socket is full
                break
        sent += b"small"[: sender.send(STREAM, b"small")]
        while sender.unsent_bytes:
            received += receive_all(receiver)
            sender.flush()
        received += receive_all(receiver)
        receive_credit(sender)
    assert received == sent and len(sent) > WINDOW_BYTES
    assert watches and watches == [True, False] * (len(watches) // 2)


def test_a_sender_accepts_no_more_than_the_limit_while_the_peer_does_not_read(
    ends: tuple[Link, Link, list[bool]],
) -> None:
    sender, _, _ = ends
    for stream in range(2, 40):
        sender.multiplexer.open_outgoing(stream)
        sender.send(stream, bytes(WINDOW_BYTES))
    assert not sender.has_room
    assert sender.unsent_bytes < MAX_UNSENT_BYTES + 2 * WINDOW_BYTES


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_encrypted_data_can_arrive_in_pieces_of_any_size(certificates: Path, size: int) -> None:
    server, client = sessions(certificates)
    data = bytes(range(256)) * 200  # several records
    encrypted = server.encrypt([b"first", data])
    pieces = [encrypted[start : start + size] for start in range(0, len(encrypted), size)]
    assert b"".join(map(client.decrypt, pieces)) == b"first" + data


def test_the_end_of_a_tls_session_ends_the_connection(certificates: Path) -> None:
    server, client = sessions(certificates)
    encrypted = server.encrypt([b"last"])
    with pytest.raises(ssl.SSLWantReadError):
        server._object.unwrap()
    encrypted += server._outgoing.read()
    assert client.decrypt(encrypted) == b"last"
    with pytest.raises(ConnectionError):
        client.decrypt(b"more")


def test_changed_bytes_end_the_connection(certificates: Path) -> None:
    server, client = sessions(certificates)
    encrypted = bytearray(server.encrypt([b"data"]))
    encrypted[-1] ^= 1
    with pytest.raises(OSError):
        client.decrypt(bytes(encrypted))


def test_sending_after_an_alert_of_the_peer_raises_nothing(certificates: Path) -> None:
    server, client = sessions(certificates)
    encrypted = bytearray(client.encrypt([b"data"]))
    encrypted[-1] ^= 1
    with pytest.raises(OSError):
        server.decrypt(bytes(encrypted))
    ours, peer = socket.socketpair()
    link = Link(NodeConnection(ours, client), lambda is_waiting: None)
    link.multiplexer.open_outgoing(STREAM)
    peer.sendall(server._outgoing.read())
    with pytest.raises(OSError, match="alert"):
        link.read()
    link.send_message(0, {"farewell": ""})
    assert link.send(STREAM, b"data") == 4
    link.close()
    peer.close()
