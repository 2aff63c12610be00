"""Runs the shutdown steps of a dialect, one after the other. SIGKILL is always the last.

The steps stop as soon as the process has exited. Every step has a time limit, so the whole shutdown
has one, too.
"""

from collections.abc import Sequence
from typing import Protocol

from exthost.messages import Notification, Request
from exthost.shutdown_steps import CloseStdin, Say, ShutdownStep, Terminate, Write

# The wait after SIGKILL. A process that remains after it is stuck in the kernel.
KILL_SECONDS = 5.0

# In a namespace, the first `kill()` closes a pipe to the first process of it, which then ends all
# others. If the wrapper hangs before it has made the namespace, the second `kill()` is a SIGKILL.
CLEAN_KILL_SECONDS = 1.0


class Stoppable(Protocol):
    """A process that the shutdown steps can be run on."""

    async def say(self, message: Request | Notification, wait: float) -> None: ...
    def write_raw(self, data: bytes) -> None: ...
    def close_stdin(self) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    async def exits_within(self, seconds: float) -> bool: ...


async def run_steps(steps: Sequence[ShutdownStep], process: Stoppable) -> bool:
    """Run the steps until the process has exited; if none of them ends it, kill it. Return whether
    it has exited."""
    for step in steps:
        wait = 0.0  # seconds, which two of the patterns set
        match step:
            case Say(message, reply_seconds):
                await process.say(message, reply_seconds)
            case Write(data):
                process.write_raw(data)
            case CloseStdin(wait):
                process.close_stdin()
            case Terminate(wait):
                process.terminate()
        if await process.exits_within(wait):
            return True
    process.kill()
    if await process.exits_within(CLEAN_KILL_SECONDS):
        return True
    process.kill()
    return await process.exits_within(KILL_SECONDS)
