"""A relay moves every byte, waits for a full target, and closes both ends."""

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


def test_the_rest_of_the_source_is_moved_also_at_its_end(poller: Poller) -> None:
    source, ours = os.pipe()
    theirs, target = os.pipe()
    relay = Relay(poller, source, target)
    os.write(ours, b"last")
    assert relay.drain()
    os.write(ours, b" words")
    os.close(ours)
    assert relay.drain()
    assert relay.has_ended
    assert os.read(theirs, 100) == b"last words"
    assert os.read(theirs, 100) == b""
    os.close(theirs)


def test_a_full_target_stops_the_source(poller: Poller) -> None:
    source, ours = os.pipe()
    theirs, target = os.pipe()
    os.set_blocking(ours, False)
    relay = Relay(poller, source, target)
    written = b""
    for _ in range(100):
        data = os.urandom(50_000)
        try:
            written += data[: os.write(ours, data)]
        except BlockingIOError:
            break
        relay.move()
    assert not relay.drain()
    read = b""
    while len(read) < len(written):
        read += os.read(theirs, 7_000)  # the relay has a rest to write each time
        relay.drain()
    assert read == written, "each byte, in its order"
    assert relay.drain()
    relay.close()
    for fd in (ours, theirs):
        os.close(fd)


def test_a_poller_calls_ready_descriptors_and_forgets_removed_ones(poller: Poller) -> None:
    readable, ours = os.pipe()
    full, writable = os.pipe()
    called: list[str] = []
    poller.on_readable(readable, lambda: called.append("read"))
    poller.wait(0)
    assert called == []
    os.write(ours, b"x")
    poller.on_writable(writable, lambda: called.append("write"))
    poller.wait(30)
    assert sorted(called) == ["read", "write"]
    poller.forget(writable)
    poller.wait(30)
    assert sorted(called) == ["read", "read", "write"]
    for fd in (readable, ours, full, writable):
        os.close(fd)


def test_a_descriptor_that_an_earlier_callback_gave_up_is_not_called(poller: Poller) -> None:
    pipes = [os.pipe(), os.pipe()]
    called: list[int] = []

    def call(index: int) -> None:
        called.append(index)
        poller.forget(pipes[1 - index][0])

    for index, (readable, ours) in enumerate(pipes):
        poller.on_readable(readable, partial(call, index))
        os.write(ours, b"x")
    poller.wait(30)
    assert len(called) == 1
    for pipe in pipes:
        for fd in pipe:
            os.close(fd)
