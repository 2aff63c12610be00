"""The splicer: a small process (`splicer.c`) that moves the bytes of large transfers between
sockets, for the proxy of a sandboxed process.

This module runs in the proxy (`proxy_server`), whose event loop is Python. Moving data there takes
nearly twice the processor time. So once a connection has transferred much in one direction (from
its client to its server, or back), the proxy hands that direction over to the splicer: it sends the
two sockets and a number. When the direction has ended, the splicer answers with the number and an
outcome.

The host starts the splicer, and waits for its exit. If the proxy started the splicer, the splicer
could outlive its parent. In a container whose first process is the host, the kernel would then make
it a child of the host, and the host would have to find and reap it. The splicer exits when the
proxy closes its end of the socket, or ends.

The proxy never waits for the splicer. What the splicer does not take, the proxy copies itself. If
the splicer is killed, its transfers end, and the proxy copies the later ones.
"""

import enum
import socket
import struct
from collections.abc import Callable
from typing import Protocol

# A request to the splicer: the number of the direction. The sockets are sent with it.
_REQUEST = struct.Struct("=I")
# An answer of the splicer: the number of the direction, and the outcome.
_ANSWER = struct.Struct("=II")


class SpliceOutcome(enum.IntEnum):
    """How the splicer finished a direction: `enum outcome` in splicer.c has the same numbers."""

    ENDED = 0  # the source has ended, and the target has all of its bytes
    FAILED = 1
    NOT_TAKEN = 2  # the splicer had no room, and has moved nothing


class ReaderLoop(Protocol):
    """Calls a function when a descriptor is readable."""

    def set_reader(self, fd: int, reader: Callable[[], None] | None) -> None: ...


class Splicer:
    """The proxy's end of the splicer. `channel` is the descriptor of the Unix socket to it; -1 if
    there is none for this machine."""

    def __init__(self, loop: ReaderLoop, channel: int) -> None:
        self._loop = loop
        self._last_number = 0
        self._callbacks: dict[int, Callable[[SpliceOutcome], None]] = {}
        self._channel: socket.socket | None = None
        if channel >= 0:
            self._channel = socket.socket(fileno=channel)
            self._channel.setblocking(False)
            loop.set_reader(channel, self._receive)

    def take(self, source: int, target: int, callback: Callable[[SpliceOutcome], None]) -> int:
        """Let the splicer move all bytes from one socket to another, which are non-blocking.
        `callback` gets the outcome. Return a number for `forget`; 0 if there is no splicer, or if
        it is too busy."""
        if self._channel is None:
            return 0
        number = self._last_number % 0xFFFF_FFFF + 1  # after the largest number, 1 again: never 0
        try:
            socket.send_fds(self._channel, [_REQUEST.pack(number)], [source, target])
        except OSError:  # its queue is full, or it has just ended
            return 0
        self._last_number = number
        self._callbacks[number] = callback
        return number

    def forget(self, number: int) -> None:
        """Do not call the callback of this direction any more."""
        self._callbacks.pop(number, None)

    def close(self) -> None:
        """Close the socket, so that the splicer exits."""
        if self._channel is not None:
            self._loop.set_reader(self._channel.fileno(), None)
            self._channel.close()
            self._channel = None

    def _receive(self) -> None:
        """Read the answers of the splicer, and call the callbacks."""
        while self._channel is not None:
            try:
                answer = self._channel.recv(_ANSWER.size)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                answer = b""
            if len(answer) != _ANSWER.size:  # the splicer has ended, and so have its transfers
                self.close()
                callbacks, self._callbacks = self._callbacks, {}
                for on_failure in callbacks.values():
                    on_failure(SpliceOutcome.FAILED)
                return
            number, outcome = _ANSWER.unpack(answer)
            callback = self._callbacks.pop(number, None)
            if callback is not None:
                callback(SpliceOutcome(outcome))
