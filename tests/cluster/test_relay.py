"""A relay moves every byte, waits for a full target, and closes both ends."""

import os
import selectors

from exthost.cluster.relay import Relay


def test_what_is_left_in_the_source_is_moved_also_at_its_end() -> None:
    source, ours = os.pipe()
    theirs, target = os.pipe()
    with selectors.DefaultSelector() as selector:
        relay = Relay(selector, source, target)
        os.write(ours, b"last")
        assert relay.drain()
        os.write(ours, b" words")
        os.close(ours)
        assert relay.drain()
        assert relay.has_ended
    assert os.read(theirs, 100) == b"last words"
    assert os.read(theirs, 100) == b""
    os.close(theirs)


def test_a_full_target_stops_the_source() -> None:
    source, ours = os.pipe()
    theirs, target = os.pipe()
    os.set_blocking(ours, False)
    with selectors.DefaultSelector() as selector:
        relay = Relay(selector, source, target)
        written = 0
        for _ in range(100):
            try:
                written += os.write(ours, b"x" * 65536)
            except BlockingIOError:
                break
            relay.move()
        assert not relay.drain()
        read = 0
        while read < written:
            read += len(os.read(theirs, 1 << 20))
            relay.drain()
        assert relay.drain()
        relay.close()
    for fd in (ours, theirs):
        os.close(fd)
