"""Acknowledgements of connections that only receive data are delayed."""

import os
import socket

from exthost.cluster.delayed_acks import delay_acknowledgements
from exthost.cluster.poller import Poller
from exthost.cluster.relay import Relay


def make_connection() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname(), timeout=10)
        far, _ = server.accept()
    return near, far


def is_immediate(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


def test_acknowledgements_of_a_connection_are_delayed() -> None:
    near, far = make_connection()
    with near, far:
        assert is_immediate(near)
        delay_acknowledgements(near.fileno())
        assert not is_immediate(near)
        far.sendall(b"still open")
        assert near.recv(100) == b"still open"


def test_a_socket_to_the_encryption_is_left_unchanged() -> None:
    near, far = socket.socketpair()
    with near, far:
        delay_acknowledgements(near.fileno())
        far.sendall(b"still open")
        assert near.recv(100) == b"still open"


def test_a_descriptor_that_is_not_a_socket_is_ignored() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    delay_acknowledgements(null)
    os.close(null)


def test_a_closed_relay_does_not_change_a_connection_with_the_same_number() -> None:
    near, far = make_connection()
    read_end, write_end = os.pipe()
    poller = Poller()
    relay = Relay(poller, number := near.detach(), write_end)
    relay.close()
    other, another = make_connection()
    os.dup2(other.fileno(), number)  # as if the new connection had the old number
    relay.delay_acknowledgements()
    assert is_immediate(other)
    for connection in (far, other, another):
        connection.close()
    for fd in {number, read_end}:
        os.close(fd)
    poller.close()
