"""A `Relay` moves every byte, waits while the target is full, and closes both ends."""

import os
from collections.abc import Iterator
from functools import partial

import pytest

from exthost.cluster.poller import Poller
from exthost.cluster.relay import Relay


@pytest.fixture
def poller() -> Iterator[Poller]:
    poller = Poller()
    yield poller
    poller.close()


def test_drain_moves_the_remaining_bytes_also_after_the_end_of_the_source(poller: Poller) -> None:
    source, our_end = os.pipe()
    their_end, target = os.pipe()
    relay = Relay(poller, source, target)
    os.write(our_end, b"last")
    assert relay.drain()
    os.write(our_end, b" bytes")
    os.close(our_end)
    assert relay.drain()
    assert relay.has_ended
    assert os.read(their_end, 100) == b"last bytes"
    assert os.read(their_end, 100) == b""
    os.close(their_end)


def test_a_full_target_stops_the_source(poller: Poller) -> None:
    source, our_end = os.pipe()
    their_end, target = os.pipe()
    os.set_blocking(our_end, False)
    relay = Relay(poller, source, target)
    written_bytes = b""
    for _ in range(100):
        data = os.urandom(50_000)
        try:
            written_bytes += data[: os.write(our_end, data)]
        except BlockingIOError:
            break
        relay.move()
    assert not relay.drain()
    read_bytes = b""
    while len(read_bytes) < len(written_bytes):
        read_bytes += os.read(their_end, 7_000)  # the relay has unwritten bytes each time
        relay.drain()
    assert read_bytes == written_bytes, "all bytes in order"
    assert relay.drain()
    relay.close()
    for fd in (our_end, their_end):
        os.close(fd)


def test_a_poller_calls_ready_descriptors_and_forgets_removed_ones(poller: Poller) -> None:
    readable, our_end = os.pipe()
    full, writable = os.pipe()
    calls: list[str] = []
    poller.on_readable(readable, lambda: calls.append("read"))
    poller.wait(0)
    assert calls == []
    os.write(our_end, b"x")
    poller.on_writable(writable, lambda: calls.append("write"))
    poller.wait(30)
    assert sorted(calls) == ["read", "write"]
    poller.forget(writable)
    poller.wait(30)
    assert sorted(calls) == ["read", "read", "write"]
    for fd in (readable, our_end, full, writable):
        os.close(fd)


def test_a_descriptor_that_an_earlier_callback_removed_is_not_called(poller: Poller) -> None:
    pipes = [os.pipe(), os.pipe()]
    calls: list[int] = []

    def call(index: int) -> None:
        calls.append(index)
        poller.forget(pipes[1 - index][0])

    for index, (readable, our_end) in enumerate(pipes):
        poller.on_readable(readable, partial(call, index))
        os.write(our_end, b"x")
    poller.wait(30)
    assert len(calls) == 1
    for pipe in pipes:
        for fd in pipe:
            os.close(fd)
