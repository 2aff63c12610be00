"""The proxy's end of the splicer: a small process (`splicer.c`) that moves the bytes of large
transfers between sockets.

The event loop of the proxy is Python, which takes half as long again for each piece of data. So the
proxy hands a direction of a connection over to the splicer once it has transferred much. The
splicer is started for the first one. It exits when the proxy closes its end of the socket, or ends.

The proxy never waits for the splicer. What the splicer does not take, the proxy copies itself. If
the splicer is killed, its transfers end, and another one is started for the next.
"""

import enum
import os
import socket
import struct
from collections.abc import Callable
from typing import Protocol

# An answer of the splicer: the number of the direction, and the outcome.
_ANSWER = struct.Struct("=II")
_NUMBER = struct.Struct("=I")


class Outcome(enum.IntEnum):
    """How the splicer finished a direction: `enum outcome` in splicer.c has the same numbers."""

    ENDED = 0  # the source has ended, and the target has all of its bytes
    FAILED = 1
    NOT_TAKEN = 2  # the splicer had no room, and has moved nothing


class ReaderLoop(Protocol):
    """Calls a function when a descriptor is readable."""

    def set_reader(self, fd: int, reader: Callable[[], None] | None) -> None: ...


class Splicer:
    """Starts the splicer when it is first needed, and hands directions over to it. `program` is a
    descriptor of the program; -1 if there is none for this machine."""

    def __init__(self, loop: ReaderLoop, program: int) -> None:
        self._loop = loop
        self._program = program
        self._channel: socket.socket | None = None
        self._pid = 0
        self._last_number = 0
        self._callbacks: dict[int, Callable[[Outcome], None]] = {}

    @property
    def pid(self) -> int | None:
        """The pid of the splicer; None if it does not run."""
        return self._pid or None

    def take(self, source: int, target: int, callback: Callable[[Outcome], None]) -> int:
        """Let the splicer move all bytes from one socket to another, which are non-blocking.
        `callback` gets the outcome. Return a number for `forget`; 0 if the splicer cannot be
        started or is too busy."""
        if self._channel is None and not self._start():
            return 0
        assert self._channel is not None
        number = self._last_number = self._last_number % 0xFFFF_FFFF + 1
        try:
            socket.send_fds(self._channel, [_NUMBER.pack(number)], [source, target])
        except OSError:  # its queue is full, or it has just ended
            return 0
        self._callbacks[number] = callback
        return number

    def forget(self, number: int) -> None:
        """Do not call the callback of this direction any more."""
        self._callbacks.pop(number, None)

    def close(self) -> None:
        """End the splicer."""
        if self._channel is None:
            return
        self._loop.set_reader(self._channel.fileno(), None)
        self._channel.close()
        self._channel = None
        os.waitpid(self._pid, 0)
        self._pid = 0

    def _start(self) -> bool:
        if self._program < 0:
            return False
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return False
        with theirs:
            try:
                self._pid = os.posix_spawn(
                    f"/proc/self/fd/{self._program}",
                    ("exthost-splicer",),
                    {},
                    file_actions=((os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),),
                )
            except OSError:
                self._program = -1  # it is not tried again for each piece of data
                ours.close()
                return False
        ours.setblocking(False)
        self._channel = ours
        self._loop.set_reader(ours.fileno(), self._receive)
        return True

    def _receive(self) -> None:
        while self._channel is not None:
            try:
                answer = self._channel.recv(_ANSWER.size)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                answer = b""
            if len(answer) != _ANSWER.size:  # it has ended, and with it what it moved
                self.close()
                callbacks, self._callbacks = self._callbacks, {}
                for on_failure in callbacks.values():
                    on_failure(Outcome.FAILED)
                return
            number, outcome = _ANSWER.unpack(answer)
            callback = self._callbacks.pop(number, None)
            if callback is not None:
                callback(Outcome(outcome))
