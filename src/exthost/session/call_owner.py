"""What a session needs of whoever owns its calls: the call queue (`extension/call_queue.py`)."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from exthost.errors import ExthostError
from exthost.events import Bus
from exthost.session.awaitable_call import WakeBatch
from exthost.session.call import Call
from exthost.session.effects import Completions


class CallOwner(Protocol):
    """Owns the calls of one extension. `is_shared`: other threads send calls, too."""

    extension: str
    bus: Bus
    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    is_shared: bool
    wakes: WakeBatch

    @property
    def has_waiting(self) -> bool:
        """Whether a call waits to be sent."""

    def complete(self, completions: Completions) -> None:
        """These calls were answered."""

    def fail(self, call: Call, error: ExthostError) -> None:
        """This call ends with an error."""

    def cancel(self, call: Call) -> None:
        """Nobody waits for this call any more."""

    def watch_deadline(self, call: Call) -> None:
        """The deadline of this call was set anew."""

    def acknowledged(self, call: Call) -> None:
        """The stream of this call was accepted: its place is free."""

    def hold(self) -> None:
        """Send no call until `release`."""

    def release(self) -> None: ...

    def session_began(self, session: Any) -> None:
        """A session exists: its calls have deadlines from now on."""

    def stop_sending(self, session: Any) -> None:
        """Send no further call through this session."""

    def session_ended(self, session: Any, calls: list[Call]) -> None:
        """A session is over, and these calls of it were not answered."""
