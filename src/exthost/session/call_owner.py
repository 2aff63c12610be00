"""The interface by which a session uses the owner of its calls, the call queue of the extension.

The call queue (`extension/call_queue.py`) accepts calls, and sends each through a session. It keeps
deadlines and counts outcomes. A session reports to it how each call ended.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from exthost.errors import ExthostError
from exthost.events import Bus
from exthost.session.awaitable_call import WakeBatch
from exthost.session.call import Call
from exthost.session.effects import Completions


class CallOwner(Protocol):
    """Owns the calls of one extension.

    extension  the id of the extension
    bus        the bus on which events are published
    loop, now  the event loop, and its clock
    is_shared  whether calls are submitted from several threads
    is_pool    whether there may be several processes
    wakes      the calls that have ended and whose callers are not resumed yet
    """

    extension: str
    bus: Bus
    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    is_shared: bool
    is_pool: bool
    wakes: WakeBatch

    @property
    def has_waiting(self) -> bool:
        """Whether a call waits to be sent."""

    def complete(self, completions: Completions) -> None:
        """Deliver the values of these calls, which have got their replies."""

    def may_complete_on_thread(self, value: Any) -> bool:
        """Return whether a call may end with this value on its caller's thread, by
        `complete_on_thread`. Otherwise only `complete` may end it, on the loop's thread. Callers of
        the blocking API are on other threads."""

    def complete_on_thread(self, call: Call) -> None:
        """Count the result of this call, whose caller has it already."""

    def pump(self) -> None:
        """Send waiting calls while there is room."""

    def fail(self, call: Call, error: ExthostError) -> None:
        """End this call with an error."""

    def cancel(self, call: Call) -> None:
        """End this call, because its caller does not wait any more."""

    def watch_deadline(self, call: Call) -> None:
        """Watch the deadline of this call, which was set or moved."""

    def acknowledged(self, call: Call) -> None:
        """Stop counting this call as in flight, because the child (the extension's process) has
        accepted its stream."""

    def hold_calls(self) -> None:
        """Send no call until `release_calls`, because the child waits for an answer of the host."""

    def release_calls(self) -> None:
        """Send calls again, because the child has its answer."""

    def session_began(self, session: Any) -> None:
        """Watch the deadlines of a new session's calls from now on."""

    def stop_sending(self, session: Any) -> None:
        """Send no further call through this session."""

    def session_ended(self, session: Any, calls: list[Call]) -> None:
        """Handle the end of a session. `calls` got no reply."""
