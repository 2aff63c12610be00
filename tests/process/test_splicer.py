"""The splicer, a small C program that moves bytes from one socket to another for a network proxy.

The proxy of an extension gives it both sockets of a large transfer, one direction at a time
(`Splicer.take`), and is notified of the outcome. The splicer here is a real process.
"""

import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exthost.process import splicer_process
from exthost.process.proxy_server import ReadinessLoop
from exthost.process.splicer import SpliceOutcome, Splicer
from exthost.process.splicer_process import start_splicer
from exthost.process.splicercode import SPLICER

WAIT_SECONDS = 30.0
# The size of the buffers of each socket: small, so that little data fills them. (The kernel doubles
# the value.)
BUFFER_BYTES = 64 * 1024

# The socket to the proxy and an epoll; and for a transfer its source, its target and both ends of a
# pipe.
DESCRIPTORS_WITH_ONE_TRANSFER = 6


class Spliced:
    """A splicer, the loop that it runs on, and the outcomes so far."""

    def __init__(self) -> None:
        started = start_splicer()
        assert started is not None
        self.process, channel = started
        self.loop = ReadinessLoop()
        self.splicer = Splicer(self.loop, channel)
        self.outcomes: list[SpliceOutcome] = []

    def close(self) -> None:
        self.splicer.close()
        self.loop.close()
        assert self.process.wait(WAIT_SECONDS) in (0, -signal.SIGKILL)

    def take(self, source: socket.socket, target: socket.socket) -> int:
        return self.splicer.take(source.fileno(), target.fileno(), self.outcomes.append)

    def until(self, condition: Callable[[], object]) -> None:
        """Run the loop until the condition is true."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline
            self.loop.run_once(0.05)

    def until_outcomes(self, *outcomes: SpliceOutcome) -> None:
        self.until(lambda: len(self.outcomes) >= len(outcomes))
        assert tuple(self.outcomes) == outcomes


@pytest.fixture
def spliced() -> Iterator[Spliced]:
    if os.uname().machine not in SPLICER:
        pytest.skip(f"there is no splicer for {os.uname().machine}")
    spliced = Spliced()
    yield spliced
    spliced.close()


class Ends:
    """Two connections: what is sent to `first` can be read from `source`, and what is sent to
    `target` can be read from `last`."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.first, self.source = _connect(listener)
            self.last, self.target = _connect(listener)
        self.source.setblocking(False)
        self.target.setblocking(False)
        for end in (self.first, self.source, self.last, self.target):
            for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.setsockopt(socket.SOL_SOCKET, buffer, BUFFER_BYTES)

    def close(self) -> None:
        for end in (self.first, self.source, self.last, self.target):
            end.close()


