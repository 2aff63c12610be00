"""A fake connection to another node, for tests of streams and pipes. It sends nothing.

A real link carries many streams (stdin, stdout, …) of processes over one socket, by its
multiplexer. A receiver grants credit: how many bytes of a stream it still accepts.
"""

from typing import Any


class FakeMultiplexer:
    """The names of the operations that `FakeLink.perform` records."""

    open_incoming = "open_incoming"
    open_outgoing = "open_outgoing"
    consume = "consume"
    widen = "widen"
    reset = "reset"
    end = "end"

    def __init__(self) -> None:
        self.credits: dict[int, int] = {}


class FakeLink:
    """Records operations and the data that is sent. `room` is how many bytes it still accepts."""

    def __init__(self, room: int = 2**20) -> None:
        self.multiplexer = FakeMultiplexer()
        self.performed: list[tuple[Any, ...]] = []
        self.sent = b""
        self.room = room
        self.unsent_bytes = 0

    @property
    def has_room(self) -> bool:
        return self.room > 0

    def perform(self, operation: str, *arguments: Any) -> None:
        self.performed.append((operation, *arguments))

    def send(self, stream: int, data: bytes | memoryview) -> int:
        count = min(len(data), self.room)
        self.sent += bytes(data[:count])
        self.room -= count
        return count
