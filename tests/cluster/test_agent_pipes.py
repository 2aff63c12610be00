"""How an agent, which runs processes on another node, relays their pipes to the host.

`PipeWriter` writes what the host sends into the stdin of a process, and `PipeReader` sends what the
process writes to its stdout. Each is a stream of the connection, with credit: the number of bytes
that the receiver still accepts. The pipes are real; the connection only records what it would send.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import NamedTuple, cast

import pytest

from exthost.cluster.agent_process import _LARGE_READ_BYTES, _READ_BYTES, PipeReader, PipeWriter
from exthost.cluster.link import MAX_UNSENT_BYTES, Link
from exthost.cluster.multiplexer import CONSUME_BYTES
from exthost.cluster.poller import Poller
from tests.cluster.fake_link import FakeLink

STREAM = 5


@pytest.fixture
def poller() -> Iterator[Poller]:
    poller = Poller()
    yield poller
    poller.close()


class PipeEnds(NamedTuple):
    """The descriptors of a pipe."""

    read_end: int
    write_end: int


@pytest.fixture
def pipe() -> Iterator[PipeEnds]:
    """Both ends of a pipe. Those that neither the relay nor the test has closed are closed here."""
    ends = PipeEnds(*os.pipe())
    os.set_blocking(ends.read_end, False)
    inode = os.fstat(ends.read_end).st_ino
    yield ends
    for fd in ends:
        with contextlib.suppress(OSError):
            if os.fstat(fd).st_ino == inode:  # else the number has another file by now
                os.close(fd)


def make_writer(poller: Poller, pipe: PipeEnds) -> tuple[PipeWriter, FakeLink]:
    link = FakeLink()
    writer = PipeWriter(cast(Link, link), STREAM, poller, pipe.write_end)
    link.performed.clear()
    return writer, link


def state_of(reader: PipeReader) -> str:
    if reader.has_ended:
        return "ended"
    return "paused" if reader.is_paused else "reading"


def make_reader(poller: Poller, pipe: PipeEnds) -> tuple[PipeReader, FakeLink]:
    link = FakeLink()
    link.multiplexer.credits[STREAM] = 2**20
    reader = PipeReader(cast(Link, link), STREAM, poller, pipe.read_end)
    link.performed.clear()
    return reader, link


def test_data_that_fits_is_written_at_once_and_the_end_closes_the_pipe(
    poller: Poller, pipe: PipeEnds
) -> None:
    writer, link = make_writer(poller, pipe)
    writer.feed(b"abc")
    assert os.read(pipe.read_end, 9) == b"abc" and link.performed == []
    writer.end()
    assert os.read(pipe.read_end, 9) == b""
    writer.feed(b"late")
    writer.close()
    assert link.performed == []


def test_data_that_does_not_fit_is_written_when_the_pipe_has_room(
    poller: Poller, pipe: PipeEnds
) -> None:
    writer, link = make_writer(poller, pipe)
    data = os.urandom(3 * 2**20)
    writer.feed(data)
    writer.feed(b"more")
    writer.end()
    received = b""
    while len(received) < len(data) + 4:
        received += os.read(pipe.read_end, 2**20)
        poller.wait(0)
    assert received == data + b"more"
    assert os.read(pipe.read_end, 9) == b""
    # The host is told how much was written ("consume"), now and then, and once that it may send
    # more at a time ("widen").
    consumed = sum(item[2] for item in link.performed if item[0] == "consume")
    assert len(received) - CONSUME_BYTES < consumed <= len(received)
    assert [item[0] for item in link.performed].count("widen") == 1


def test_the_host_may_send_more_only_when_the_process_has_read(
    poller: Poller, pipe: PipeEnds
) -> None:
    writer, link = make_writer(poller, pipe)
    writer.feed(bytes(2**20))
    poller.wait(0)
    assert ("widen", STREAM) not in link.performed
    os.read(pipe.read_end, 2**16)
    poller.wait(0)
    assert ("widen", STREAM) in link.performed


def test_the_stream_is_reset_if_nothing_reads_the_pipe(poller: Poller, pipe: PipeEnds) -> None:
    writer, link = make_writer(poller, pipe)
    os.close(pipe.read_end)
    writer.feed(b"abc")
    assert link.performed == [("reset", STREAM)]


def test_a_closed_writer_with_unwritten_data_is_not_called_any_more(
    poller: Poller, pipe: PipeEnds
) -> None:
    writer, _ = make_writer(poller, pipe)
    writer.feed(bytes(3 * 2**20))
    writer.close()
    assert not poller._callbacks


def test_output_is_sent_and_the_end_of_the_pipe_ends_the_stream(
    poller: Poller, pipe: PipeEnds
) -> None:
    reader, link = make_reader(poller, pipe)
    assert not reader.read() and state_of(reader) == "reading"
    os.write(pipe.write_end, b"abc")
    assert reader.read() and link.sent == b"abc"
    os.close(pipe.write_end)
    assert not reader.read()
    assert state_of(reader) == "ended" and not reader.is_paused
    assert link.performed == [("end", STREAM)]
    reader.close()
    reader.resume()
    assert not reader.read() and link.performed == [("end", STREAM)]


@pytest.mark.parametrize(("credit", "unsent"), [(0, 0), (9, MAX_UNSENT_BYTES)])
def test_a_reader_without_credit_or_room_pauses_until_it_is_resumed(
    poller: Poller, pipe: PipeEnds, credit: int, unsent: int
) -> None:
    reader, link = make_reader(poller, pipe)
    os.write(pipe.write_end, b"abc")
    link.multiplexer.credits[STREAM], link.unsent_bytes = credit, unsent
    assert not reader.read() and state_of(reader) == "paused" and link.sent == b""
    link.multiplexer.credits[STREAM], link.unsent_bytes = 2, MAX_UNSENT_BYTES - 1
    reader.resume()
    reader.resume()
    assert state_of(reader) == "reading"
    poller.wait(0)
    assert link.sent == b"ab"  # no more than the credit
    reader.close()


def test_a_full_read_makes_the_next_reads_larger(poller: Poller, pipe: PipeEnds) -> None:
    reader, _ = make_reader(poller, pipe)
    os.write(pipe.write_end, bytes(_READ_BYTES - 1))
    reader.read()
    assert reader._read_bytes == _READ_BYTES
    os.write(pipe.write_end, bytes(_READ_BYTES))
    reader.read()
    assert reader._read_bytes == _LARGE_READ_BYTES
    reader.close()


def test_each_descriptor_calls_its_own_function(poller: Poller, pipe: PipeEnds) -> None:
    calls: list[str] = []
    poller.on_readable(pipe.read_end, lambda: calls.append("readable"))
    poller.wait(0)
    assert calls == []
    poller.on_writable(pipe.write_end, lambda: calls.append("writable"))
    poller.wait(0)
    assert calls == ["writable"]
    poller.forget(pipe.write_end)
    os.write(pipe.write_end, b"a")
    poller.wait(0)
    assert calls == ["writable", "readable"]
    poller.forget(pipe.read_end)


def test_a_socket_can_be_watched_for_both_directions(poller: Poller) -> None:
    first, second = socket.socketpair()
    with first, second:
        calls: list[str] = []
        poller.on_readable(first.fileno(), lambda: calls.append("readable"))
        poller.watch_writable(first.fileno(), True, lambda: calls.append("writable"))
        poller.wait(0)
        assert calls == ["writable"]
        second.send(b"a")
        poller.wait(0)
        assert calls == ["writable"] * 2 + ["readable"]
        poller.watch_writable(first.fileno(), False, lambda: calls.append("writable"))
        poller.wait(0)
        assert calls == ["writable"] * 2 + ["readable"] * 2
        poller.forget(first.fileno())