def _connect(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection(listener.getsockname(), WAIT_SECONDS)
    server, _ = listener.accept()
    server.settimeout(WAIT_SECONDS)
    return client, server


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.close()


def test_all_bytes_are_moved_and_the_end_is_reported(spliced: Spliced, ends: Ends) -> None:
    assert spliced.take(ends.source, ends.target)
    sent, received = bytearray(), bytearray()
    ends.first.setblocking(False)
    ends.last.setblocking(False)
    payload = os.urandom(64 * BUFFER_BYTES)  # more than the buffers on the way

    def send() -> None:
        sent.extend(payload[len(sent) : len(sent) + ends.first.send(payload[len(sent) :])])
        if len(sent) == len(payload):
            spliced.loop.set_writer(ends.first.fileno(), None)
            ends.first.shutdown(socket.SHUT_WR)

    def receive() -> None:
        received.extend(ends.last.recv(2**20))

    def is_stalled() -> bool:
        before = len(sent)
        spliced.loop.run_once(0.1)
        return len(sent) == before

    # Nothing is read at first, so that the target has no room.
    spliced.loop.set_writer(ends.first.fileno(), send)
    spliced.until(is_stalled)
    assert len(sent) < len(payload)
    spliced.loop.set_reader(ends.last.fileno(), receive)
    spliced.until(lambda: spliced.outcomes and len(received) == len(payload))
    spliced.loop.set_reader(ends.last.fileno(), None)
    assert received == payload and spliced.outcomes == [SpliceOutcome.ENDED]


def test_the_target_stays_open_for_the_proxy(spliced: Spliced, ends: Ends) -> None:
    spliced.take(ends.source, ends.target)
    ends.first.sendall(b"one")
    ends.first.shutdown(socket.SHUT_WR)
    spliced.until_outcomes(SpliceOutcome.ENDED)
    ends.target.send(b"two")
    ends.target.close()
    received = b""
    while data := ends.last.recv(100):  # this would not end if the splicer had a copy of `target`
        received += data
    assert received == b"onetwo"


def test_a_target_that_is_gone_is_a_failure(spliced: Spliced, ends: Ends) -> None:
    spliced.take(ends.source, ends.target)
    ends.target.shutdown(socket.SHUT_RDWR)
    ends.first.sendall(b"one")
    spliced.until_outcomes(SpliceOutcome.FAILED)
    assert spliced.process.poll() is None  # SIGPIPE did not end it


def test_a_source_that_is_reset_is_a_failure(spliced: Spliced, ends: Ends) -> None:
    spliced.take(ends.source, ends.target)
    ends.first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ends.first.close()
    spliced.until_outcomes(SpliceOutcome.FAILED)


def test_a_forgotten_direction_is_not_reported(spliced: Spliced, ends: Ends) -> None:
    number = spliced.take(ends.source, ends.target)
    spliced.splicer.forget(number)
    ends.source.shutdown(socket.SHUT_RDWR)
    other = Ends()
    spliced.take(other.source, other.target)
    other.first.close()
    spliced.until_outcomes(SpliceOutcome.ENDED)
    other.close()


def test_a_splicer_that_is_killed_fails_its_directions_and_takes_no_others(
    spliced: Spliced, ends: Ends
) -> None:
    spliced.take(ends.source, ends.target)
    spliced.process.kill()
    spliced.until_outcomes(SpliceOutcome.FAILED)
    assert spliced.take(ends.source, ends.target) == 0


def test_a_closed_splicer_has_closed_its_copies(spliced: Spliced, ends: Ends) -> None:
    spliced.take(ends.source, ends.target)
    spliced.splicer.close()
    assert spliced.process.wait(WAIT_SECONDS) == 0
    ends.source.close()
    ends.target.close()
    assert ends.first.recv(1) == ends.last.recv(1) == b""


# Its socket to the proxy and its epoll are open. There is room for one descriptor, or for two and
# no pipe.
@pytest.mark.parametrize("files", [3, 4])
def test_a_splicer_without_descriptors_takes_nothing(
    spliced: Spliced, ends: Ends, files: int
) -> None:
    spliced.take(ends.source, ends.target)  # the program is executed, and has answered
    ends.first.shutdown(socket.SHUT_WR)
    spliced.until_outcomes(SpliceOutcome.ENDED)
    pid, other = spliced.process.pid, Ends()
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, hard))
    spliced.take(other.source, other.target)
    spliced.until_outcomes(SpliceOutcome.ENDED, SpliceOutcome.NOT_TAKEN)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, hard))
    other.first.sendall(b"one")
    spliced.take(other.source, other.target)
    assert other.last.recv(3) == b"one"
    assert len([*Path(f"/proc/{pid}/fd").iterdir()]) == DESCRIPTORS_WITH_ONE_TRANSFER
    other.first.close()
    spliced.until_outcomes(SpliceOutcome.ENDED, SpliceOutcome.NOT_TAKEN, SpliceOutcome.ENDED)
    other.close()


def test_the_splicer_inherits_nothing(ends: Ends) -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    spliced = Spliced()
    spliced.take(ends.source, ends.target)
    ends.first.sendall(b"one")
    assert ends.last.recv(3) == b"one"
    descriptors = [*Path(f"/proc/{spliced.process.pid}/fd").iterdir()]
    assert len(descriptors) == DESCRIPTORS_WITH_ONE_TRANSFER
    os.close(write_end)
    os.set_blocking(read_end, False)
    assert os.read(read_end, 1) == b""
    os.close(read_end)
    spliced.close()


def test_a_machine_without_a_program_has_no_splicer(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splicer_process, "SPLICER", {})
    assert start_splicer() is None
    loop = ReadinessLoop()
    assert Splicer(loop, -1).take(ends.source.fileno(), ends.target.fileno(), print) == 0
    loop.close()


def test_a_program_that_cannot_be_executed_is_no_splicer(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = os.uname().machine
    monkeypatch.setattr(splicer_process, "SPLICER", {machine: b"not a program"})
    assert start_splicer() is None
