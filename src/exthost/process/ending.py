"""The end of a process, step by step: each dialect says how it is asked, SIGKILL comes last.

A step that is answered by an exit ends the climb at once; nobody waits out a grace that is not
needed. Every step is bounded, so the end is, too.
"""

from collections.abc import Sequence
from typing import Protocol

from exthost.messages import Notification, Request
from exthost.model import CloseStdin, LadderStep, Say, Terminate, Write

# After SIGKILL only the kernel stands between a process and its end.
KILL_SECONDS = 5.0

# The first kill of a namespace is the one that leaves nothing to clear up; a wrapper that hangs
# before there is a namespace needs the second.
CLEAN_KILL_SECONDS = 1.0


class Mortal(Protocol):
    """What is to be ended, as far as the ladder needs to know it."""

    async def say(self, message: Request | Notification, wait: float) -> None: ...
    def write_raw(self, data: bytes) -> None: ...
    def close_stdin(self) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    async def exits_within(self, seconds: float) -> bool: ...


async def climb(ladder: Sequence[LadderStep], mortal: Mortal) -> bool:
    """End it. False only if it is still there after SIGKILL (stuck in the kernel)."""
    for step in ladder:
        wait = 0.0
        match step:
            case Say(message, limit):
                await mortal.say(message, limit)
            case Write(data):
                mortal.write_raw(data)
            case CloseStdin(wait):
                mortal.close_stdin()
            case Terminate(wait):
                mortal.terminate()
        if await mortal.exits_within(wait):
            return True
    mortal.kill()
    if await mortal.exits_within(CLEAN_KILL_SECONDS):
        return True
    mortal.kill()
    return await mortal.exits_within(KILL_SECONDS)
