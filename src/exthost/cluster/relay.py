"""Moves bytes from one file descriptor to another, with back-pressure and without blocking.

One of the two is a pipe, so the kernel moves the bytes (`splice`) and they are not copied into this
process. While the target is full, the source is not read, so that the program that writes to the
source blocks in turn.
"""

import os
import select
from os import splice

from exthost.cluster.delayed_acks import delay_acknowledgements
from exthost.cluster.poller import Poller

# The most bytes of one move: the size of the pipes and of the socket buffers that are used here.
_MOVE_BYTES = 256 * 1024

_NONBLOCK = os.SPLICE_F_NONBLOCK


class Relay:
    """Moves bytes in one direction. It has ended (`has_ended`), with both file descriptors closed,
    at the end of the source or when the target is closed."""

    __slots__ = ("_poller", "_source", "_target", "_waits_for_target", "has_ended")

    def __init__(self, poller: Poller, source: int, target: int) -> None:
        os.set_blocking(source, False)
        os.set_blocking(target, False)
        self._poller = poller
        self._source = source
        self._target = target
        self._waits_for_target = False
        self.has_ended = False
        poller.on_readable(source, self.move)

    def _wait_for_source(self) -> None:
        if self._waits_for_target:
            self._waits_for_target = False
            self._poller.forget(self._target)
            self._poller.on_readable(self._source, self.move)

    def _wait_for_target(self) -> None:
        if not self._waits_for_target:
            self._waits_for_target = True
            self._poller.forget(self._source)
            self._poller.on_writable(self._target, self.move)

    def move(self) -> bool:
        """Move what can be moved now. Return False if the relay has ended."""
        if self.has_ended:
            return False
        try:
            if not splice(self._source, self._target, _MOVE_BYTES, None, None, _NONBLOCK):
                self.close()
                return False
        except BlockingIOError:
            # The source is empty or the target is full. Usually the one that this relay waited for
            # is ready, so now it waits for the other. Otherwise it soon waits for the right one:
            # the other is ready at once.
            if self._waits_for_target:
                self._wait_for_source()
            else:
                self._wait_for_target()
        except OSError:  # the other side is closed
            self.close()
            return False
        else:
            if self._waits_for_target:
                self._wait_for_source()
        return True

    def delay_acknowledgements(self) -> None:
        """Delay the acknowledgements of the source, which must be a connection."""
        if not self.has_ended:
            delay_acknowledgements(self._source)

    def drain(self) -> bool:
        """Move until the source has no more bytes for now. Return False if the target is full, True
        otherwise, also if the relay has ended."""
        while self.move():
            if not _is_readable(self._source):
                self._wait_for_source()
                return True
            if self._waits_for_target:
                return False
        return True

    def close(self) -> None:
        """Close both descriptors. Closing twice is fine."""
        if not self.has_ended:
            self.has_ended = True
            self._poller.forget(self._target if self._waits_for_target else self._source)
            os.close(self._source)
            os.close(self._target)


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
