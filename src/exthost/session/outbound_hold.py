"""Holds messages back while the child waits for the host's answer to its own request.

Many extensions are a simple loop: after they have sent a request to the host, they read the next
message as the answer. In dialects (protocols) with the trait `quiet_while_asked`, the host sends
nothing else until it has answered. It holds back notifications, requests of its own and further
calls, and then sends them in their original order. Calls wait in the call queue, within their own
time limits. `inbound.py` decides when a hold begins and ends.
"""

from collections.abc import Callable


class OutboundHold:
    """The messages that are held back for one child. `hold_calls` and `release_calls` stop and
    continue the sending of calls in the call queue."""

    __slots__ = ("_held_messages", "_hold_calls", "_release_calls", "held_bytes")

    def __init__(self, hold_calls: Callable[[], None], release_calls: Callable[[], None]) -> None:
        self._hold_calls = hold_calls
        self._release_calls = release_calls
        # Functions that send a message each; None while messages are not held back.
        self._held_messages: list[Callable[[], object]] | None = None
        self.held_bytes = 0  # of the notifications that are held back

    @property
    def is_active(self) -> bool:
        """Whether messages are held back now."""
        return self._held_messages is not None

    def begin(self) -> None:
        """Hold messages back from now on."""
        self._held_messages = []
        self._hold_calls()

    def end(self) -> None:
        """Send the messages that were held back, because the child has its answer or has ended."""
        messages, self._held_messages = self._held_messages or [], None
        self.held_bytes = 0
        for send in messages:
            send()
        self._release_calls()

    def keep(self, send: Callable[[], object], size: int = 0) -> bool:
        """Keep `send`, which must not raise, to be called at the end of the hold, and return True.
        Return False if messages are not held back now. `size` is the size of a notification."""
        if self._held_messages is None:
            return False
        self._held_messages.append(send)
        self.held_bytes += size
        return True
