"""Messages that are held back while a child waits for our answer to its own request.

Many children are a plain loop: after sending a request they take the next message for its answer.
In dialects with the trait `quiet_while_asked`, notifications, internal requests and further calls
are held back from the moment a request of the child is accepted until it is answered. Then they are
sent in their original order. Calls wait in the call queue, within their own time limits.
`inbound.py` decides which answers end the hold.
"""

from collections.abc import Callable


class OutboundHold:
    """The messages held back for one child. `hold_calls` and `release_calls` hold its calls."""

    __slots__ = ("_held", "_hold_calls", "_release_calls")

    def __init__(self, hold_calls: Callable[[], None], release_calls: Callable[[], None]) -> None:
        self._hold_calls = hold_calls
        self._release_calls = release_calls
        self._held: list[Callable[[], object]] | None = None

    def begin(self) -> None:
        """Hold back from now on."""
        self._held = []
        self._hold_calls()

    def end(self) -> None:
        """Send what was held back: the child has its answer, or is gone."""
        messages, self._held = self._held or [], None
        for send in messages:
            send()
        self._release_calls()

    def keep(self, send: Callable[[], object]) -> bool:
        """Keep this for later and return True. Return False if messages are not held back now."""
        if self._held is None:
            return False
        self._held.append(send)
        return True
